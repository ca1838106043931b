#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Usage: shared_types.sh KERNEL_BINDINGS OUR_BINDINGS
#
# Prints, joined by "|", the structs and unions that both files define and that
# therefore must keep the kernel crate's identity. A type that is only declared
# in the kernel's file but has a body in ours stays ours if it belongs to the
# families below, of which the kernel crate knows no more than the name.

names() {
	awk '/^pub (struct|union) / {
		n = $3; sub(/[^A-Za-z0-9_].*/, "", n)
		if ((getline l) <= 0) l = ""
		print n, (l ~ /pub _address: u8/ || l ~ /_unused: \[u8; 0\]/) ? "opaque" : "full"
	}' "$1"
}

list=$({ names "$1" | sed 's/$/ K/'; names "$2" | sed 's/$/ O/'; } | awk '
	$3 == "K" { k[$1] = $2 }
	$3 == "O" && ($1 in k) && $1 !~ /^__(Bindgen|Incomplete)/ &&
	(k[$1] == "full" || $2 == "opaque" || $1 !~ /^(ib|rdma|iw|rpc|svc|xprt|xdr)_/) {
		s = s (s == "" ? "" : "|") $1
	}
	END { print s }')

# bindgen without rustfmt writes one long line, in which awk finds no type at
# all; an empty list would then fail much later with dozens of odd errors.
if [ -z "$list" ]; then
	echo "shared_types.sh: no shared type found in $2: is rustfmt installed?" \
	     "Install it, remove $1 and $2, and build again." >&2
	exit 1
fi
echo "$list"
