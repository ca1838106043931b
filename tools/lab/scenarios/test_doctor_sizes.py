# SPDX-License-Identifier: GPL-2.0
"""The doctor compares connections with the settings of both ends, and looks for filters."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.fixtures import Tunables
from lab.nfsrdma import doctor, install
from lab.pair import MOUNT_POINT, Guest, Pair

pytestmark = [
    pytest.mark.full,
    pytest.mark.needs_ours,
    pytest.mark.needs_our_server,
    pytest.mark.server,
    pytest.mark.rxe_only,
]


@pytest.fixture
def tools(pair: Pair) -> Pair:
    """The pair, with the command on both guests."""
    return install(pair)


def _mount(tools: Pair) -> None:
    tools.mount("4.2")
    tools.client.sh(f"ls {MOUNT_POINT}")


def test_server_that_takes_less(tools: Pair, tunables: Tunables, server_tunables: Tunables) -> None:
    """The commands that are named help; packets are then short if the MTU is."""
    server_tunables.set(**{"svc_rdma/max_req_size": 4096})
    tunables.set_thresholds(16384)
    _mount(tools)
    mtu = int(tools.client.read("/sys/class/net/eth0/mtu"))
    fix = doctor(tools.client)["server-limits"]
    tools.server.sh(fix.splitlines()[0])
    # The second command helps in either version.
    tools.umount()
    _mount(tools)
    assert "server-limits" not in doctor(tools.client)
    assert ("mtu-packets" in doctor(tools.client)) == (mtu < 4096 + 96)
    tools.umount()


def test_packets(tools: Pair, tunables: Tunables, server_tunables: Tunables) -> None:
    """An interface with the MTU of Ethernet, and large inline messages."""
    server_tunables.set(**{"svc_rdma/max_req_size": 16384})
    tunables.set_thresholds(16384)
    mtu = tools.client.read("/sys/class/net/eth0/mtu").strip()
    for guest in (tools.client, tools.server):
        guest.sh("ip link set eth0 mtu 1500")
    try:
        _mount(tools)
        fix = doctor(tools.client)["mtu-packets"]
        assert fix.startswith("ip link set eth0 mtu 4200 ")
        tools.umount()
    finally:
        for guest in (tools.client, tools.server):
            guest.sh(f"ip link set eth0 mtu {mtu}")


def test_clients_that_take_less(tools: Pair, server_tunables: Tunables) -> None:
    """A server with a large setting, and a client with the default."""
    server_tunables.set(**{"svc_rdma/max_req_size": 16384})
    _mount(tools)
    assert "rdma_max_inline_read=16384" in doctor(tools.server)["clients-limit"]
    assert "server-limits" not in doctor(tools.client)
    tools.umount()


def test_settings_of_an_earlier_connection(
    tools: Pair, tunables: Tunables, server_tunables: Tunables
) -> None:
    """Values that were lowered, and raised, after the connection was made."""
    _mount(tools)
    assert not {"settings-later", "queue-short"} & set(doctor(tools.server))
    server_tunables.set(**{"svc_rdma/max_requests": 64})
    assert "umount and mount again" in doctor(tools.server)["settings-later"]
    server_tunables.set(**{"svc_rdma/max_requests": 256})
    tunables.set(rdma_slot_table_entries=256)
    for guest in (tools.client, tools.server):
        assert "queue-short" in doctor(guest)
    tools.umount()
    _mount(tools)
    for guest in (tools.client, tools.server):
        assert not {"settings-later", "queue-short"} & set(doctor(guest))
    tools.umount()


def test_port_of_the_listener(tools: Pair) -> None:
    """nfs.conf was changed while nfsd runs; the command that is named helps."""
    server = tools.server
    server.sh("nfsconf --set nfsd rdma y; nfsconf --set nfsd rdma-port 20050")
    try:
        fix = doctor(server)["listener-differs"]
        server.sh(fix.splitlines()[0])
        assert "rdma 20050" in server.read("/proc/fs/nfsd/portlist")
        assert "listener-differs" not in doctor(server)
    finally:
        server.sh("nfsconf --unset nfsd rdma; nfsconf --unset nfsd rdma-port")
        tools.restart_nfsd()
    assert "listener-differs" not in doctor(server)


@contextmanager
def _in_place_of(guest: Guest, folder: str, files: dict[str, str]) -> Iterator[None]:
    """Puts files in place of a folder of the kernel."""
    guest.sh(f"mount -t tmpfs none {folder}")
    try:
        for name, text in files.items():
            guest.sh(f"mkdir -p $(dirname {folder}/{name}); echo '{text}' > {folder}/{name}")
        yield
    finally:
        guest.sh(f"umount {folder}")


def test_way_to_memory(tools: Pair) -> None:
    """A strict IOMMU, a confidential guest, and bounce buffers that were used up."""
    client = tools.client
    device = {
        "rxe0/node_type": "1: CA",
        "rxe0/ports/1/state": "4: ACTIVE",
        "rxe0/device/iommu_group/type": "DMA",
    }
    with _in_place_of(client, "/sys/class/infiniband", device):
        assert "iommu.strict=0" in doctor(client)["iommu-strict"]
    told = "Memory Encryption Features active: AMD SEV SEV-ES SEV-SNP"
    client.sh("mkdir -p /run/guest")
    client.write("/run/guest/dmesg", f"#!/bin/sh\necho '{told}'\n".encode())
    client.sh("chmod +x /run/guest/dmesg")
    found = doctor(client, prefix="PATH=/run/guest:$PATH")
    assert found["confidential"].startswith("cat /sys/kernel/debug/swiotlb/io_tlb_used_hiwater ")
    used = {"io_tlb_nslabs": "1024", "io_tlb_used": "3", "io_tlb_used_hiwater": "1020"}
    with _in_place_of(client, "/sys/kernel/debug/swiotlb", used):
        assert doctor(client)["bounce-buffers-low"].startswith("swiotlb=2048 ")
    assert not {"iommu-strict", "confidential", "bounce-buffers-low"} & set(doctor(client))


def test_host_without_rdma(tools: Pair) -> None:
    """The server answers over TCP, and nothing there takes the packets of RoCE."""
    tools.server.sh("rdma link del rxe0")
    try:
        assert "UDP port 4791" in doctor(tools.client, "server")["port-filtered"]
    finally:
        tools.server.sh("rdma link add rxe0 type rxe netdev eth0")
    deadline = time.monotonic() + 60
    while "port-filtered" in doctor(tools.client, "server"):
        assert time.monotonic() < deadline


#: A device of iWARP that leads to a host which answers nothing.
SILENT = """
ip link add t0 type dummy && ip link set t0 up && ip address add 192.0.2.2/24 dev t0
ip neighbour add 192.0.2.1 lladdr 02:00:00:00:00:98 dev t0
rdma link add siw1 type siw netdev t0
"""


def test_port_over_iwarp(tools: Pair) -> None:
    """A TCP port that is filtered, which the doctor can ask without a queue pair."""
    tools.client.sh(SILENT)
    try:
        assert "TCP port 20049 has to pass" in doctor(tools.client, "192.0.2.1")["port-dropped"]
    finally:
        tools.client.sh("rdma link del siw1; ip link del t0")
