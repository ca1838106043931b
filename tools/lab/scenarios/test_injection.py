# SPDX-License-Identifier: GPL-2.0
"""SUNRPC's fault injection breaks connections while a client reads, writes and verifies."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab import mountstats, tracing
from lab.pair import MOUNT_POINT, Pair
from lab.worker import Worker

FAULT = "/sys/kernel/debug/fail_sunrpc"
DATA = f"{MOUNT_POINT}/i"
#: Disconnects one by one.
ROUNDS = 15
INJECTED = "xprtrdma_op_inject_dsc"
CALLED_BACK = "xprtrdma_cb_call"


@contextmanager
def _disconnects(pair: Pair, every: int, times: int = -1) -> Iterator[None]:
    """Breaks the client's connection after one call in `every`, at most `times` times."""
    settings = {
        "ignore-server-disconnect": "Y",
        "ignore-cache-wait": "Y",
        "ignore-client-disconnect": "N",
        # The kernel would print a stack for each fault otherwise.
        "verbose": "0",
        # -1: the kernel does not count them; `probability` ends them.
        "times": str(times),
        "interval": str(every),
        "probability": "100",
    }
    for name, value in settings.items():
        pair.client.sh(f"echo {value} > {FAULT}/{name}")
    try:
        yield
    finally:
        pair.client.sh(f"echo 0 > {FAULT}/probability")


@pytest.mark.parametrize("version", ["3", pytest.param("4.2", marks=pytest.mark.full)])
@pytest.mark.debug_kernel
def test_disconnects_amid_writes(pair: Pair, version: str) -> None:
    """Every 200th call is followed by a disconnect; no data is lost and none is stale."""
    pair.server.sh("rm -rf /srv/export/*")
    with tracing.recording(pair.client, [f"rpcrdma:{INJECTED}"]) as trace:
        pair.mount(version)
        with _disconnects(pair, 200):
            for suite in ("sizes", "names"):
                command = f"python3 /lab/verify.py write {suite} {DATA}-{suite}"
                pair.client.sh(command, timeout=300)
                pair.client.sh("echo 3 > /proc/sys/vm/drop_caches")
                command = f"python3 /lab/verify.py check {suite} {DATA}-{suite}"
                pair.client.sh(command, timeout=300)
        injected = len(trace.events())
    for suite in ("sizes", "names"):
        check = f"python3 /lab/verify.py check {suite} /srv/export/i-{suite}"
        pair.server.sh(check, timeout=300)
    connects = mountstats.parse(pair.client.read("/proc/self/mountstats"), MOUNT_POINT)
    print(f"{injected} disconnects injected, {connects['connect_count']} connections")
    assert injected >= 3
    # Two disconnects may end one connection, and the mount command has clients of its own.
    assert connects["connect_count"] > injected // 2
    pair.umount()


@pytest.mark.full
@pytest.mark.needs_ours
@pytest.mark.parametrize("version", ["3", "4.2"])
def test_each_connection_lasts(pair: Pair, version: str) -> None:
    """Each injected disconnect costs one connection, and nothing else ends a connection.

    SUNRPC encodes an NFSv3 call again if it wakes the call by mistake before the reply arrives. The
    transport then has to close the connection over which the call was sent. Several calls wait for
    each new connection here.
    """
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount(version)
    workers = [Worker(pair, f"w{index}") for index in range(2)]
    with tracing.recording(pair.client, [f"rpcrdma:{INJECTED}"]) as trace:
        for _ in range(ROUNDS):
            with _disconnects(pair, 1, times=1):
                for worker in workers:
                    worker.await_progress(2, 100)
        injected = len(trace.events())
    for worker in workers:
        assert "errors=0" in worker.finish()
    connects = mountstats.parse(pair.client.read("/proc/self/mountstats"), MOUNT_POINT)
    print(f"{injected} disconnects injected, {connects['connect_count']} connections")
    assert injected == ROUNDS
    assert connects["connect_count"] == 1 + injected
    pair.umount()


@pytest.mark.full
def test_disconnects_amid_recalls(pair: Pair) -> None:
    """The server recalls delegations while connections break; each is returned or revoked."""
    count = 50
    files = f"for i in $(seq 0 {count - 1}); do echo file $i > f$i; done"
    pair.server.sh(f"rm -rf /srv/export/*; mkdir /srv/export/d && cd /srv/export/d && {files}")
    pair.mount("4.2")
    reading = f"cd {MOUNT_POINT}/d && for i in $(seq 0 {count - 1}); do cat f$i; done"
    events = [f"rpcrdma:{name}" for name in (INJECTED, CALLED_BACK)]
    with _disconnects(pair, 40), tracing.recording(pair.client, events) as trace:
        for _ in range(3):
            pair.client.sh(reading, timeout=200)
            conflict = pair.server.sh(
                f"python3 /lab/conflict.py /srv/export/d {count}", timeout=200
            )
            print(f"slowest conflicting open: {float(conflict):.1f} s")
        injected, recalled = (len(trace.events(name)) for name in (INJECTED, CALLED_BACK))
    print(f"{injected} disconnects injected, {recalled} callbacks")
    # Three times `count` files are opened and read by the client: two calls a file at least.
    assert injected >= 3 * count * 2 // 40
    assert recalled > 0, "the server recalled no delegation"
    text = pair.client.sh(f"cd {MOUNT_POINT}/d && cat $(ls | sort -V)", timeout=200)
    assert text.count("conflict\n") == 3 * count
    pair.umount()


@pytest.mark.full
def test_soft_calls_end(pair: Pair) -> None:
    """The server never answers, each call breaks its connection: a soft mount aborts the call."""
    pair.server.sh("rm -rf /srv/export/*; echo there > /srv/export/f")
    pair.mount("3", options="soft,nolock,timeo=400,retrans=2")
    pair.client.sh(f"cat {MOUNT_POINT}/f")
    # nfsd asks mountd about the export before it answers.
    pair.server.sh("pkill -STOP mountd && exportfs -f")
    try:
        events = ["sunrpc:rpc_task_end", f"rpcrdma:{INJECTED}"]
        with _disconnects(pair, 1), tracing.recording(pair.client, events) as trace:
            began = time.monotonic()
            touching = pair.client.vm.start(f"touch {MOUNT_POINT}/g")
            # touch makes several calls, and each may wait as long as the first.
            while not any("status=-5" in event.text for event in trace.events("rpc_task_end")):
                assert time.monotonic() < began + 200, "the call goes on and on"
                time.sleep(1)
            took = time.monotonic() - began
            injected = len(trace.events(INJECTED))
    finally:
        pair.server.sh("pkill -CONT mountd")
    print(f"a call was given up after {took:.1f} s and {injected} disconnects")
    # The call is sent three times, and each time the connection breaks.
    assert injected >= 3
    # 40 s, and 40 s more for each retry.
    assert 115 < took < 150
    pair.client.vm.agent.wait(touching, 200)
    pair.client.sh(f"cat {MOUNT_POINT}/f", timeout=120)
    pair.umount()
