# SPDX-License-Identifier: GPL-2.0
"""A host changes from the kernel's own module to ours and back, as the guide describes.

Documentation/install.rst, section "Change between the modules", has the steps.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.pair import MOUNT_POINT, Guest, Pair

pytestmark = [pytest.mark.full, pytest.mark.needs_ours]

OVER_TCP = "/mnt/tcp"
#: The modules in turn; each file is written with the first one.
ORDER = ("stock", "ours", "stock")
FORGET = "echo 3 > /proc/sys/vm/drop_caches"


def _modules(pair: Pair) -> dict[str, Path]:
    return {"stock": pair.setup.kernel.stock_module, "ours": pair.setup.client_module}


def _copy(guest: Guest, pair: Pair) -> None:
    """Puts both modules in the guest."""
    for name, path in _modules(pair).items():
        guest.sh(f"mkdir -p /run/{name}")
        guest.write(f"/run/{name}/rpcrdma.ko", path.read_bytes())


def _check_loaded(guest: Guest, name: str) -> None:
    assert ("O" in guest.read("/sys/module/rpcrdma/taint")) == (name == "ours")


def _sum(guest: Guest, path: str) -> str:
    return guest.sh(f"{FORGET}; sha256sum {path}", timeout=120).split()[0]


def test_client(pair: Pair) -> None:
    """Only mounts by RDMA are unmounted; one over TCP stays, and each module reads the file."""
    pair.server.sh("rm -rf /srv/export/*")
    _copy(pair.client, pair)
    pair.client.sh(f"mkdir -p {OVER_TCP}; mount -t nfs -o vers=3,nolock server:/export {OVER_TCP}")
    pair.client.sh(f"dd if=/dev/urandom of={OVER_TCP}/kept bs=1M count=3 conv=fsync 2>/dev/null")
    wanted = _sum(pair.server, "/srv/export/kept")
    try:
        pair.unload()
        for name in ORDER:
            pair.client.sh(f"insmod /run/{name}/rpcrdma.ko")
            _check_loaded(pair.client, name)
            pair.mount("4.2")
            by_rdma = pair.client.sh("findmnt -l -t nfs,nfs4 | grep proto=rdma").splitlines()
            assert [line.split()[0] for line in by_rdma] == [MOUNT_POINT]
            assert _sum(pair.client, f"{MOUNT_POINT}/kept") == wanted
            pair.client.sh(f"date > {MOUNT_POINT}/{name} && sync {MOUNT_POINT}/{name}")
            assert b"in use" in pair.client.run("rmmod rpcrdma").stderr
            pair.umount()
            pair.unload(20)
            assert _sum(pair.client, f"{OVER_TCP}/kept") == wanted
    finally:
        pair.client.run(f"umount {OVER_TCP}")
        pair.load()


def test_server(pair: Pair) -> None:
    """Nfsd stops, and its clients stay mounted: they wait, and continue with the other module."""
    pair.server.sh("rm -rf /srv/export/*")
    _copy(pair.server, pair)
    pair.mount("4.2")
    where = f"{MOUNT_POINT}/kept"
    pair.client.sh(f"dd if=/dev/urandom of={where} bs=1M count=3 conv=fsync 2>/dev/null")
    wanted = _sum(pair.server, "/srv/export/kept")
    holder = pair.client.vm.start(f"exec 3< {where}; exec sleep 1000")
    try:
        for name in ORDER:
            assert b"in use" in pair.server.run("rmmod rpcrdma").stderr
            pair.stop_nfsd()
            pair.unload_server(20)
            pair.server.sh(f"insmod /run/{name}/rpcrdma.ko")
            pair.start_nfsd()
            _check_loaded(pair.server, name)
            assert _sum(pair.client, where) == wanted
            assert _sum(pair.client, f"/proc/{holder}/fd/3") == wanted
    finally:
        pair.client.run(f"kill {holder}")
        pair.stop_nfsd()
        pair.unload_server(20)
        pair.load_server()
        pair.start_nfsd()
    pair.umount()
