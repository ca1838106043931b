# SPDX-License-Identifier: GPL-2.0
"""The recording: calls that are made or served, connections over time, their events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from .. import connections, interrupt
from ..connections import Connection
from ..errors import UsageError
from ..host import Host
from ..trace import calls
from ..trace.calls import Calls, is_of_server
from ..trace.command import Source
from ..trace.events import Event
from ..trace.rpcs import Assembler
from .tally import Tally

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

#: The events of calls that this host serves. Names and chunks need more than a latency does.
_SERVED = (
    "rpcrdma:svcrdma_decode_rqst",
    "rpcrdma:svcrdma_post_read_chunk",
    "rpcrdma:svcrdma_wc_read",
    "rpcrdma:svcrdma_read_finished",
    "sunrpc:svc_process",
    "nfsd:nfsd_compound_status",
    "sunrpc:svc_stats_latency",
    "rpcrdma:svcrdma_encode_wseg",
    "rpcrdma:svcrdma_expose_reply",
    "rpcrdma:svcrdma_post_write_chunk",
    "rpcrdma:svcrdma_post_reply_chunk",
    "rpcrdma:svcrdma_sq_full",
    "rpcrdma:svcrdma_sq_retry",
    "rpcrdma:svcrdma_post_send",
    "rpcrdma:svcrdma_send_err",
)
#: The events of a server that are worth a line each.
_NOTED_SERVED = (*calls.CONNECTION_EVENTS, "rpcrdma:svcrdma_breach")
SERVER_EVENTS = _SERVED + _NOTED_SERVED

_NAMES = {name.partition(":")[2] for name in (*_NOTED, *_NOTED_SERVED)}

#: Seconds from one look at the connections to the next, at first.
_LOOK = 0.5
#: The most looks that are kept, an odd number: of more the first and the last one remain, and every
#: second one in between.
_MOST_LOOKS = 241
#: Seconds from one look at the events to the next.
_STEP = 0.1
#: The most events that get a line each.
_MOST_NOTED = 500


@dataclass
class Data:
    """A recording."""

    seconds: float = 0
    made: Tally = field(default_factory=Tally)
    #: The calls that this host serves; None if it is no server.
    served: Tally | None = None
    #: The connections at each look, with the seconds since the begin. The last look is at the end.
    looks: list[tuple[float, list[Connection]]] = field(default_factory=list)
    #: Events of connections, with the seconds since the begin.
    noted: list[tuple[float, str, str]] = field(default_factory=list)
    lost: int = 0
    #: The exit status of the command that was run.
    status: int = 0

    @property
    def count(self) -> int:
        """The calls that were recorded."""
        return self.made.count + (self.served.count if self.served else 0)


def is_noted(event: Event) -> bool:
    """Whether an event is worth a line; of the states of a connection, those when it is up."""
    if event.name == "xprtrdma_conn_state":
        return is_mark(event.rest)
    return event.name in _NAMES


def is_mark(text: str) -> bool:
    """Whether a state of a connection means that it was made or lost."""
    return text.endswith("-> up") or " up -> " in text


class Recorder:
    """Records until it is stopped."""

    def __init__(self, host: Host, source: Source, *, serves: bool = False) -> None:
        """Begins now. `serves`: the source also has the events of the server."""
        self._host, self._source = host, source
        self._assembler, self._calls = Assembler(), Calls(until_sent=True)
        self._begin = time.monotonic()
        self._next_look, self._interval = 0.0, _LOOK
        self.data = Data(served=Tally() if serves else None)

    def pump(self) -> None:
        """Takes the events since the last call."""
        since = time.monotonic() - self._begin
        self._take_events()
        if since >= self._next_look:
            self._look(since)
            self._next_look = since + self._interval
        self.data.seconds = time.monotonic() - self._begin

    def _take_events(self) -> bool:
        """Takes events. Returns whether there were any."""
        events = self._source.read()
        for event in events:
            self._take(event)
        return bool(events)

    def _take(self, event: Event) -> None:
        if is_noted(event) and len(self.data.noted) < _MOST_NOTED:
            # The clock of the trace is the one of time.monotonic().
            since = max(0.0, event.time - self._begin)
            name = event.name.removeprefix("xprtrdma_").removeprefix("svcrdma_")
            self.data.noted.append((since, name, event.rest))
        if is_of_server(event):
            self._take_served(event)
            return
        rpc = self._assembler.feed(event)
        self._assembler.others.clear()
        if rpc:
            self.data.made.add(rpc)

    def _take_served(self, event: Event) -> None:
        call = self._calls.feed(event)
        self._calls.others.clear()
        if call and self.data.served:
            self.data.served.add_served(call)

    def _look(self, since: float) -> None:
        # Without connections to be seen, the page says so.
        with suppress(UsageError):
            self.data.looks.append((since, connections.read(self._host)))
        if len(self.data.looks) >= _MOST_LOOKS:
            del self.data.looks[1::2]
            self._interval *= 2

    def end(self) -> Data:
        """Ends the recording and returns it."""
        self._source.stop()
        self._next_look = 0.0
        self.pump()
        while self._take_events():
            pass
        self.data.lost = self._source.lost
        return self.data


def record(
    host: Host,
    source: Source,
    seconds: float,
    running: Callable[[], Iterator[int | None]] | None,
    *,
    serves: bool = False,
) -> Data:
    """Records for this number of seconds, while a command runs, or until an interrupt.

    `serves`: the source also has the events of the server.
    """
    recorder = Recorder(host, source, serves=serves)
    with interrupt.noted() as interrupted:
        for ended in running() if running else _lasting(seconds):
            _step(recorder)
            recorder.data.status = ended or 0
            if interrupted():
                break
    return recorder.end()


def _lasting(seconds: float) -> Iterator[None]:
    """Yields None until this number of seconds has passed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield None


def _step(recorder: Recorder) -> None:
    # Waiting for an event would wake this program for each of them.
    time.sleep(_STEP)
    recorder.pump()
