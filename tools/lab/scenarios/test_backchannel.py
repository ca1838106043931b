# SPDX-License-Identifier: GPL-2.0
"""Callbacks of NFSv4.1 and 4.2: the server recalls delegations over the client's connection.

The server grants read delegations; then a process on the server itself opens the files for
writing, which has to wait until the client has returned them. Without callbacks that takes
until the server loses patience, after the lease time or more.
"""

from __future__ import annotations

import re
import time

import pytest

from lab import mountstats, tracing
from lab.harness import Options
from lab.pair import MOUNT_POINT, Pair

EVENTS = [f"rpcrdma:xprtrdma_cb_{what}" for what in ("setup", "call", "reply")]
#: Seconds in which a recall must be done with on an idle connection. The lease is 10 s.
PROMPT = 5.0


def _prepare(pair: Pair, count: int) -> None:
    """So many files on the server, each with a line of its own."""
    files = f"for i in $(seq 0 {count - 1}); do echo file $i > f$i; done"
    pair.server.sh(f"rm -rf /srv/export/*; mkdir /srv/export/d && cd /srv/export/d && {files}")


def _take(pair: Pair, count: int, least: int = 1) -> None:
    """Read all files on the client, which gets and keeps delegations of `least` of them or more.

    The server grants none before it has tried its callback channel, nor in its grace period, nor
    of what it has recalled within the last minute, nor of much else if that was a lot (its filter
    is of 256 bits). The client keeps none that it has not used
    for a lease (10 s), so all are read by one process: a thousand of them would take longer.
    """
    reading = f"cd {MOUNT_POINT}/d && seq -f f%.0f 0 {count - 1} | xargs cat"
    deadline = time.monotonic() + 100
    while True:
        pair.client.sh(reading, timeout=300)
        granted = _delegations(pair)
        if granted >= least:
            return
        assert time.monotonic() < deadline, f"{granted} delegations of {count}"
        time.sleep(0.5)


def _delegations(pair: Pair) -> int:
    """How many of these files the server has granted; it may grant one of the directory, too."""
    states = pair.server.run("cat /proc/fs/nfsd/clients/*/states").stdout
    return len(re.findall(rb'type: deleg.*filename: "d/f\d+"', states))


def _conflict(pair: Pair, count: int, limit: float) -> float:
    """Write to all files on the server; the seconds the slowest of them took."""
    took = float(pair.server.sh(f"python3 /lab/conflict.py /srv/export/d {count}", timeout=limit))
    print(f"{count} conflicting opens: the slowest took {took:.2f} s")
    return took


def _seen_by_client(pair: Pair, count: int) -> None:
    """The client must read what was written on the server."""
    lines = pair.client.sh(f"cd {MOUNT_POINT}/d && cat $(ls | sort -V)", timeout=300).splitlines()
    expected = [line for i in range(count) for line in (f"file {i}", "conflict")]
    assert lines == expected


def _returned(pair: Pair) -> int:
    text = pair.client.read("/proc/self/mountstats")
    return mountstats.operations(text, MOUNT_POINT).get("DELEGRETURN", 0)


def _xids(events: list[tracing.Event], name: str) -> list[str]:
    return [re.findall(r"xid=(\w+)", e.text)[0] for e in events if e.name == name]


@pytest.mark.parametrize("version", ["4.1", pytest.param("4.2", marks=pytest.mark.full)])
@pytest.mark.debug_kernel
def test_recall(pair: Pair, version: str) -> None:
    """One delegation, recalled at once; every call of the server is answered."""
    _prepare(pair, 1)
    with tracing.recording(pair.client, EVENTS) as trace:
        pair.mount(version)
        # The client returns the delegation of a closed file by itself after some seconds.
        holder = pair.client.vm.start(f"exec sleep 1000 < {MOUNT_POINT}/d/f0")
        _take(pair, 1)
        assert _conflict(pair, 1, 100) < PROMPT
        events = trace.events()
    pair.client.sh("pkill -x sleep")
    pair.client.vm.agent.wait(holder, 30)
    assert _returned(pair) == 1
    _seen_by_client(pair, 1)
    assert [e.name for e in events][:1] == ["xprtrdma_cb_setup"]
    calls = _xids(events, "xprtrdma_cb_call")
    assert calls, "no call of the server was seen"
    assert _xids(events, "xprtrdma_cb_reply") == calls
    pair.umount()


@pytest.mark.full
@pytest.mark.needs_ours
def test_small_thresholds(pair: Pair) -> None:
    """Callbacks fit into thresholds of 1024 bytes."""
    knobs = "/proc/sys/sunrpc/rdma_max_inline"
    _prepare(pair, 1)
    pair.client.sh(f"echo 1024 > {knobs}_read; echo 1024 > {knobs}_write")
    try:
        pair.mount("4.2")
        _take(pair, 1)
        assert _conflict(pair, 1, 100) < PROMPT
        _seen_by_client(pair, 1)
        pair.umount()
    finally:
        pair.client.sh(f"echo 4096 > {knobs}_read; echo 4096 > {knobs}_write")


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.full)])
def test_many_recalls(pair: Pair, count: int) -> None:
    """Many delegations recalled, 16 at a time, while the client writes something else."""
    _prepare(pair, count)
    pair.mount("4.2")
    _take(pair, count, count * 9 // 10)
    writer = pair.client.vm.start(f"python3 /lab/verify.py write names {MOUNT_POINT}/other")
    # Each waits for the ones before it, at most.
    assert _conflict(pair, count, 300) < 40
    done = pair.client.vm.agent.wait(writer, 300)
    assert done.status == 0, done.stderr.decode()
    pair.server.sh("python3 /lab/verify.py check names /srv/export/other", timeout=300)
    assert _returned(pair) >= count * 9 // 10, "hardly any delegations were there to be recalled"
    _seen_by_client(pair, count)
    pair.umount()


def test_recall_after_restart(pair: Pair) -> None:
    """The server comes back: the callbacks of the new connection work as those of the old."""
    _prepare(pair, 2)
    pair.mount("4.2")
    _take(pair, 2)
    pair.restart_nfsd(1)
    # The client reclaims its state, and the grace period (10 s) passes.
    pair.client.sh(f"touch {MOUNT_POINT}/back", timeout=120)
    _take(pair, 2)
    time.sleep(2)
    assert _conflict(pair, 2, 100) < PROMPT
    _seen_by_client(pair, 2)
    pair.umount()


@pytest.mark.full
@pytest.mark.parametrize("pair", [Options(relay=True)], indirect=True)
@pytest.mark.parametrize("silence", [3.0, 20.0])
def test_recall_across_blackout(pair: Pair, silence: float) -> None:
    """Recalls while the link is dead: repeated, or the server has lost patience; never stuck."""
    _prepare(pair, 20)
    pair.mount("4.2")
    _take(pair, 20)
    assert pair.relay is not None
    pair.relay.set("blackout", 1)
    conflict = pair.server.vm.start("python3 /lab/conflict.py /srv/export/d 20")
    time.sleep(silence)
    pair.relay.set("blackout", 0)
    done = pair.server.vm.agent.wait(conflict, 200)
    assert done.status == 0, done.stderr.decode()
    print(f"after {silence} s of silence: {float(done.stdout):.1f} s")
    _seen_by_client(pair, 20)
    # And the channel works again.
    _take(pair, 20)
    time.sleep(2)
    assert _conflict(pair, 20, 100) < 2 * PROMPT
    pair.umount()


@pytest.mark.full
@pytest.mark.parametrize("count", [50])
def test_umount_amid_recalls(pair: Pair, count: int) -> None:
    """The client goes away while callbacks arrive: no report, no leak, no stuck umount."""
    _prepare(pair, count)
    for _ in range(2):
        pair.mount("4.2")
        _take(pair, count, count // 4)
        with tracing.recording(pair.client, EVENTS) as trace:
            conflict = pair.server.vm.start(f"python3 /lab/conflict.py /srv/export/d {count}")
            deadline = time.monotonic() + 30
            while not trace.events("xprtrdma_cb_call"):
                assert time.monotonic() < deadline, "no callback came"
        began = time.monotonic()
        pair.umount()
        assert time.monotonic() - began < 30
        done = pair.server.vm.agent.wait(conflict, 120)
        assert done.status == 0, done.stderr.decode()
        pair.unload(5)
        pair.load()
