# SPDX-License-Identifier: GPL-2.0
"""An administrator changes the transports of a mount under load in /sys/kernel/sunrpc."""

from __future__ import annotations

import time

import pytest

from lab.agent import Exit
from lab.pair import MOUNT_POINT, SERVER_ADDRESS, Pair
from lab.worker import Worker

TRANSPORTS = 3
ELSEWHERE = "10.0.0.3"
#: Operations of the worker that are enough for each transport to get some.
ENOUGH = 60


def _switch(pair: Pair) -> str:
    """Returns the directory of the mount's transports."""
    mine = f"grep -l 'num_xprts={TRANSPORTS}' /sys/kernel/sunrpc/xprt-switches/*/xprt_switch_info"
    found = pair.client.sh(mine).split()
    assert len(found) == 1, found
    return found[0].rpartition("/")[0]


def _transports(pair: Pair, switch: str) -> list[str]:
    """Returns the directory of each transport."""
    return pair.client.sh(f"ls -d {switch}/xprt-*").split()


def _connected(pair: Pair, switch: str, *, main: int) -> list[str]:
    """Returns the main transport, or the other transports that have a connection."""
    files = f"grep -lx main_xprt={main} {switch}/xprt-*/xprt_info"
    return [file.rpartition("/")[0] for file in pair.client.sh(files).split()]


def _await_connections(pair: Pair, count: int, to: str = SERVER_ADDRESS) -> None:
    """Waits until there are that many connections, all of them to the address `to`."""
    deadline = time.monotonic() + 20 * pair.patience
    while True:
        shown = pair.client.sh("rdma resource show cm_id | grep -F 'state CONNECT' || true")
        if shown.count("\n") == shown.count(f"dst-addr {to}:20049 ") == count:
            return
        assert time.monotonic() < deadline, shown
        time.sleep(0.2)


def _attempt(pair: Pair, path: str, text: str) -> Exit:
    """Writes to a file of a transport, with repetitions.

    SUNRPC waits there for the send lock of the transport, and nothing wakes it when that is free.
    """
    once = f"timeout 1 bash -c 'printf %s {text} > {path}'"
    again = f"for i in $(seq 30); do {once}; status=$?; [ $status = 124 ] || break; done"
    return pair.client.run(f"{again}; exit $status")


def _write(pair: Pair, path: str, text: str) -> None:
    done = _attempt(pair, path, text)
    assert done.status == 0, done


@pytest.mark.full
@pytest.mark.parametrize("version", ["4.2", "3"])
def test_transports(pair: Pair, version: str) -> None:
    """A transport can go offline, come online, be removed and be replaced under load."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount(version, options=f"nconnect={TRANSPORTS}")
    worker = Worker(pair)
    switch = _switch(pair)
    _await_connections(pair, TRANSPORTS)
    (first,), (one, *_) = (_connected(pair, switch, main=main) for main in (1, 0))
    assert b"Invalid argument" in _attempt(pair, f"{first}/xprt_state", "offline").stderr
    for state in ("offline", "online", "offline", "remove"):
        _write(pair, f"{one}/xprt_state", state)
        print(f"{state}: at work again after {worker.await_progress(ENOUGH, 60):.1f} s")
    left = _transports(pair, switch)
    assert len(left) == TRANSPORTS - 1
    assert one not in left
    _await_connections(pair, TRANSPORTS - 1)
    _write(pair, f"{switch}/add_xprt", "1")
    worker.await_progress(ENOUGH, 60)
    assert len(_transports(pair, switch)) == TRANSPORTS
    _await_connections(pair, TRANSPORTS)
    said = worker.finish()
    print(said)
    assert "errors=0" in said
    pair.umount()


@pytest.mark.full
@pytest.mark.parametrize("version", ["4.2", "3"])
def test_another_address(pair: Pair, version: str) -> None:
    """A mount can move to the other address of its server under load, and back."""
    pair.server.sh(f"rm -rf /srv/export/*; ip addr replace {ELSEWHERE}/24 dev eth0")
    pair.mount(version, options="nconnect=1")
    worker = Worker(pair)
    at = pair.client.sh("ls /sys/kernel/sunrpc/xprt-switches/*/xprt-*-rdma/dstaddr").strip()
    assert len(at.split()) == 1, at
    for address in (ELSEWHERE, SERVER_ADDRESS):
        _write(pair, at, address)
        print(f"{address}: at work again after {worker.await_progress(ENOUGH, 60):.1f} s")
        assert pair.client.read(at).strip() == address
        _await_connections(pair, 1, address)
    said = worker.finish()
    print(said)
    assert "errors=0" in said
    pair.umount()


@pytest.mark.full
@pytest.mark.rxe_only
def test_rpcbind(pair: Pair) -> None:
    """With `port=0` the client of NFSv3 asks the server's rpcbind, which has the port of TCP.

    RoCE has port numbers of its own, so a server can listen at the same number.
    """
    pair.server.sh("rm -rf /srv/export/*; echo 'rdma 2049' > /proc/fs/nfsd/portlist")
    pair.mount("3", options="port=0")
    pair.client.sh(f"echo bound > {MOUNT_POINT}/f && sync {MOUNT_POINT}/f")
    assert pair.server.read("/srv/export/f") == "bound\n"
    shown = pair.client.sh("rdma resource show cm_id | grep -F 'state CONNECT'")
    assert f"dst-addr {SERVER_ADDRESS}:2049 " in shown
    pair.umount()
