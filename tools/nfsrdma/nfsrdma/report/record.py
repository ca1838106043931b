# SPDX-License-Identifier: GPL-2.0
"""What is recorded: calls, connections over time, events of connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from .. import connections
from ..connections import Connection
from ..errors import UsageError
from ..host import Host
from ..top.latencies import quantile
from ..trace.command import Source
from ..trace.events import Event
from ..trace.rpcs import Assembler, Rpc

#: The events of calls.
_CALLS = (
    "rpcrdma:xprtrdma_mr_map",
    "rpcrdma:xprtrdma_chunk_read",
    "rpcrdma:xprtrdma_chunk_write",
    "rpcrdma:xprtrdma_chunk_reply",
    "rpcrdma:xprtrdma_marshal",
    "sunrpc:xprt_retransmit",
    "sunrpc:rpc_stats_latency",
    "sunrpc:rpc_task_end",
)
#: The events that are worth a line each.
_NOTED = (
    "rpcrdma:xprtrdma_conn_state",
    "rpcrdma:xprtrdma_connect",
    "rpcrdma:xprtrdma_device_removal",
    "rpcrdma:xprtrdma_probe",
    "rpcrdma:xprtrdma_terms_changed",
    "rpcrdma:xprtrdma_malformed_hdr",
    "rpcrdma:xprtrdma_reply_violation",
    "rpcrdma:xprtrdma_reminv_foreign",
    "rpcrdma:xprtrdma_bad_credits",
    "rpcrdma:xprtrdma_not_a_send",
    "rpcrdma:xprtrdma_session_breach",
    "rpcrdma:xprtrdma_session_closed",
    "rpcrdma:xprtrdma_err_vers",
    "rpcrdma:xprtrdma_err_chunk",
)
EVENTS = _CALLS + _NOTED

_NAMES = {name.partition(":")[2] for name in _NOTED}

#: Seconds from one look at the connections to the next.
_LOOK = 0.5
#: Seconds from one look at the events to the next.
_STEP = 0.1
#: The most events that get a line each.
_MOST_NOTED = 500


@dataclass
class Group:
    """The calls of one operation in one form."""

    rtts: list[int] = field(default_factory=list)
    mappings: list[float] = field(default_factory=list)
    retransmissions: int = 0

    def as_json(self) -> dict[str, Any]:
        """Returns the numbers that the page shows."""
        return {
            "calls": len(self.rtts),
            "median_us": quantile(self.rtts, 0.5),
            "p99_us": quantile(self.rtts, 0.99),
            "max_us": max(self.rtts, default=0),
            "registration_us": round(quantile(self.mappings, 0.5), 1),
            "retransmissions": self.retransmissions,
        }


@dataclass
class Data:
    """A recording."""

    seconds: float = 0
    groups: dict[tuple[str, str], Group] = field(default_factory=dict)
    #: The calls by the bytes of their chunks, in powers of two; 0 for calls without chunks.
    sizes: dict[int, int] = field(default_factory=dict)
    #: The connections at each look, with the seconds since the begin.
    looks: list[tuple[float, list[Connection]]] = field(default_factory=list)
    #: Events of connections, with the seconds since the begin.
    noted: list[tuple[float, str, str]] = field(default_factory=list)
    lost: int = 0
    #: The exit status of the command that was run.
    status: int = 0

    def add(self, rpc: Rpc) -> None:
        """Adds a call that has ended."""
        if not rpc.is_rdma or rpc.rtt is None:
            return
        group = self.groups.setdefault((rpc.name, rpc.form), Group())
        group.rtts.append(rpc.rtt)
        group.retransmissions += rpc.retransmissions
        if rpc.mapping:
            group.mappings.append(rpc.mapping)
        size = 1 << (rpc.registered - 1).bit_length() if rpc.registered else 0
        self.sizes[size] = self.sizes.get(size, 0) + 1


def is_noted(event: Event) -> bool:
    """Whether an event is worth a line; of the states of a connection, those when it is up."""
    if event.name == "xprtrdma_conn_state":
        return is_mark(event.rest)
    return event.name in _NAMES


def is_mark(text: str) -> bool:
    """Whether a state of a connection means that it was made or lost."""
    return text.endswith("-> up") or " up -> " in text


class Recorder:
    """Records until it is told to end."""

    def __init__(self, host: Host, source: Source) -> None:
        """Begins now."""
        self._host, self._source = host, source
        self._assembler = Assembler()
        self._begin = time.monotonic()
        self._next_look = 0.0
        self.data = Data()

    def pump(self) -> None:
        """Takes what has come since the last call."""
        since = time.monotonic() - self._begin
        for event in self._source.read():
            self._take(event)
        if since >= self._next_look:
            self._next_look = since + _LOOK
            self._look(since)
        self.data.seconds = time.monotonic() - self._begin

    def _take(self, event: Event) -> None:
        if is_noted(event) and len(self.data.noted) < _MOST_NOTED:
            # The clock of the trace is the one of time.monotonic().
            since = max(0.0, event.time - self._begin)
            self.data.noted.append((since, event.name.removeprefix("xprtrdma_"), event.rest))
        rpc = self._assembler.feed(event)
        self._assembler.others.clear()
        if rpc:
            self.data.add(rpc)

    def _look(self, since: float) -> None:
        # Without connections to be seen, the page says so.
        with suppress(UsageError):
            self.data.looks.append((since, connections.read(self._host)))

    def end(self) -> Data:
        """Ends recording. Returns what was recorded."""
        self._source.stop()
        self.pump()
        self.data.lost = self._source.lost
        return self.data


def record(
    host: Host, source: Source, seconds: float, running: Callable[[], Iterator[int | None]] | None
) -> Data:
    """Records for so many seconds, or while a command runs, or until an interrupt."""
    recorder = Recorder(host, source)
    with suppress(KeyboardInterrupt):
        for ended in running() if running else _lasting(seconds):
            _step(recorder)
            recorder.data.status = ended or 0
    return recorder.end()


def _lasting(seconds: float) -> Iterator[None]:
    """Yields None until so many seconds have passed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield None


def _step(recorder: Recorder) -> None:
    # Waiting for an event would wake this program for each of them.
    time.sleep(_STEP)
    recorder.pump()


def largest(groups: dict[tuple[str, str], Group], most: int) -> Sequence[tuple[str, str]]:
    """Returns the operations and forms with most calls, those with the longest total time first."""
    return sorted(groups, key=lambda key: -sum(groups[key].rtts))[:most]
