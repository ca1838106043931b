# SPDX-License-Identifier: GPL-2.0
"""A mount of NFSv4.2 over two addresses of its server (`max_connect=2`), one of which may be lost.

SUNRPC keeps the transport to an address that is lost, so calls that it has given to this transport
wait.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.harness import Options
from lab.pair import MOUNT_POINT, SERVER_ADDRESS, Pair
from lab.worker import Worker

pytestmark = [
    pytest.mark.both_roles,
    pytest.mark.full,
    pytest.mark.rxe_only,
    # The server's two devices have queue pairs of the same numbers.
    pytest.mark.breaks_rules,
    pytest.mark.parametrize("pair", [Options(ports=2)], indirect=True),
]

#: The address of the server's second port, and the place of its mount.
OTHER_ADDRESS, OTHER = "10.0.0.101", "/mnt/other"
VERIFY, LIMIT = "python3 /lab/verify.py", 400
#: Seconds that calls over a lost address are watched.
AWAY = 8.0
WRITE = f"dd if=/dev/zero of={MOUNT_POINT}/f bs=64k count=8 oflag=direct status=none"
READ = f"dd if={MOUNT_POINT}/f of=/dev/null bs=4k count=64 iflag=direct"
NEW_DEVICE = "rdma link add rxe1 type rxe netdev eth1"
#: How the server loses its second address, and gets it back. The connection manager of rxe may not
#: survive a datagram that it sends without the address (lab-traps.rst).
LOSSES = {
    "device": ("rdma link del rxe1", NEW_DEVICE),
    "address": (
        "ip addr del 10.0.0.101/24 dev eth1",
        f"ip addr add 10.0.0.101/24 dev eth1; rdma link del rxe1; {NEW_DEVICE}",
    ),
}


def _mount(pair: Pair, nconnect: int = 1, more: str = "") -> None:
    """Mounts the export by both addresses, which gives one mount with transports to both.

    `more`: further options, each after a comma.
    """
    options = f"max_connect=2,nconnect={nconnect}{more}"
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount("4.2", options=options)
    words = f"vers=4.2,proto=rdma,port=20049,{options}"
    pair.client.sh(
        f"mkdir -p {OTHER}; mount -t nfs -o {words} {OTHER_ADDRESS}:/export {OTHER}", timeout=120
    )
    _await_connections(pair, [nconnect, 1])


def _connections(pair: Pair) -> list[int]:
    """Returns how many connections lead to each address of the server."""
    shown = pair.client.sh("rdma resource show cm_id | grep -F 'state CONNECT' || true")
    return [shown.count(f"dst-addr {at}:20049 ") for at in (SERVER_ADDRESS, OTHER_ADDRESS)]


def _await_connections(pair: Pair, wanted: list[int], limit: float = 60) -> None:
    """Waits until the addresses have these numbers of connections."""
    deadline = time.monotonic() + limit * pair.patience
    while (found := _connections(pair)) != wanted:
        assert time.monotonic() < deadline, f"connections by address: {found}, not {wanted}"
        time.sleep(0.2)


def _umount(pair: Pair) -> None:
    for at in (OTHER, MOUNT_POINT):
        pair.umount(at)


def _bytes(pair: Pair) -> list[int]:
    """Returns how many bytes the queue pairs at each address of the server have received."""
    counters = "/sys/class/net/eth%d/statistics/rx_bytes"
    return [int(pair.server.read(counters % port)) for port in (0, 1)]


@pytest.mark.parametrize("nconnect", [1, 2])
def test_joined(pair: Pair, nconnect: int) -> None:
    """Both mounts are one, whose calls go to both addresses in turn; all bytes are right."""
    _mount(pair, nconnect)
    worker = Worker(pair)
    before = _bytes(pair)
    for suite in ("sizes", "direct"):
        pair.client.sh(f"{VERIFY} write {suite} {MOUNT_POINT}/{suite}", timeout=LIMIT)
        pair.client.sh("sync; echo 3 > /proc/sys/vm/drop_caches")
        pair.client.sh(f"{VERIFY} check {suite} {OTHER}/{suite}", timeout=LIMIT)
        pair.server.sh(f"{VERIFY} check {suite} /srv/export/{suite}", timeout=LIMIT)
    carried = [after - first for first, after in zip(before, _bytes(pair), strict=True)]
    said = worker.finish()
    share = carried[1] / sum(carried)
    print(f"{carried} bytes by address, {share:.2f} of them by the second one; {said}")
    assert "errors=0" in said
    assert abs(share - 1 / (nconnect + 1)) < 0.15
    assert _connections(pair) == [nconnect, 1]
    _umount(pair)


@contextmanager
def _lost(pair: Pair, loss: str) -> Iterator[None]:
    """Takes the server's second address away for as long as the block runs."""
    pair.server.sh(LOSSES[loss][0], timeout=120)
    try:
        yield
    finally:
        pair.server.sh(LOSSES[loss][1])


def _waiting(pair: Pair) -> list[int]:
    """Reads the file of `WRITE` without the address; returns the processes whose calls wait."""
    readers = [pair.client.vm.start(READ) for _ in range(4)]
    time.sleep(AWAY)
    # SUNRPC prefers the transport with fewer calls, so not every reader need wait.
    waiting = [reader for reader in readers if pair.client.vm.agent.poll(reader) is None]
    assert waiting, "no call waits for the lost address"
    return waiting


@pytest.mark.by_the_clock
@pytest.mark.parametrize("loss", LOSSES)
def test_address_returns(pair: Pair, loss: str) -> None:
    """Calls that wait for a lost address are sent again when it is back; none fails."""
    _mount(pair)
    pair.client.sh(WRITE)
    worker = Worker(pair)
    with _lost(pair, loss):
        readers = _waiting(pair)
    took = worker.await_progress(60, 120)
    for reader in readers:
        done = pair.client.vm.agent.wait(reader, 60)
        assert done.status == 0, done
    said = worker.finish()
    print(f"readers that waited: {len(readers)}; at work again after {took:.1f} s; {said}")
    assert "errors=0" in said
    _await_connections(pair, [1, 1])
    _umount(pair)


#: Seconds within which the mounts must end, and SUNRPC must release the transports.
LET_GO = 120.0
#: The client destroys its session at the end, and waits for that call like for any other.
SOON = ",timeo=50,retrans=1"


def _force(pair: Pair) -> None:
    """Repeats `umount -f`, which ends the calls in flight, until no process makes others."""
    deadline = time.monotonic() + LET_GO * pair.patience
    while any(f" {at} " in pair.client.read("/proc/mounts") for at in (OTHER, MOUNT_POINT)):
        assert time.monotonic() < deadline, "still mounted"
        pair.client.run(f"umount -f {OTHER}; umount -f {MOUNT_POINT}", timeout=60)
        time.sleep(1)


@pytest.mark.by_the_clock
def test_forced_umount(pair: Pair) -> None:
    """`umount -f` ends the calls that wait for a lost address, and the module can be unloaded."""
    _mount(pair, more=SOON)
    pair.client.sh(WRITE)
    with _lost(pair, "device"):
        readers = _waiting(pair)
        began = time.monotonic()
        _force(pair)
        for reader in readers:
            assert pair.client.vm.agent.wait(reader, 30).status not in (0, 124, 137)
        print(f"forced in {time.monotonic() - began:.1f} s")
        began = time.monotonic()
        pair.unload(LET_GO)
        print(f"unloaded after {time.monotonic() - began:.1f} s")
    pair.load()
    _mount(pair)
    pair.client.sh(f"{WRITE} && {READ}")
    _umount(pair)
