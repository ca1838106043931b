# SPDX-License-Identifier: GPL-2.0
"""A hostile requester that breaks every rule of the protocol, beside an honest client.

Each case of guest/misrequests.py is played against the server. Its outcome must be the expected
one. Afterwards another client is served, the server has closed the requester's connections and has
its memory back, and its kernel has printed no report.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from lab import requester, settings, tracing
from lab.fixtures import ServerCounters
from lab.pair import Pair

CASES, LOADS = requester.cases()
OURS = settings.server() == "ours"
#: Cases of the short form: an answer with an error, and a connection that ends.
SHORT = (3, 22)
#: Seconds in which a server has to forget the connections of a requester that has gone.
FORGETTING = 30
#: Kilobytes of the server that a case may cost: slabs that fill up.
MEMORY = 6000
MOUNTD = "pkill -STOP mountd && exportfs -f"


def _parameters() -> list[Any]:
    found = []
    for name, case in CASES.items():
        marks = [] if case.number in SHORT else [pytest.mark.full]
        if case.of_two or case.of_old or case.ours_alone:
            marks.append(pytest.mark.needs_our_server)
        if case.of_old:
            marks.append(pytest.mark.needs_legacy)
        if case.stock_warns and not OURS:
            marks.append(pytest.mark.provokes)
        found.append(pytest.param(name, id=name, marks=marks))
    return found


def _play(pair: Pair, name: str) -> list[tuple[str, str]]:
    """Plays a case to its end; honest work continues while the case holds a connection."""
    case = CASES[name]
    play = requester.Play(pair, name)
    if case.stalls:
        play.await_word("stall")
        pair.server.sh(MOUNTD)
        play.let_go(requester.STALLED)
    try:
        if case.holds:
            play.await_word("holding")
            if not case.stalls and (OURS or not case.stock_starves):
                print(f"honest work beside it: {requester.work(pair):.1f} s")
            pair.server.sh("pkill -CONT mountd")
            play.let_go(requester.RELEASE)
        return play.finish(300)
    finally:
        if case.stalls:
            pair.server.sh("pkill -CONT mountd")


def _check(case: Any, outcomes: list[tuple[str, str]]) -> None:
    """Compares the outcomes with those of the table."""
    requester.check(case, outcomes, "ours" if OURS else "stock")


@pytest.mark.server
@pytest.mark.breaks_rules
@pytest.mark.rxe_only
@pytest.mark.parametrize("case", _parameters())
def test_case(pair: Pair, server_counters: ServerCounters, case: str) -> None:
    """The server answers a hostile requester correctly, and continues to serve others."""
    requester.prepare(pair)
    pair.mount("3", options="nolock")
    requester.work(pair)
    before, free, connections = server_counters(), requester.free(pair), requester.connections(pair)
    outcomes = _play(pair, case)
    took = requester.work(pair)
    left = requester.settle(pair, connections, FORGETTING * pair.patience)
    lost = free - requester.free(pair)
    after = server_counters()
    moved = {key: value - before.get(key, 0) for key, value in after.items()}
    print({key: value for key, value in moved.items() if value})
    print(f"honest work after it: {took:.1f} s; {lost} kB less memory; {left} connections")
    pair.umount()
    _check(CASES[case], outcomes)
    if OURS or not CASES[case].stock_keeps:
        assert left <= connections, f"{left} connections, before {connections}"
        assert lost < MEMORY, f"{lost} kB lost"


@contextlib.contextmanager
def _largest_payload(pair: Pair) -> Iterator[None]:
    """Has nfsd take 4 MiB in one call."""
    payload = "/proc/fs/nfsd/max_block_size"
    pair.stop_nfsd()
    pair.server.sh(f"echo {4 << 20} > {payload}")
    pair.start_nfsd()
    try:
        yield
    finally:
        pair.stop_nfsd()
        pair.server.sh(f"echo {1 << 20} > {payload}")
        pair.start_nfsd()


@pytest.mark.full
@pytest.mark.server
@pytest.mark.breaks_rules
@pytest.mark.rxe_only
def test_sixty_four_connections(pair: Pair) -> None:
    """64 connections of one guest are served at once, beside a mount, and leave no memory used."""
    requester.prepare(pair)
    pair.mount("3", options="nolock")
    requester.work(pair)
    free, connections = requester.free(pair), requester.connections(pair)
    name = "101-sixty-four-connections"
    play = requester.Play(pair, name)
    play.await_word("holding", 200)
    held = requester.connections(pair) - connections
    cost = (free - requester.free(pair)) / max(held, 1)
    print(f"{held} connections, {cost:.0f} kB each with those of the device")
    print(f"honest work beside them: {requester.work(pair):.1f} s")
    play.let_go(requester.RELEASE)
    outcomes = play.finish(300)
    left = requester.settle(pair, connections, FORGETTING * pair.patience)
    lost = free - requester.free(pair)
    print(f"{lost} kB less memory; {left} connections")
    requester.work(pair)
    pair.umount()
    _check(LOADS[name], outcomes)
    assert held == 64
    assert left <= connections
    assert lost < MEMORY


@pytest.mark.full
@pytest.mark.server
@pytest.mark.breaks_rules
@pytest.mark.rxe_only
def test_largest_payload(pair: Pair) -> None:
    """The server takes and sends 4 MiB in one call, which no Linux client asks for over RDMA."""
    requester.prepare(pair)
    with _largest_payload(pair):
        pair.mount("3", options="nolock")
        name = "102-largest-payload"
        _check(LOADS[name], requester.Play(pair, name).finish(200))
        requester.work(pair)
        pair.umount()


@pytest.mark.full
@pytest.mark.server
@pytest.mark.needs_our_server
@pytest.mark.breaks_rules
@pytest.mark.rxe_only
def test_unanswered_reads(pair: Pair, server_counters: ServerCounters) -> None:
    """Calls that the server cannot fetch leave memory for the calls of other clients."""
    requester.prepare(pair)
    before = server_counters()["rdma_stat_waited"]
    with _largest_payload(pair):
        pair.mount("3", options="nolock")
        requester.work(pair)
        connections = requester.connections(pair)
        name = "106-unanswered-reads"
        play = requester.Play(pair, name)
        play.await_word("holding")
        took = requester.work(pair)
        held = requester.connections(pair) - connections
        print(f"honest work beside {held} connections: {took:.1f} s")
        play.let_go(requester.RELEASE)
        outcomes = play.finish(100)
        requester.work(pair)
        pair.umount()
    _check(LOADS[name], outcomes)
    # The device finally stops retrying, and the connections with their calls are gone.
    assert held == 3, "the work may have waited for the end of the requester's connections"
    assert server_counters()["rdma_stat_waited"] > before


@pytest.mark.full
@pytest.mark.server
@pytest.mark.needs_our_server
def test_many_segments(pair: Pair) -> None:
    """Calls that need more memory regions than a connection has wait for those of other calls."""
    requester.prepare(pair)
    name = "107-many-segments"
    _check(LOADS[name], requester.Play(pair, name).finish(200))


@pytest.mark.server
@pytest.mark.needs_our_server
@pytest.mark.needs_legacy
@pytest.mark.breaks_rules
@pytest.mark.rxe_only
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("103-exposed-replies", marks=pytest.mark.full),
        "104-hoarded-replies",
        pytest.param("105-undone", marks=pytest.mark.full),
    ],
)
def test_exposed_replies(pair: Pair, name: str) -> None:
    """Replies as read chunks: read, hoarded, and never acknowledged by RDMA_DONE."""
    requester.prepare(pair)
    setting = "/proc/sys/sunrpc/svc_rdma/read_chunks"
    pair.server.sh(f"echo 1 > {setting}")
    events = [f"rpcrdma:svcrdma_{what}" for what in ("expose_reply", "done_received")]
    try:
        with tracing.recording(pair.server, events) as trace:
            outcomes = requester.Play(pair, name).finish(200)
            seen = [event.name for event in trace.events()]
    finally:
        pair.server.sh(f"echo 0 > {setting}")
    _check(LOADS[name], outcomes)
    assert "svcrdma_expose_reply" in seen
    assert "svcrdma_done_received" in seen or name != "103-exposed-replies"
