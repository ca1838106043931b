#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Usage: deb.sh DIRECTORY
#
# Builds the Debian package in DIRECTORY, from the files that git tracks here, or
# outside a git work tree from all files.

die() { echo "rpcrdma: $*" >&2; exit 1; }

out=$1
for tool in dpkg-buildpackage dh dh_dkms; do
	command -v "$tool" >/dev/null ||
		die "no $tool: apt-get install --no-install-recommends dpkg-dev debhelper dh-dkms"
done
python3 -c 'import docutils' 2>/dev/null ||
	die "no docutils: apt-get install --no-install-recommends python3-docutils"
version=$(dpkg-parsechangelog -S Version) || exit 1
tree=$out/rpcrdma-$version
rm -rf "$tree"
mkdir -p "$tree" || exit 1
if git rev-parse --git-dir >/dev/null 2>&1; then
	git ls-files -z
else
	find . -path "./$out" -prune -o -type f -print0
fi | tar -c --null --no-recursion --ignore-failed-read -T - | tar -x -C "$tree" ||
	die "copying the sources failed"
# -d: the package compiles no program, so the tools that the loop at the start checks are enough.
(cd "$tree" && dpkg-buildpackage -d -us -uc --build=binary,source) >"$out/build.log" 2>&1 ||
	die "dpkg-buildpackage failed: see $out/build.log"
ls -l "$out/rpcrdma-dkms_${version}_all.deb" "$out/rpcrdma-tools_${version}_all.deb"
