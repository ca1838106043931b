# SPDX-License-Identifier: GPL-2.0
"""Callbacks of NFSv4.1 and 4.2: the server recalls delegations over the client's connection.

The server grants read delegations. Then a process on the server opens the files for writing and
has to wait until the client has returned the delegations. Without callbacks it waits until the
server revokes them, after the lease time or more.
"""

from __future__ import annotations

import re
import time

import pytest

from lab import tracing
from lab.fixtures import Counters, Tunables
from lab.pair import MOUNT_POINT, Pair
from lab.relay import Relay

EVENTS = [f"rpcrdma:xprtrdma_cb_{what}" for what in ("setup", "call", "reply")]
#: Seconds within which a recall must be complete on an idle connection. The lease is 10 s.
PROMPT = 5.0


def _prepare(pair: Pair, count: int) -> None:
    """Makes that many files on the server, each with one line."""
    files = f"for i in $(seq 0 {count - 1}); do echo file $i > f$i; done"
    pair.server.sh(f"rm -rf /srv/export/*; mkdir /srv/export/d && cd /srv/export/d && {files}")


def _take(pair: Pair, count: int, least: int = 1) -> None:
    """Reads all files on the client until it has delegations for `least` of them or more.

    The server grants no delegation before it has tried its callback channel, in its grace period,
    and for a file whose delegation it recalled within the last minute. Its filter for the last of
    these has 256 bits, so after many recalls it also refuses other files. The client returns a
    delegation that it has not used for one lease (10 s), so one process reads all files: a thousand
    processes would take longer.
    """
    reading = f"cd {MOUNT_POINT}/d && seq -f f%.0f 0 {count - 1} | xargs cat"
    deadline = time.monotonic() + 100 * pair.patience
    while True:
        pair.client.sh(reading, timeout=300)
        granted = _delegations(pair)
        if granted >= least:
            return
        assert time.monotonic() < deadline, f"{granted} delegations of {count}"
        time.sleep(0.5)


def _hold(pair: Pair, count: int) -> int:
    """Starts a process `sleep` on the client that has all files open, and returns its number."""
    opening = f"for i in $(seq 0 {count - 1}); do exec {{fd}}<f$i; done"
    return pair.client.vm.start(f"cd {MOUNT_POINT}/d && {opening}; cd /; exec sleep 1000")


def _delegations(pair: Pair) -> int:
    """Returns how many of these files have a delegation; the directory may also have one."""
    states = pair.server.run("cat /proc/fs/nfsd/clients/*/states").stdout
    return len(re.findall(rb'type: deleg.*filename: "d/f\d+"', states))


def _conflict(pair: Pair, count: int, limit: float) -> float:
    """Writes to all files on the server; returns the seconds that the slowest file took."""
    took = float(pair.server.sh(f"python3 /lab/conflict.py /srv/export/d {count}", timeout=limit))
    print(f"{count} conflicting opens: the slowest took {took:.2f} s")
    return took


def _check_on_client(pair: Pair, count: int) -> None:
    """Checks that the client reads the lines that the server wrote."""
    lines = pair.client.sh(f"cd {MOUNT_POINT}/d && cat $(ls | sort -V)", timeout=300).splitlines()
    expected = [line for i in range(count) for line in (f"file {i}", "conflict")]
    assert lines == expected


def _xids(events: list[tracing.Event], name: str) -> list[str]:
    return [re.findall(r"xid=(\w+)", e.text)[0] for e in events if e.name == name]


@pytest.mark.both_roles
@pytest.mark.parametrize("version", ["4.1", pytest.param("4.2", marks=pytest.mark.full)])
@pytest.mark.debug_kernel
def test_recall(pair: Pair, counters: Counters, version: str) -> None:
    """The client returns one delegation at once and answers every call of the server."""
    _prepare(pair, 1)
    with tracing.recording(pair.client, EVENTS) as trace:
        pair.mount(version)
        # The client returns the delegation for a closed file by itself after some seconds.
        holder = pair.client.vm.start(f"exec sleep 1000 < {MOUNT_POINT}/d/f0")
        _take(pair, 1)
        assert _conflict(pair, 1, 100) < PROMPT
        events = trace.events()
    pair.client.sh("pkill -x sleep")
    pair.client.vm.agent.wait(holder, 30)
    assert counters.operations().get("DELEGRETURN", 0) == 1
    _check_on_client(pair, 1)
    assert [e.name for e in events][:1] == ["xprtrdma_cb_setup"]
    calls = _xids(events, "xprtrdma_cb_call")
    assert calls, "no call of the server was seen"
    assert _xids(events, "xprtrdma_cb_reply") == calls
    pair.umount()


@pytest.mark.full
@pytest.mark.needs_ours
def test_small_thresholds(pair: Pair, tunables: Tunables) -> None:
    """Callbacks fit into inline thresholds of 1024 bytes."""
    _prepare(pair, 1)
    tunables.set_thresholds(1024)
    pair.mount("4.2")
    _take(pair, 1)
    assert _conflict(pair, 1, 100) < PROMPT
    _check_on_client(pair, 1)
    pair.umount()


@pytest.mark.full
@pytest.mark.both_roles
@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.plain_only)])
def test_many_recalls(pair: Pair, counters: Counters, count: int) -> None:
    """The client returns many delegations, recalled 16 at a time, while it writes other files.

    On the debug kernel it takes longer than a lease to read a thousand files.
    """
    _prepare(pair, count)
    pair.mount("4.2")
    _take(pair, count, count * 9 // 10)
    writer = pair.client.vm.start(f"python3 /lab/verify.py write names {MOUNT_POINT}/other")
    # The last file waits for all the files before it.
    assert _conflict(pair, count, 300) < 40 * pair.patience
    done = pair.client.vm.agent.wait(writer, 300)
    assert done.status == 0, done.stderr.decode()
    pair.server.sh("python3 /lab/verify.py check names /srv/export/other", timeout=300)
    returned = counters.operations().get("DELEGRETURN", 0)
    assert returned >= count * 9 // 10, f"the client returned {returned} delegations only"
    _check_on_client(pair, count)
    pair.umount()


#: READs of 4 KiB, 128 at a time, as many as the server grants credits.
LOAD = (
    f"exec fio --name=load --filename={MOUNT_POINT}/load --rw=randread --bs=4k --direct=1"
    " --ioengine=libaio --iodepth=128 --time_based --runtime=300 --output=/dev/null"
)
#: The slots of a session that the client asks for. By default it asks for 64, and then has at most
#: 64 calls in flight, however many credits it has.
SLOTS = "/sys/module/nfs/parameters/max_session_slots"
#: The RPCs that are being executed.
TASKS = "cat /sys/kernel/debug/sunrpc/rpc_clnt/*/tasks | wc -l"


# On the debug kernel the client does not get a hundred calls in flight within two minutes.
@pytest.mark.plain_only
@pytest.mark.both_roles
@pytest.mark.full
def test_recall_at_full_credit(pair: Pair) -> None:
    """A recall and its answer pass a connection on which the client has used up its credits."""
    _prepare(pair, 1)
    pair.server.sh("head -c 8M /dev/urandom > /srv/export/load")
    pair.client.sh(f"echo 160 > {SLOTS}")
    pair.mount("4.2")
    holder = pair.client.vm.start(f"exec sleep 1000 < {MOUNT_POINT}/d/f0")
    _take(pair, 1)
    load = pair.client.vm.start(LOAD)
    deadline = time.monotonic() + 30 * pair.patience
    while int(pair.client.sh(TASKS)) < 100:
        assert time.monotonic() < deadline, "the client has too few calls in flight"
    assert _conflict(pair, 1, 100) < 2 * PROMPT * pair.patience
    assert int(pair.client.sh(TASKS)) > 100
    pair.client.sh("pkill -x fio; pkill -x sleep")
    for process in (load, holder):
        pair.client.vm.agent.wait(process, 60)
    _check_on_client(pair, 1)
    pair.umount()
    pair.client.sh(f"echo 64 > {SLOTS}")


@pytest.mark.full
@pytest.mark.both_roles
def test_recall_after_restart(pair: Pair) -> None:
    """Callbacks work on the new connection after the server has restarted."""
    _prepare(pair, 2)
    pair.mount("4.2")
    _take(pair, 2)
    pair.restart_nfsd(1)
    # The client reclaims its state, and the grace period (10 s) passes.
    pair.client.sh(f"touch {MOUNT_POINT}/back", timeout=120)
    _take(pair, 2)
    time.sleep(2)
    assert _conflict(pair, 2, 100) < PROMPT
    _check_on_client(pair, 2)
    pair.umount()


@pytest.mark.both_roles
@pytest.mark.full
@pytest.mark.parametrize("silence", [3.0, 20.0])
def test_recall_across_blackout(pair: Pair, relay: Relay, silence: float) -> None:
    """The server repeats recalls that a dead link lost, or revokes; no process waits forever."""
    _prepare(pair, 20)
    pair.mount("4.2")
    _take(pair, 20)
    relay.set("blackout", 1)
    conflict = pair.server.vm.start("python3 /lab/conflict.py /srv/export/d 20")
    time.sleep(silence)
    relay.set("blackout", 0)
    done = pair.server.vm.agent.wait(conflict, 200)
    assert done.status == 0, done.stderr.decode()
    print(f"after {silence} s of silence: {float(done.stdout):.1f} s")
    _check_on_client(pair, 20)
    # The callback channel works again.
    _take(pair, 20)
    time.sleep(2)
    assert _conflict(pair, 20, 100) < 2 * PROMPT
    pair.umount()


@pytest.mark.both_roles
@pytest.mark.full
@pytest.mark.parametrize("count", [50])
def test_umount_amid_recalls(pair: Pair, count: int) -> None:
    """A client can unmount and unload the module while callbacks arrive."""
    _prepare(pair, count)
    for _ in range(2):
        pair.mount("4.2")
        with tracing.recording(pair.client, EVENTS) as trace:
            # The client returns the delegation for a closed file by itself after some seconds.
            holder = _hold(pair, count)
            pair.server.sh("rm -f /tmp/go")
            conflict = pair.server.vm.start(
                f"exec python3 /lab/conflict.py /srv/export/d {count} /tmp/go"
            )
            _take(pair, count, count // 4)
            pair.server.sh("touch /tmp/go")
            deadline = time.monotonic() + 30 * pair.patience
            while not trace.events("xprtrdma_cb_call"):
                assert time.monotonic() < deadline, "no callback came"
        began = time.monotonic()
        pair.client.sh("pkill -x sleep")
        pair.client.vm.agent.wait(holder, 30)
        pair.umount()
        assert time.monotonic() - began < 30
        done = pair.server.vm.agent.wait(conflict, 120)
        assert done.status == 0, done.stderr.decode()
        pair.unload()
        pair.load()


#: Conflicting opens at a time, and the seconds for which the client has no device.
OPENS, ABSENCE = 30, 1.0
#: Seconds after which the server has no call left on the connection that has ended, and in which it
#: has none at one time or another.
CALLS_END = 5.0
#: Seconds within which the server revokes a delegation whose recall was lost: the lease (10 s), and
#: the time until its next look.
REVOKED = 25.0
#: The number of the server's calls to its client.
CALLS = "cat /sys/kernel/debug/sunrpc/rpc_clnt/*/tasks | grep -c nfs4_cb || true"


def _await_end_of_calls(pair: Pair) -> None:
    """Waits until no call of the server to its client is in progress.

    The server may repeat recalls over the client's next connection meanwhile.
    """
    time.sleep(CALLS_END)
    deadline = time.monotonic() + CALLS_END * pair.patience
    while left := int(pair.server.sh(CALLS)):
        assert time.monotonic() < deadline, f"{left} calls are left"


def _remove_amid_recalls(pair: Pair) -> tuple[int, float]:
    """Removes the client's device while the server recalls delegations, and adds it again.

    Returns the process of the opens on the server, and the time when they began.
    """
    kind = pair.setup.link
    pair.server.sh("rm -f /tmp/go")
    opens = f"AT_ONCE={OPENS} exec python3 /lab/conflict.py /srv/export/d {OPENS} /tmp/go"
    conflict = pair.server.vm.start(opens)
    time.sleep(2 * pair.setup.patience)
    began = time.monotonic()
    # An open waits for a delegation to be returned. It does not wait for long.
    pair.server.sh("touch /tmp/go; until grep -q BREAKING /proc/locks; do :; done")
    pair.client.sh(f"rdma link del {kind}0", timeout=120)
    time.sleep(ABSENCE)
    pair.client.sh(f"rdma link add {kind}0 type {kind} netdev eth0")
    return conflict, began


@pytest.mark.both_roles
@pytest.mark.server_long
@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.full)])
def test_removal_amid_recalls(pair: Pair, rounds: int) -> None:
    """The server's calls end when the connection ends, and no delegation keeps it waiting.

    nfsd drops a recall that it begins while the client has no connection for callbacks
    (Documentation/lab-traps.rst). Such an open ends when the client returns its delegations.
    """
    for _ in range(rounds):
        _prepare(pair, OPENS)
        pair.mount("4.2")
        holder = _hold(pair, OPENS)
        _take(pair, OPENS, OPENS // 2)
        conflict, began = _remove_amid_recalls(pair)
        _await_end_of_calls(pair)
        while not (done := pair.server.vm.agent.poll(conflict)):
            if time.monotonic() > began + REVOKED * pair.patience:
                break
            time.sleep(0.2)
        took = f"{float(done.stdout):.1f} s" if done else "until the umount"
        print(f"the slowest open took {took}")
        pair.client.sh("pkill -x sleep")
        pair.client.vm.agent.wait(holder, 30)
        pair.umount()
        done = done or pair.server.vm.agent.wait(conflict, 30)
        assert done.status == 0, done.stderr.decode()
        lines = pair.server.sh("cat /srv/export/d/f*").splitlines()
        assert lines.count("conflict") == OPENS
