#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Usage: KDIR=tree toolchain.sh rustc|bindgen [CHOICE]
#
# Prints the compiler or bindgen to use: CHOICE if given, else the first one
# found that can build kernel code, else the bare name (preflight.sh then says
# what is missing). rustup's rustc often comes first in PATH without rust-src,
# with Debian's complete one behind it.

tool=$1
[ -n "$2" ] && { echo "$2"; exit; }

# at_least A B: is version A >= B?
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

want=0
[ -x "$KDIR/source/scripts/min-tool-version.sh" ] && want=$("$KDIR/source/scripts/min-tool-version.sh" "$tool")
[ -x "$KDIR/scripts/min-tool-version.sh" ] && want=$("$KDIR/scripts/min-tool-version.sh" "$tool")
# A tree built with one rustc takes modules of no other.
built=$(sed -n 's/^CONFIG_RUSTC_VERSION_TEXT="\(.*\)"$/\1/p' "$KDIR/.config" 2>/dev/null)

fits() {
	case $tool in
	rustc)
		[ -e "$("$1" --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library/core/src/lib.rs" ] || return 1
		[ -z "$built" ] || [ "$("$1" --version)" = "$built" ] ;;
	bindgen)
		at_least "$("$1" --version 2>/dev/null | sed -n 's/^bindgen \([0-9.]*\).*/\1/p')" "$want" ;;
	esac
}

cache=${XDG_CACHE_HOME:-$HOME/.cache}/rpcrdma-lab
{
	echo "$PATH" | tr ':' '\n' | sed "s,\$,/$tool,"
	echo "/usr/bin/$tool"
	ls -d "$cache"/*/bin/"$tool" "$cache"/bin/"$tool" 2>/dev/null
	echo "$HOME/.cargo/bin/$tool"
} | while read -r path; do
	[ -x "$path" ] && fits "$path" && { echo "$path"; exit; }
done | grep . || echo "$tool"
