# SPDX-License-Identifier: GPL-2.0
"""The server's callbacks over the connections of its clients, when nfsd has a single thread."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab import tracing
from lab.pair import MOUNT_POINT, SERVER_ADDRESS, Pair

pytestmark = pytest.mark.server

THREADS = "/proc/fs/nfsd/threads"
#: Seconds within which a recall must be complete on an idle connection. The lease is 10 s.
PROMPT = 5.0


@contextmanager
def _threads(pair: Pair, count: int) -> Iterator[None]:
    """Gives nfsd that many threads inside the block."""
    pair.server.sh(f"echo {count} > {THREADS}")
    try:
        yield
    finally:
        pair.server.sh(f"echo {pair.setup.threads} > {THREADS}")


def _has_delegation(pair: Pair, name: str, kind: str) -> bool:
    """Whether a client has a delegation of this file: `r` or `w`."""
    states = pair.server.run("cat /proc/fs/nfsd/clients/*/states").stdout.decode()
    lines = [line for line in states.splitlines() if "type: deleg" in line and name in line]
    return any(f"access: {kind}" in line for line in lines)


def _hold(pair: Pair, name: str, kind: str, command: str) -> int:
    """Runs a command that keeps a file open until the client has a delegation for it.

    The command opens the file, and becomes `sleep`.
    """
    deadline = time.monotonic() + 60 * pair.patience
    while True:
        holder = pair.client.vm.start(command)
        pair.client.sh("until pgrep -x sleep; do sleep 0.1; done")
        if _has_delegation(pair, name, kind):
            return holder
        pair.client.run("pkill -x sleep")
        pair.client.vm.agent.wait(holder, 30)
        assert time.monotonic() < deadline, f"no delegation for {name}"


@pytest.mark.parametrize("version", [pytest.param("4.1", marks=pytest.mark.full), "4.2"])
def test_recall(pair: Pair, version: str) -> None:
    """A single thread of nfsd recalls a delegation and serves its return."""
    pair.server.sh("rm -rf /srv/export/*; mkdir /srv/export/d; echo file 0 > /srv/export/d/f0")
    with _threads(pair, 1):
        pair.mount(version)
        holder = _hold(pair, "d/f0", "r", f"exec sleep 1000 < {MOUNT_POINT}/d/f0")
        took = float(pair.server.sh("python3 /lab/conflict.py /srv/export/d 1", timeout=100))
        print(f"the conflicting open took {took:.2f} s")
        assert took < PROMPT
        pair.client.sh("pkill -x sleep")
        pair.client.vm.agent.wait(holder, 30)
        assert pair.client.sh(f"cat {MOUNT_POINT}/d/f0") == "file 0\nconflict\n"
        pair.umount()


#: Opens a file for reading and writing, writes to the page cache, and keeps the file open.
DIRTY = f"""exec 3<>{MOUNT_POINT}/dirty; head -c 12345 /dev/zero >&3; exec sleep 1000 <&3"""
OTHER = "/mnt/other"


@pytest.mark.parametrize("threads", [1, pytest.param(8, marks=pytest.mark.full)])
def test_attributes(pair: Pair, threads: int) -> None:
    """The server asks the holder of a write delegation for a file's size (CB_GETATTR)."""
    pair.server.sh("rm -rf /srv/export/*; : > /srv/export/dirty; chmod 666 /srv/export/dirty")
    with _threads(pair, threads):
        pair.mount("4.2")
        with tracing.recording(pair.client, ["nfs4:nfs4_cb_getattr"]) as trace:
            holder = _hold(pair, "dirty", "w", DIRTY)
            # The second client is the server's guest itself, over TCP.
            pair.server.sh(
                f"mkdir -p {OTHER}; mount -t nfs -o vers=4.2,proto=tcp 127.0.0.1:/export {OTHER}"
            )
            try:
                size = pair.server.sh(f"stat -c %s {OTHER}/dirty", timeout=60).strip()
            finally:
                pair.server.sh(f"umount {OTHER}", timeout=60)
            asked = trace.events()
        print(f"{size} bytes, {len(asked)} callbacks")
        assert size == "12345"
        assert asked
        pair.client.sh("pkill -x sleep")
        pair.client.vm.agent.wait(holder, 30)
        pair.umount()


def _transports(pair: Pair) -> int:
    """Returns the number of the server's own RPC transports, which callbacks use."""
    return len(pair.server.sh("ls /sys/kernel/debug/sunrpc/rpc_xprt").split())


def _await_transports(pair: Pair, before: int) -> None:
    """Waits until the server has no more transports than before."""
    deadline = time.monotonic() + 30 * pair.patience
    while (left := _transports(pair)) > before and time.monotonic() < deadline:
        time.sleep(0.5)
    print(f"{left} transports, before {before}")
    assert left <= before


@pytest.mark.full
@pytest.mark.needs_our_server
def test_recall_after_reconnects(pair: Pair) -> None:
    """Callbacks use the connection that replaces a lost one, with a single thread of nfsd."""
    rounds = 3
    files = f"for i in $(seq 0 {rounds - 1}); do mkdir d$i; echo file 0 > d$i/f0; done"
    pair.server.sh(f"rm -rf /srv/export/*; cd /srv/export && {files}")
    before = _transports(pair)
    with _threads(pair, 1):
        pair.mount("4.2")
        at = pair.client.sh("ls /sys/kernel/sunrpc/xprt-switches/*/xprt-*-rdma/dstaddr").strip()
        for number in range(rounds):
            name = f"d{number}/f0"
            holder = _hold(pair, name, "r", f"exec sleep 1000 < {MOUNT_POINT}/{name}")
            # The client closes the connection, although the address is the same. SUNRPC waits for
            # its send lock, and nothing wakes it when that is free.
            once = f"timeout 1 bash -c 'printf %s {SERVER_ADDRESS} > {at}'"
            pair.client.sh(f"for i in $(seq 30); do {once}; [ $? = 124 ] || break; done")
            # The client connects again, and binds the new connection to its session.
            pair.client.sh(f"touch {MOUNT_POINT}/back", timeout=60)
            time.sleep(2)
            command = f"python3 /lab/conflict.py /srv/export/d{number} 1"
            took = float(pair.server.sh(command, timeout=100))
            print(f"the conflicting open after {number + 1} reconnections took {took:.2f} s")
            assert took < PROMPT
            pair.client.sh("pkill -x sleep")
            pair.client.vm.agent.wait(holder, 30)
        pair.umount()
    _await_transports(pair, before)


@pytest.mark.full
@pytest.mark.needs_our_server
@pytest.mark.parametrize("version", ["4.1", "4.2"])
def test_no_transport_is_left(pair: Pair, version: str) -> None:
    """The transports of callbacks go with their clients."""
    pair.server.sh("rm -rf /srv/export/*")
    before = _transports(pair)
    for _ in range(10):
        pair.mount(version)
        pair.client.sh(f"touch {MOUNT_POINT}/f")
        pair.umount()
    _await_transports(pair, before)
