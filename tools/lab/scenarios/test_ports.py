# SPDX-License-Identifier: GPL-2.0
"""A mount with several connections uses several ports of the client (rdma_local_addrs)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lab.fixtures import Tunables
from lab.harness import Options
from lab.nfsrdma import TOOL, doctor, install
from lab.pair import MOUNT_POINT, SERVER_ADDRESS, Pair
from lab.worker import Worker

#: The addresses of the client's ports.
ADDRESSES = ("10.0.0.2", "10.0.0.102")
BOTH = ",".join(ADDRESSES)
#: The address of the server's second port.
OTHER_ADDRESS = "10.0.0.101"
#: Most seconds until calls of a connection whose port has gone are answered over another port.
STALL = 3.0
#: Versions of NFS, and of RPC-over-RDMA.
TWO = [pytest.mark.server, pytest.mark.server_long, pytest.mark.needs_our_server]
VERSIONS = pytest.mark.parametrize(
    ("version", "below"),
    [
        ("4.2", "1"),
        pytest.param("3", "2", marks=TWO),
        ("3", "1"),
        pytest.param("4.2", "2", marks=TWO),
    ],
)

pytestmark = [
    pytest.mark.full,
    pytest.mark.needs_ours,
    pytest.mark.rxe_only,
    pytest.mark.parametrize("pair", [Options(ports=2)], indirect=True),
]


def _bytes(pair: Pair) -> list[int]:
    """Returns how many bytes each port of the client has sent and received."""
    found = []
    for port in range(len(ADDRESSES)):
        counters = f"/sys/class/net/eth{port}/statistics/[rt]x_bytes"
        found.append(sum(map(int, pair.client.sh(f"cat {counters}").split())))
    return found


def _connections(pair: Pair) -> list[int]:
    """Returns how many connections of the client each of its ports has."""
    shown = pair.client.sh("rdma resource show qp").splitlines()
    ready = [line for line in shown if "type RC" in line and "state RTS" in line]
    return [sum(f"link rxe{port}/" in line for line in ready) for port in range(len(ADDRESSES))]


def _await_connections(pair: Pair, wanted: list[int], limit: float = 30) -> None:
    """Waits until the ports have these numbers of connections."""
    deadline = time.monotonic() + limit * pair.patience
    while (found := _connections(pair)) != wanted:
        assert time.monotonic() < deadline, f"connections by port: {found}, not {wanted}"
        time.sleep(0.2)


@contextmanager
def _unplugged(pair: Pair, port: int) -> Iterator[None]:
    """Pulls the plug of one of the client's ports for as long as the block runs."""
    monitor = pair.client.vm.monitor
    monitor.call("set_link", name=f"port{port}", up=False)
    try:
        yield
    finally:
        monitor.call("set_link", name=f"port{port}", up=True)


@VERSIONS
def test_spread(pair: Pair, tunables: Tunables, version: str, below: str) -> None:
    """Four connections carry the bytes of a mount over both ports, evenly."""
    pair.server.sh("rm -rf /srv/export/*")
    tunables.set(rdma_local_addrs=BOTH, rdma_version=below)
    pair.mount(version, options="nconnect=4")
    before = _bytes(pair)
    copy = "dd bs=64k count=512 status=none"
    pair.client.sh(f"{copy} if=/dev/urandom of={MOUNT_POINT}/f oflag=direct", timeout=200)
    pair.client.sh(f"{copy} if={MOUNT_POINT}/f of=/dev/null iflag=direct", timeout=200)
    carried = [after - first for first, after in zip(before, _bytes(pair), strict=True)]
    print(f"bytes by port: {carried}")
    assert _connections(pair) == [2, 2]
    assert min(carried) > 0.8 * max(carried)
    pair.umount()


# In one run of twelve the port that was back sent no datagram of the connection manager any more.
# Probably rxe's did not survive one that was sent without a link (lab-traps.rst).
@pytest.mark.by_the_clock
@VERSIONS
def test_port_dies(pair: Pair, tunables: Tunables, version: str, below: str) -> None:
    """Connections of a port that loses its link move to the other port, and later return."""
    pair.server.sh("rm -rf /srv/export/*")
    tunables.set(rdma_local_addrs=BOTH, rdma_version=below)
    pair.mount(version, options="nconnect=4")
    worker = Worker(pair)
    for port in (1, 0):
        _await_connections(pair, [2, 2])
        worker.mark()
        with _unplugged(pair, port):
            worker.await_progress(40, 60)
            _await_connections(pair, [4, 0] if port else [0, 4])
            stall = worker.standstill()
        print(f"port {port}: standstill of {stall:.2f} s")
        assert stall < STALL * pair.patience
        # The next connections are made from the port that is back.
        pair.restart_nfsd()
    said = worker.finish()
    print(said)
    assert "errors=0" in said
    pair.umount()


@pytest.mark.by_the_clock
@VERSIONS
def test_device_removed(pair: Pair, tunables: Tunables, version: str, below: str) -> None:
    """Connections of a device that is removed move to the other port within seconds."""
    pair.server.sh("rm -rf /srv/export/*")
    tunables.set(rdma_local_addrs=BOTH, rdma_version=below)
    pair.mount(version, options="nconnect=4")
    worker = Worker(pair)
    worker.mark()
    pair.client.sh("rdma link del rxe1", timeout=120)
    try:
        worker.await_progress(40, 60)
        _await_connections(pair, [4, 0])
        stall = worker.standstill()
    finally:
        pair.client.sh("rdma link add rxe1 type rxe netdev eth1")
    print(f"standstill of {stall:.2f} s")
    assert stall < STALL * pair.patience
    said = worker.finish()
    print(said)
    assert "errors=0" in said
    pair.umount()


def test_address_of_another_host(pair: Pair, tunables: Tunables) -> None:
    """Addresses that the client lacks are left out; with none of its own, the route decides."""
    for value, wanted in (("10.0.0.77,10.0.0.102", [0, 2]), ("10.0.0.77,fd00::77", [2, 0])):
        tunables.set(rdma_local_addrs=value)
        pair.mount("4.2", options="nconnect=2")
        assert _connections(pair) == wanted
        pair.umount()


def _rails(pair: Pair) -> dict[str, list[dict[str, Any]]]:
    """Returns what nfsrdma shows of the mount while files are read."""
    read = f"dd if={MOUNT_POINT}/f of=/dev/null bs=64k iflag=direct status=none"
    busy = f"touch /tmp/busy; (while [ -e /tmp/busy ]; do {read}; done) &"
    # The transports take turns, so that each must get some calls.
    seconds = round(3 * pair.patience)
    shown = f"{TOOL} rails --json --seconds {seconds} {MOUNT_POINT}; rm /tmp/busy; wait"
    told = json.loads(pair.client.sh(f"{busy} {shown}", timeout=120))
    return {"transports": told["mounts"][0]["transports"], "ports": told["ports"]}


def test_rails(pair: Pair, tunables: Tunables) -> None:
    """The command nfsrdma shows the ports of a mount, and adds and removes a path to the server."""
    install(pair)
    tunables.set(rdma_local_addrs=BOTH)
    pair.mount("4.2", options="nconnect=2")
    pair.client.sh(f"dd if=/dev/zero of={MOUNT_POINT}/f bs=64k count=16 oflag=direct status=none")
    told = _rails(pair)
    assert sorted(entry["port"] for entry in told["transports"]) == ["rxe0/1", "rxe1/1"]
    for entries, name in ((told["transports"], "calls"), (told["ports"], "bytes")):
        counts = [entry[name] for entry in entries]
        print(f"{name}: {counts}")
        assert len(counts) == 2
        assert min(counts) > 0.8 * max(counts)
    added = pair.client.sh(f"{TOOL} rails --add {OTHER_ADDRESS} {MOUNT_POINT}").split()[0]
    found = [entry for entry in _rails(pair)["transports"] if entry["server"] == OTHER_ADDRESS]
    assert [f"xprt-{entry['transport']}" for entry in found] == [added]
    assert found[0]["calls"] > 0
    pair.client.sh(f"{TOOL} rails --remove {added} {MOUNT_POINT}")
    servers = [entry["server"] for entry in _rails(pair)["transports"]]
    assert servers == [SERVER_ADDRESS] * 2
    assert "ports-uneven" not in doctor(pair.client)
    with _unplugged(pair, 1):
        assert [entry["connections"] for entry in _rails(pair)["ports"]][:1] == [2]
    state = "/sys/class/infiniband/rxe1/ports/1/state"
    pair.client.sh(f"until grep -q ACTIVE {state}; do sleep 1; done")
    assert doctor(pair.client)["ports-uneven"].startswith("nfsrdma rails ")
    pair.umount()
