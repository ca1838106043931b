# SPDX-License-Identifier: GPL-2.0
"""The calls that this host serves, by the forms of call and reply, from the events of the server.

A call is taken by one thread of nfsd, and perhaps processed by another one. A thread posts what
belongs to the call that it has just taken, or to the reply that it is just sending: so the events
that name no XID find their call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..trace.events import Event
from .latencies import Form

#: The events for each call: three, and one or two more for chunks.
EVENTS = (
    "rpcrdma:svcrdma_decode_rqst",
    "rpcrdma:svcrdma_post_read_chunk",
    "rpcrdma:svcrdma_wc_read",
    "sunrpc:svc_stats_latency",
    "rpcrdma:svcrdma_post_write_chunk",
    "rpcrdma:svcrdma_post_reply_chunk",
    "rpcrdma:svcrdma_post_send",
)
#: The events that a filter on the XID can drop.
FILTERED = ("rpcrdma:svcrdma_decode_rqst", "sunrpc:svc_stats_latency")

#: The bits of an XID that a Linux client counts in, as a host of the other byte order sees them.
_COUNTING = 24
#: The sample is at least one call in this number.
_RAREST = 256
#: Calls whose end was not seen before they are forgotten.
_OPEN = 10_000

_REPLIES = {
    "svcrdma_post_write_chunk": "write chunk",
    "svcrdma_post_reply_chunk": "reply chunk",
}


@dataclass
class _Call:
    begin: float
    call: str
    reply: str = "inline"
    #: Microseconds that its RDMA Reads took.
    fetched: int = 0
    end: float = 0.0


class Served:
    """Collects the calls of an interval."""

    def __init__(self) -> None:
        """No call is known."""
        self._calls: dict[int, _Call] = {}
        #: By a thread's process id: the call that it has taken last, and that whose reply it sends.
        self._taken: dict[str, _Call] = {}
        self._sent: dict[str, _Call] = {}
        #: By work request.
        self._reads: dict[tuple[int, int], _Call] = {}
        self._forms: dict[str, Form] = {}
        self._handlers: dict[str, Callable[[Event], None]] = {
            "svcrdma_decode_rqst": self._decode,
            "svcrdma_post_read_chunk": self._read,
            "svcrdma_wc_read": self._fetch,
            "svc_stats_latency": self._process,
            "svcrdma_post_write_chunk": self._write,
            "svcrdma_post_reply_chunk": self._write,
            "svcrdma_post_send": self._send,
        }

    def feed(self, events: Iterable[Event]) -> None:
        """Adds events. Those of a client are left out."""
        for event in events:
            handler = self._handlers.get(event.name)
            if handler:
                handler(event)
        for known in (self._calls, self._reads):
            if len(known) > _OPEN:
                known.clear()

    def take(self) -> dict[str, Form]:
        """Ends the interval. Returns its calls by form."""
        forms, self._forms = self._forms, {}
        return forms

    def _decode(self, event: Event) -> None:
        if event.xid is None:
            return
        whole = event.value("proc") == "RDMA_NOMSG"
        call = _Call(event.time, "long call" if whole else "inline")
        self._calls[event.xid] = self._taken[event.pid] = call

    def _read(self, event: Event) -> None:
        call = self._taken.pop(event.pid, None)
        if call:
            call.call = "read chunk" if call.call == "inline" else call.call
            self._reads[event.number("cq.id"), event.number("cid")] = call

    def _fetch(self, event: Event) -> None:
        call = self._reads.pop((event.number("cq.id"), event.number("cid")), None)
        if call:
            call.fetched = event.number("latency-us")

    def _process(self, event: Event) -> None:
        self._end(event.pid)
        call = self._calls.pop(event.xid, None) if event.xid is not None else None
        if call:
            call.end = event.time
            self._sent[event.pid] = call
            if self._taken.get(event.pid) is call:
                del self._taken[event.pid]

    def _write(self, event: Event) -> None:
        call = self._sent.get(event.pid)
        if call:
            call.reply = _REPLIES[event.name]

    def _send(self, event: Event) -> None:
        self._end(event.pid)

    def _end(self, thread: str) -> None:
        """Adds the call whose reply a thread has sent. A reply that had to wait counts as well."""
        call = self._sent.pop(thread, None)
        if not call:
            return
        form = self._forms.setdefault(f"{call.call}, {call.reply}", Form())
        form.rtts.append(round((call.end - call.begin) * 1e6))
        if call.fetched:
            form.mappings.append(call.fetched)


def one_in(wanted: int) -> int:
    """Returns the sampled share of calls, if one in `wanted` RPC tasks of the client is sampled."""
    return min(wanted, _RAREST)


def filter_for(wanted: int) -> str:
    """Returns the filter of the kernel for the events with XIDs."""
    count = one_in(wanted)
    return f"!(xid & {(count - 1) << _COUNTING:#x})" if count > 1 else "0"
