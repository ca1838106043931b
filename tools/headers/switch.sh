#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Usage: switch.sh RELEASE [ROOT]
#
# Runs depmod after a module was installed or removed. Prints the rpcrdma.ko that
# modprobe loads now, and the commands that replace a loaded one.

release=$1
root=$2
proc=${PROC:-/proc}
sys=${SYS:-/sys}

depmod ${root:+-b "$root"} "$release" || exit 1
now=$(modinfo ${root:+-b "$root"} -k "$release" -n rpcrdma 2>/dev/null) || now='no rpcrdma.ko'
echo "rpcrdma: modprobe on $release takes $now"
[ -z "$root" ] && [ "$(uname -r)" = "$release" ] && [ -d "$sys/module/rpcrdma" ] || exit 0

# The taint flag O marks a module from outside the kernel's tree.
case $(cat "$sys/module/rpcrdma/taint" 2>/dev/null) in
*O*) loaded="an rpcrdma.ko from outside the kernel's tree" ;;
*) loaded="the kernel's own rpcrdma.ko" ;;
esac
echo "rpcrdma: $loaded is loaded at present; to switch:"
# A server chooses the names of mount points below its own, and a shell or a terminal may obey one.
LC_ALL=C awk '$3 ~ /^nfs4?$/ && $4 ~ /(^|,)proto=rdma6?(,|$)/ {
	if ($2 ~ /^[A-Za-z0-9\/._-]+$/) print "    umount " $2
	else others = 1
}
END { if (others) print "    umount the others: see findmnt -t nfs,nfs4" }' "$proc/mounts"
if grep -q '^rdma' "$proc/fs/nfsd/portlist" 2>/dev/null; then
	echo "    stop the NFS server: it listens on RDMA"
fi
# The last connection may close some seconds after umount, or after nfsd has stopped.
echo "    modprobe -r -w 10000 rpcrdma && modprobe rpcrdma"
