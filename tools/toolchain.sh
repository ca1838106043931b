#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Usage: KDIR=tree toolchain.sh rustc|bindgen [CHOICE]
#
# Prints the compiler or bindgen to use: CHOICE if given, else the first program
# that can build kernel code, else the bare name (preflight.sh then reports the
# missing program). In many cases rustup's rustc, without rust-src, is in PATH
# before Debian's complete one.

tool=$1
[ -n "$2" ] && { echo "$2"; exit; }

# at_least A B: tests whether version A is at least B
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

want=0
for scripts in "$KDIR/source/scripts" "$KDIR/scripts"; do
	[ -x "$scripts/min-tool-version.sh" ] && want=$("$scripts/min-tool-version.sh" "$tool")
done
# A module must be built with the rustc that built the tree.
built=$(sed -n 's/^CONFIG_RUSTC_VERSION_TEXT="\(.*\)"$/\1/p' "$KDIR/.config" 2>/dev/null)

fits() {
	case $tool in
	rustc)
		sysroot=$("$1" --print sysroot 2>/dev/null)
		[ -e "$sysroot/lib/rustlib/src/rust/library/core/src/lib.rs" ] || return 1
		[ -z "$built" ] || [ "$("$1" --version)" = "$built" ] ;;
	bindgen)
		version=$("$1" --version 2>/dev/null | sed -n 's/^bindgen \([0-9.]*\).*/\1/p')
		at_least "$version" "$want" ;;
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
