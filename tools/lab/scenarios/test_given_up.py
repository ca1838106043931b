# SPDX-License-Identifier: GPL-2.0
"""Calls that the client aborts: their replies arrive, count no breach and harm no other call.

Processes are killed, soft mounts time out, and mounts are removed by force, while other work uses
the same connection. The reply to such a call may come at any time: before SUNRPC aborts the call,
after the transport has fenced its memory, or in between.

The connection survives unless the server still accesses the memory: the client's device refuses an
RDMA Read or Write after the fence, and both ends lose the connection. So most of these calls are
READs of a file that only the server knows to be empty: they expose memory, the server writes no
byte of it, and the reply invalidates the R_key.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from lab import hostile, mountstats, settings, tracing
from lab.pair import MOUNT_POINT, Guest, Pair
from lab.relay import Relay
from lab.worker import Worker

full = pytest.mark.full
OURS = settings.client() == "ours"
#: The mount whose calls are aborted. It shares the connection of the usual mount.
DOOMED = "/mnt/doomed"
CLIENT_EVENTS = (
    *("rpcrdma:xprtrdma_mrs_zap", "rpcrdma:xprtrdma_reply_rqst_err", "rpcrdma:xprtrdma_marshal"),
    *(("rpcrdma:xprtrdma_reminv_foreign", "rpcrdma:xprtrdma_given_up") if OURS else ()),
)
#: Microseconds added between the removal of a failed call from the queues and its fence.
SLOWER = 2000
DOOMED_OPTIONS = "actimeo=600,rsize=8192"
#: A call of NFSv4 times out only without a connection. NFSv3 sends a call again before the call
#: times out, and closes the connection for that, unless `retrans` is 0.
SOFT = f"soft,timeo=3,retrans=0,nosharecache,nolock,{DOOMED_OPTIONS}"
#: The milliseconds of that `timeo`. A round trip has to stay well below the 537 ms after which rxe
#: sends a packet again: REG_MR fails when rxe repeats it, and that costs the connection.
TIMEOUT = 300
#: How often rxe has sent again.
RESENT = "/sys/class/infiniband/rxe0/ports/1/hw_counters/completer_retry_err"
STOP = "/run/burst.stop"
BURST = f"rm -f {STOP}; exec python3 /lab/given_up.py burst {DOOMED}/empty {STOP}"
#: Whether the trace has a call of these programs: no other call exposes memory for a reply.
AT_WORK = f"grep -q '/write list' {tracing.TRACING}/trace"
#: `umount -f` amid calls. The first one ends the calls and may find the mount in use.
FORCE = f"""
python3 /lab/given_up.py read {DOOMED}/empty &
until {AT_WORK}; do kill -0 $! || exit 1; sleep 0.1; done
umount -f {DOOMED}
kill -9 $!
wait
! mountpoint -q {DOOMED} || umount -f {DOOMED}
"""
BREACHES = ("malformed_header", "reply_claim", "foreign_rkey", "bad_credits", "backward_call")


@contextmanager
def _slow_release(client: Guest) -> Iterator[None]:
    """Lengthens the time in which a reply finds no call, but the memory is not fenced yet.

    # Errors
    `AssertionError` when this affected no call.
    """
    client.sh(f"insmod /lab/lab_slow.ko microseconds={SLOWER}")
    try:
        yield
        slowed = int(client.read("/sys/module/lab_slow/parameters/slowed"))
        print(f"{slowed} calls took longer to give up")
        assert slowed > 0
    finally:
        client.sh("rmmod lab_slow")


def _counters(pair: Pair) -> dict[str, int]:
    if OURS:
        return hostile.counters(pair.client)
    return mountstats.parse(pair.client.read("/proc/self/mountstats"), MOUNT_POINT)


@dataclass
class Seen:
    """Counters and events of the time in which the client gave calls up."""

    #: The changes of the counters.
    moved: Counter[str] = field(default_factory=Counter)
    #: The number of events by name.
    fired: Counter[str] = field(default_factory=Counter)
    #: Replies that came when their call was off the queues and its memory was not fenced yet.
    between: int = 0
    #: Replies among these that our module has waited for.
    awaited: int = 0

    @property
    def exposed(self) -> int:
        """Returns the number of aborted calls that had exposed memory."""
        return self.fired["xprtrdma_mrs_zap"] + self.awaited

    def __iadd__(self, other: Seen) -> Seen:
        """Adds another observation to this one."""
        self.moved.update(other.moved)
        self.fired.update(other.fired)
        self.between += other.between
        self.awaited += other.awaited
        return self

    def __str__(self) -> str:
        """Returns one line for the log."""
        late, fenced = self.moved["bad_xids"], self.fired["xprtrdma_mrs_zap"]
        told = f"{late} late replies, {fenced} calls fenced, {self.between} answered in between"
        told += f" ({self.awaited} waited for)"
        return f"{told}, {self.moved['connect_count']} connections lost"


def _between(events: list[tracing.Event]) -> int:
    """Counts late replies to calls that exposed memory and had not been fenced before."""
    sent: dict[str, str] = {}
    exposed: set[str] = set()
    found: set[str] = set()
    for event in events:
        task = event.text.split(" ", 1)[0]
        xid = "".join(re.findall(r"xid=(\w+)", event.text))
        if event.name == "xprtrdma_marshal" and "/write list" in event.text:
            sent[task] = xid
            exposed.add(xid)
        elif event.name == "xprtrdma_mrs_zap":
            exposed.discard(sent.get(task, ""))
        elif event.name == "xprtrdma_reply_rqst_err" and xid in exposed:
            found.add(xid)
    return len(found)


@contextmanager
def _watched(pair: Pair) -> Iterator[Seen]:
    """Observes all that may show a breach or a lost connection inside the block."""
    seen, before = Seen(), _counters(pair)
    with tracing.recording(pair.client, CLIENT_EVENTS) as trace:
        yield seen
        events = trace.events()
    after = _counters(pair)
    seen.moved = Counter({name: value - before[name] for name, value in after.items()})
    seen.fired = Counter(event.name for event in events)
    seen.between = _between(events)
    seen.awaited = sum("waited=1 answered=1" in event.text for event in events)
    print(seen)


def _no_blame(seen: Seen, *, lossless: bool = True, exposed: bool = True) -> None:
    """Checks that calls were aborted, with memory `exposed`, and that nothing counts as a breach.

    `lossless`: the client must have lost no connection.
    """
    assert seen.moved["bad_xids"] > 0, "no reply came late, so the scenario has tested nothing"
    if exposed:
        assert seen.exposed > 0, "the client gave up no call with memory exposed"
    if OURS:
        breaches = {name: seen.moved[name] for name in BREACHES if seen.moved[name]}
        assert not breaches, breaches
        assert not seen.fired["xprtrdma_reminv_foreign"]
    if lossless:
        assert seen.moved["connect_count"] == 0


def _finish(pair: Pair, worker: Worker) -> None:
    """Checks that the other work makes progress and that every byte is right; unmounts."""
    print(f"other work: {worker.await_progress(20, 60):.1f} s, then {worker.finish()}")
    pair.umount()


def _fill(pair: Pair) -> None:
    """Makes the files for calls that are aborted."""
    pair.server.sh("rm -rf /srv/export/* && python3 /lab/given_up.py fill /srv/export")


def _empty_for_the_server(pair: Pair) -> None:
    """Makes a file empty on the server whose old size the client has in its cache."""
    pair.server.sh("head -c 524288 /dev/zero > /srv/export/empty")
    pair.client.sh(f"stat {DOOMED}/empty")
    pair.server.sh(": > /srv/export/empty")


@full
@pytest.mark.parametrize("version", ["3", "4.2"])
@pytest.mark.parametrize("kind", ["inline", pytest.param("chunks", marks=pytest.mark.needs_ours)])
def test_killed(pair: Pair, version: str, kind: str) -> None:
    """Hundreds of processes are killed while they wait for replies."""
    seconds = 30 if settings.full() else 10
    _fill(pair)
    pair.mount(version, options="actimeo=0,nosharecache" + ",nolock" * (version == "3"))
    worker = Worker(pair)
    with _slow_release(pair.client), _watched(pair) as seen:
        command = f"python3 /lab/given_up.py kill {MOUNT_POINT} {seconds} {kind}"
        print(pair.client.sh(command, timeout=seconds + 120).strip())
        worker.await_progress(5, 60)
    chunks = kind == "chunks"
    # Processes that list names make the server write to memory after they were killed. Over siw
    # any pair of modules loses connections then, the stock ones most.
    _no_blame(seen, lossless=pair.setup.link != "siw", exposed=chunks)
    _finish(pair, worker)


@full
@pytest.mark.rxe_only
@pytest.mark.by_the_clock
def test_timed_out(pair: Pair, relay: Relay) -> None:
    """A soft mount aborts calls at the moment at which their replies arrive."""
    _fill(pair)
    pair.mount("3", options="nosharecache,nolock")
    pair.mount("3", options=SOFT, at=DOOMED)
    worker = Worker(pair, block=1024)
    _empty_for_the_server(pair)
    with _slow_release(pair.client), _watched(pair) as seen:
        resent = int(pair.client.read(RESENT))
        bursts = pair.client.vm.start(BURST)
        # To open the file takes calls that must not time out.
        pair.client.sh(f"until {AT_WORK}; do sleep 0.1; done")
        for early in (20, 14, 11, 8, 5, 2, -1):
            # The delay applies to each direction.
            relay.set("delay", (TIMEOUT / 2 - early) / 1000)
            time.sleep(8)
        relay.set("delay", 0)
        pair.client.sh(f"touch {STOP}")
        done = pair.client.vm.agent.wait(bursts, 200)
        assert done.status == 0, done.stderr.decode()
        worker.await_progress(5, 60)
        resent = int(pair.client.read(RESENT)) - resent
        print(f"{done.stdout.decode().strip()}; the client's device sent again {resent} times")
    # With the stock module a call that times out costs the connection.
    _no_blame(seen, lossless=OURS and not resent)
    pair.umount(DOOMED)
    _finish(pair, worker)


@full
@pytest.mark.parametrize("version", ["3", "4.2"])
def test_forced(pair: Pair, version: str) -> None:
    """`umount -f` removes a mount repeatedly while a reader has calls in flight."""
    _fill(pair)
    options = "nosharecache" + ",nolock" * (version == "3")
    pair.mount(version, options=options)
    worker = Worker(pair, block=1024)
    seen = _forced_away(pair, version, options)
    worker.await_progress(5, 60)
    _no_blame(seen)
    _finish(pair, worker)


def _forced_away(pair: Pair, version: str, options: str) -> Seen:
    """Mounts, and unmounts by force amid calls, several times; returns the observations.

    `umount -f` may come between two reads and abort nothing, which does not count as a time.
    """
    seen, times = Seen(), 10 if settings.full() else 2
    with _slow_release(pair.client):
        for _ in range(6 * times):
            pair.mount(version, options=f"{options},{DOOMED_OPTIONS}", at=DOOMED)
            _empty_for_the_server(pair)
            with _watched(pair) as once:
                pair.client.sh(FORCE, timeout=120)
            seen += once
            times -= once.exposed > 0 and once.moved["bad_xids"] > 0
            if not times:
                break
    if settings.full():
        assert seen.between > 0
    return seen


@full
@pytest.mark.rxe_only
def test_late_answers(pair: Pair) -> None:
    """`umount -f` amid calls to an honest server that answers them late (guest/late.py).

    That server takes the place of nfsd, and passes the other work on to nfsd.
    """
    _fill(pair)
    options = "nosharecache,nolock"
    pair.mount("3", options=options)
    worker = Worker(pair, block=1024)
    peer = hostile.take_port(pair, "late", "3")
    try:
        worker.await_progress(20, 60)
        seen = _forced_away(pair, "3", options)
        worker.await_progress(5, 60)
        pair.server.sh("touch /run/late.stop")
        said = hostile.finish(pair, peer, 60)
    finally:
        hostile.return_port(pair)
    print(said)
    _no_blame(seen)
    assert "failed" not in said
    _finish(pair, worker)
