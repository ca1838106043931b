#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Usage: KDIR=tree RUSTC=... BINDGEN=... LLVM=... preflight.sh
#
# Checks whether these tools can build the module against this kernel tree. On a
# fault it prints one line that says what to install or set, and fails.

die() { echo "rpcrdma: $*" >&2; exit 1; }

# number VERSION: converts a version to a number for comparisons: 1.96.0 to 1096000
number() { echo "$1" | awk -F. '{ printf "%d\n", ($1 * 1000 + $2) * 1000 + $3 }'; }
older() { [ "$(number "$1")" -lt "$(number "$2")" ]; }

codename=$(sed -n 's/^VERSION_CODENAME=//p' "${OS_RELEASE:-/etc/os-release}" 2>/dev/null)

# package NAME: prints the package's name in this release of Debian. Release 12 has
# a compiler that is new enough only in the packages for its web browsers.
package() {
	case $codename:$1 in
	bookworm:rustc) echo rustc-web ;;
	bookworm:rust-src) echo rust-web-src ;;
	bookworm:rustfmt) echo rustfmt-web ;;
	bookworm:libclang-dev) echo libclang-19-dev ;;
	*) echo "$1" ;;
	esac
}

lab="'make run' builds such a kernel"

check_tree() {
	[ -n "$KDIR" ] || die "KDIR is not set: give a kernel build tree, make KDIR=..."
	[ -d "$KDIR" ] ||
		die "$KDIR: no such directory: give a kernel build tree, make KDIR=... ($lab)"
	if [ ! -e "$KDIR/Makefile" ] || [ ! -e "$KDIR/.config" ]; then
		die "$KDIR is not a kernel build tree (no Makefile or no .config): set KDIR= ($lab)"
	fi
	check_range
	# Debian's header packages contain nothing of rust/, and lack the scripts below.
	if [ -e "$KDIR/.kernelvariables" ] && ! [ -e "$KDIR/rust/libkernel.rmeta" ]; then
		die "$KDIR has no Rust metadata yet: run 'make headers' as root" \
			"(tools/prepare-headers, once per kernel)"
	fi
	scripts=$KDIR/scripts
	[ -e "$scripts/min-tool-version.sh" ] || scripts=$KDIR/source/scripts
	[ -e "$scripts/min-tool-version.sh" ] ||
		die "$KDIR has no scripts/min-tool-version.sh:" \
			"KDIR= needs a tree of Linux 7.2 or newer"
}

# check_range: requires Linux 7.2, the oldest kernel with the interfaces of the module, and warns of
# kernels on which it was not run (see Documentation/kernel-range.rst). A tree that was only
# configured has no release yet.
check_range() {
	release=$(cat "$KDIR/include/config/kernel.release" 2>/dev/null)
	[ -n "$release" ] || return 0
	! older "${release%%[-+~]*}" 7.2 ||
		die "$KDIR is for kernel $release: rpcrdma needs Linux 7.2 or newer"
	older "${release%%[-+~]*}" 7.4 ||
		echo "rpcrdma: $KDIR is for kernel $release:" \
			"rpcrdma was not tried on Linux 7.4 or newer" >&2
}

# has OPTION: tests whether the option is y or m
has() { grep -q "^CONFIG_$1=[ym]$" "$KDIR/.config"; }

check_config() {
	has RUST ||
		die "$KDIR was built without CONFIG_RUST=y:" \
			"set KDIR= to a kernel that has it ($lab)"
	# dkms.conf has the same options. Without MODULE_UNLOAD the kernel exports no functions that
	# count the references to a module.
	for option in MODULES MODULE_UNLOAD SYSCTL INFINIBAND INFINIBAND_ADDR_TRANS SUNRPC \
		SUNRPC_BACKCHANNEL; do
		has $option ||
			die "$KDIR was built without CONFIG_$option:" \
				"set KDIR= to a kernel that has it ($lab)"
	done
	# Without a list of symbols to keep, the kernel exports only those that its own modules use.
	! grep -q '^CONFIG_UNUSED_KSYMS_WHITELIST=""$' "$KDIR/.config" ||
		die "$KDIR was built with CONFIG_TRIM_UNUSED_KSYMS=y, so it lacks symbols that rpcrdma" \
			"needs: rebuild that kernel without the option"
	! grep -q '^CONFIG_SUNRPC_XPRT_RDMA=y$' "$KDIR/.config" ||
		die "$KDIR has the C implementation built in:" \
			"set CONFIG_SUNRPC_XPRT_RDMA to m or n and rebuild that kernel"
	for file in include/generated/autoconf.h rust/libkernel.rmeta; do
		[ -e "$KDIR/$file" ] ||
			die "$KDIR is not prepared for Rust modules (no $file):" \
				"run 'make modules_prepare' there, or set KDIR="
	done
}

# check_cc: requires the compiler that built the tree, because GCC and clang have different flags.
check_cc() {
	suffix=
	prefix=
	case $LLVM in
	'') ;;
	-*) suffix=$LLVM ;;
	*/) prefix=$LLVM ;;
	esac
	if [ -z "$LLVM" ]; then
		! grep -q '^CONFIG_CC_IS_CLANG=y$' "$KDIR/.config" ||
			die "$KDIR was built with clang: set LLVM=1, or LLVM=-N for version N"
		# A Debian header tree names its compiler in .kernelvariables.
		[ -e "$KDIR/.kernelvariables" ] || command -v "${CC:-gcc}" >/dev/null ||
			die "no C compiler: install $(package gcc)"
		return
	fi
	! grep -q '^CONFIG_CC_IS_GCC=y$' "$KDIR/.config" ||
		die "$KDIR was built with GCC: leave LLVM= out"
	for tool in clang ld.lld; do
		case $tool in
		clang) pkg=clang$suffix ;;
		ld.lld) pkg=lld$suffix ;;
		esac
		command -v "$prefix$tool$suffix" >/dev/null ||
			die "no $prefix$tool$suffix: install $(package "$pkg"), or set LLVM="
	done
}

check_rustc() {
	rustc=${RUSTC:-rustc}
	text=$("$rustc" --version 2>/dev/null) ||
		die "no Rust compiler ($rustc): install $(package rustc), or set RUSTC="
	version=$(echo "$text" | sed -n 's/^rustc \([0-9.]*\).*/\1/p')
	min=$(sh "$scripts/min-tool-version.sh" rustc)
	! older "$version" "$min" ||
		die "$rustc $version is too old, this kernel needs $min:" \
			"install a newer $(package rustc), or set RUSTC="
	built=$(sed -n 's/^CONFIG_RUSTC_VERSION_TEXT="\(.*\)"$/\1/p' "$KDIR/.config")
	[ -z "$built" ] || [ "$built" = "$text" ] ||
		die "$KDIR was built with '$built', but $rustc is '$text': set RUSTC= to the former"
	sysroot=$("$rustc" --print sysroot)
	[ -e "${RUST_LIB_SRC:-$sysroot/lib/rustlib/src/rust/library}/core/src/lib.rs" ] ||
		die "$rustc has no library sources: install $(package rust-src)," \
			"or set RUSTC= to a compiler that has them"
}

check_bindgen() {
	bindgen=${BINDGEN:-bindgen}
	min=$(sh "$scripts/min-tool-version.sh" bindgen)
	get="run 'cargo install --locked bindgen-cli', or set BINDGEN="
	[ "$codename" = bookworm ] || get="install bindgen, or $get"
	version=$("$bindgen" --version 2>/dev/null | sed -n 's/^bindgen \([0-9.]*\).*/\1/p')
	[ -n "$version" ] || die "no bindgen ($bindgen): $get"
	! older "$version" "$min" ||
		die "$bindgen $version is too old, this kernel needs $min: $get"
	# Without rustfmt bindgen writes one long line, which shared_types.sh cannot parse.
	"${RUSTFMT:-rustfmt}" --version >/dev/null 2>&1 ||
		die "no rustfmt, which bindgen needs: install $(package rustfmt), or set RUSTFMT="
}

check_libclang() {
	min=$(sh "$scripts/min-tool-version.sh" llvm)
	version=$("$bindgen" "$scripts/rust_is_available_bindgen_libclang.h" 2>&1 >/dev/null |
		sed -n 's/.*clang version \([0-9][0-9.]*\).*/\1/p' | head -n 1)
	[ -n "$version" ] ||
		die "$bindgen finds no libclang:" \
			"install $(package libclang-dev), or set LIBCLANG_PATH="
	! older "$version" "$min" ||
		die "libclang $version is too old, this kernel needs $min:" \
			"install a newer libclang-N-dev, or set LIBCLANG_PATH="
}

check_tree
check_config
check_cc
check_rustc
check_bindgen
check_libclang
