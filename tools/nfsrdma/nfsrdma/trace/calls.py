# SPDX-License-Identifier: GPL-2.0
"""Puts the events of each call together that this host serves.

Few events of a server have an XID. The others find their call by the thread or by the work request:
a thread traces what belongs to the call that it has taken, or whose reply it is sending, and the
completion of a work request has the number with which the work request was posted.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .events import Event

#: The events that a call needs. `nfsd` names the operations of NFSv4.
EVENTS = (
    "rpcrdma:svcrdma_wc_recv",
    "rpcrdma:svcrdma_decode_rqst",
    "rpcrdma:svcrdma_decode_rseg",
    "rpcrdma:svcrdma_decode_wseg",
    "rpcrdma:svcrdma_decode_badvers_err",
    "rpcrdma:svcrdma_decode_badproc_err",
    "rpcrdma:svcrdma_decode_parse_err",
    "rpcrdma:svcrdma_padded_call",
    "rpcrdma:svcrdma_post_read_chunk",
    "rpcrdma:svcrdma_wc_read",
    "rpcrdma:svcrdma_wc_read_flush",
    "rpcrdma:svcrdma_wc_read_err",
    "rpcrdma:svcrdma_read_finished",
    "rpcrdma:svcrdma_dma_map_rw_err",
    "sunrpc:svc_xdr_recvfrom",
    "sunrpc:svc_process",
    "nfsd:nfsd_compound_status",
    "sunrpc:svc_stats_latency",
    "sunrpc:svc_xdr_sendto",
    "rpcrdma:svcrdma_encode_wseg",
    "rpcrdma:svcrdma_send_pullup",
    "rpcrdma:svcrdma_small_wrch_err",
    "rpcrdma:svcrdma_expose_reply",
    "rpcrdma:svcrdma_err_vers",
    "rpcrdma:svcrdma_err_chunk",
    "rpcrdma:svcrdma_breach",
    "rpcrdma:svcrdma_post_write_chunk",
    "rpcrdma:svcrdma_post_reply_chunk",
    "rpcrdma:svcrdma_post_send",
    "rpcrdma:svcrdma_sq_full",
    "rpcrdma:svcrdma_sq_retry",
    "rpcrdma:svcrdma_sq_post_err",
    "rpcrdma:svcrdma_send_err",
    "rpcrdma:svcrdma_wc_send",
    "rpcrdma:svcrdma_wc_send_flush",
    "rpcrdma:svcrdma_wc_send_err",
    "rpcrdma:svcrdma_wc_write_flush",
    "rpcrdma:svcrdma_wc_write_err",
)

#: Further events for ``--all``: those of connections, and messages that are no calls.
CONNECTION_EVENTS = tuple(
    f"rpcrdma:svcrdma_{name}"
    for name in (
        "pd_err",
        "qp_err",
        "initdepth_err",
        "accept_err",
        "qp_error",
        "device_removal",
        "rq_post_err",
        "wc_recv_flush",
        "wc_recv_err",
        "decode_short_err",
        "decode_drop_err",
        "conf_call",
        "done_received",
    )
)

_NAMES = frozenset(name.partition(":")[2] for name in (*EVENTS, *CONNECTION_EVENTS))
_OF_CONNECTIONS = frozenset(name.partition(":")[2] for name in CONNECTION_EVENTS)
#: Calls whose end was not seen before the oldest one is forgotten.
_OPEN = 10_000

#: A work request: its completion queue and its number there.
WorkRequest = tuple[int, int]


def is_of_server(event: Event) -> bool:
    """Whether an event belongs to this host as a server."""
    return event.name in _NAMES


@dataclass
class Call:
    """The known facts of a call that this host serves."""

    xid: int
    #: The Receive in which its message arrived.
    receive: WorkRequest = (0, 0)
    events: list[Event] = field(default_factory=list)
    #: Service and version, as in ``nfsd v4``.
    program: str = ""
    procedure: str = ""
    #: The operations of a COMPOUND that nfsd has carried out.
    operations: list[str] = field(default_factory=list)
    #: The address of the client.
    client: str = ""
    call_form: str = "inline"
    reply_form: str = "inline"
    #: The bytes of the RPC messages, with what lies in chunks.
    call_bytes: int = 0
    reply_bytes: int = 0
    #: Bytes that RDMA Reads have read, and that RDMA Writes were to write.
    read_bytes: int = 0
    written_bytes: int = 0
    #: Microseconds that its RDMA Reads took.
    fetched: int = 0
    #: Microseconds that nfsd took, or None.
    execute: int | None = None
    #: Whether its reply was posted, or no more events are expected.
    is_complete: bool = False
    #: When the last of its events before that was recorded, or its reply was posted.
    end: float = 0.0
    #: The process id of the thread that has the call, or sends its reply.
    thread: str = ""

    @property
    def name(self) -> str:
        """Service, version and procedure, with the operations of a COMPOUND."""
        name = f"{self.program} {self.procedure}".strip() or "a call"
        return f"{name} ({' '.join(self.operations)})" if self.operations else name

    @property
    def form(self) -> str:
        """The forms of call and reply, as in ``read chunk, inline``."""
        return f"{self.call_form}, {self.reply_form}"

    @property
    def begin(self) -> float:
        """When its first event was recorded."""
        return self.events[0].time

    def until(self, name: str) -> float | None:
        """Returns the seconds from the begin to the last event of a name; None without one."""
        times = [event.time for event in self.events if event.name == name]
        return times[-1] - self.begin if times else None

    def add(self, event: Event) -> None:
        """Adds an event and its facts."""
        self.events.append(event)
        if not self.is_complete:
            self.end = event.time
        handler = _HANDLERS.get(event.name)
        if handler:
            handler(self, event)

    def as_json(self) -> dict[str, Any]:
        """Returns the call for ``--json``."""
        return {
            "role": "server",
            "program": self.program,
            "procedure": self.procedure,
            "operations": self.operations,
            "client": self.client,
            "xid": self.xid,
            "call_form": self.call_form,
            "reply_form": self.reply_form,
            "call_bytes": self.call_bytes,
            "reply_bytes": self.reply_bytes,
            "read_bytes": self.read_bytes,
            "written_bytes": self.written_bytes,
            "execute_us": self.execute,
            "complete": self.is_complete,
            "events": [event.as_json(self.begin) for event in self.events],
        }


def _decoded(call: Call, event: Event) -> None:
    call.call_form = "long call" if event.value("proc") == "RDMA_NOMSG" else "inline"


def _reads_posted(call: Call, _event: Event) -> None:
    call.call_form = "read chunk" if call.call_form == "inline" else call.call_form


def _read(call: Call, event: Event) -> None:
    call.read_bytes, call.fetched = event.number("totalbytes"), event.number("latency-us")


def _taken(call: Call, event: Event) -> None:
    call.call_bytes = event.number("len")


def _process(call: Call, event: Event) -> None:
    call.program = f"{event.value('service')} v{event.value('vers')}"
    call.procedure, call.client = event.value("proc"), _client(event.value("addr"))


def _client(address: str) -> str:
    """Returns the address of a client. The server of RPC-over-RDMA does not know its port."""
    return address.removesuffix(":0")


def _operation(call: Call, event: Event) -> None:
    words = event.text.split()
    call.operations.append(words[1].removeprefix("OP_") if len(words) > 1 else "?")


def _latency(call: Call, event: Event) -> None:
    call.execute, call.client = event.number("execute-us"), _client(event.value("client"))


def _replied(call: Call, event: Event) -> None:
    call.reply_bytes = event.number("len")


def _posted(call: Call, _event: Event) -> None:
    """Notes that the reply is on its way. Not every Send has an event at its end, or soon."""
    call.is_complete = True


def _segment(call: Call, event: Event) -> None:
    found = re.search(r"(\d+)@0x", event.text)
    call.written_bytes += int(found[1]) if found else 0


def _written(form: str) -> Callable[[Call, Event], None]:
    def written(call: Call, _event: Event) -> None:
        call.reply_form = form

    return written


_HANDLERS: dict[str, Callable[[Call, Event], None]] = {
    "svcrdma_decode_rqst": _decoded,
    "svcrdma_post_read_chunk": _reads_posted,
    "svcrdma_wc_read": _read,
    "svc_xdr_recvfrom": _taken,
    "svc_process": _process,
    "nfsd_compound_status": _operation,
    "svc_stats_latency": _latency,
    "svc_xdr_sendto": _replied,
    "svcrdma_encode_wseg": _segment,
    "svcrdma_post_write_chunk": _written("write chunk"),
    "svcrdma_post_reply_chunk": _written("reply chunk"),
    "svcrdma_expose_reply": _written("read chunk"),
    "svcrdma_post_send": _posted,
}

#: With these events a call begins.
_BEGINS = (
    "svcrdma_decode_rqst",
    "svcrdma_decode_badvers_err",
    "svcrdma_decode_badproc_err",
    "svcrdma_decode_parse_err",
)
#: Completions, which find their call by the work request. A call ends with each but the first.
_COMPLETIONS = (
    "svcrdma_wc_read",
    "svcrdma_wc_read_flush",
    "svcrdma_wc_read_err",
    "svcrdma_wc_send",
    "svcrdma_wc_send_flush",
    "svcrdma_wc_send_err",
    "svcrdma_wc_write_flush",
    "svcrdma_wc_write_err",
)
#: Events with an XID, or with zero in its place, that may belong to no call that is known.
_WITHOUT_CALL = ("svcrdma_breach", "svcrdma_send_err")
_SEGMENTS = ("svcrdma_decode_rseg", "svcrdma_decode_wseg")
_POSTS = ("svcrdma_post_read_chunk", "svcrdma_post_write_chunk", "svcrdma_post_reply_chunk",
          "svcrdma_post_send")  # fmt: skip


class Calls:
    """Finds the call of each event."""

    def __init__(self, *, until_sent: bool = False) -> None:
        """There is no call yet.

        `until_sent`: each call ends when its reply is posted, as the end of Sends is not recorded.
        """
        self._until_sent = until_sent
        self._open: dict[int, Call] = {}
        #: By Receive: the events of a message before it is known to be a call.
        self._arrived: dict[WorkRequest, list[Event]] = {}
        #: By thread: the call that it has taken, or whose reply it is sending.
        self._current: dict[str, Call] = {}
        #: By work request: the call to which an RDMA Read or a Send belongs.
        self._posted: dict[WorkRequest, Call] = {}
        #: Calls whose RDMA Reads have completed. The numbers of these may be in use again.
        self._fetched: dict[WorkRequest, deque[Call]] = {}
        #: By completion queue: calls and replies that wait for the send queue, in their order.
        self._parked: dict[int, deque[Call]] = {}
        #: Events of connections, and those whose call is not known.
        self.others: list[Event] = []

    def feed(self, event: Event) -> Call | None:
        """Adds an event. Returns the call that it completes, if it completes one."""
        call = None if self._is_early(event) else self._call(event)
        if not call:
            return None
        call.add(event)
        self._follow(call, event)
        if not self._ends(call, event):
            return None
        self._end(call)
        return call

    def _is_early(self, event: Event) -> bool:
        """Keeps an event of a message that is not known to be a call yet.

        The kernel's own module traces segments before the call that offers them.
        """
        if event.name == "svcrdma_wc_recv":
            self._arrived[event.work_request] = [event]
            return True
        current = self._current.get(event.pid)
        begun = current is not None and current.receive == event.work_request
        if event.name not in _SEGMENTS or begun:
            return False
        self._arrived.setdefault(event.work_request, []).append(event)
        return True

    def _unknown(self, event: Event) -> None:
        if event.name in _OF_CONNECTIONS or event.name in _WITHOUT_CALL:
            self.others.append(event)
        elif event.xid is not None:
            # The thread has a call of another transport now.
            self._current.pop(event.pid, None)

    def unfinished(self) -> list[Call]:
        """Returns the calls of which more may come."""
        return list(self._open.values())

    def _call(self, event: Event) -> Call | None:
        """Returns the call of an event. Without one, takes note of what the event means."""
        call = None if event.name in _OF_CONNECTIONS else self._find(event)
        if not call:
            self._unknown(event)
        return call

    def _find(self, event: Event) -> Call | None:
        if event.name in _BEGINS:
            return self._begin(event)
        if event.name in _COMPLETIONS:
            return self._posted.pop(event.work_request, None)
        if event.name == "svcrdma_read_finished":
            waiting = self._fetched.get(event.work_request)
            return waiting.popleft() if waiting else None
        if event.name == "svcrdma_sq_retry":
            return self._resumed(event)
        return self._of_thread(event)

    def _of_thread(self, event: Event) -> Call | None:
        """Returns the call that the event's thread has, or whose reply it sends for another."""
        current = self._current.get(event.pid)
        if event.xid is not None:
            return current if current and current.xid == event.xid else self._named(event.xid)
        if current is None and event.name in _POSTS:
            waiting = self._parked.get(event.completion_queue)
            return waiting[0] if waiting else None
        return current

    def _begin(self, event: Event) -> Call:
        call = Call(event.xid or 0, receive=event.work_request)
        for earlier in self._arrived.pop(event.work_request, []):
            call.add(earlier)
        self._open[id(call)] = call
        self._take(call, event.pid)
        if len(self._open) > _OPEN:
            self._end(next(iter(self._open.values())))
        return call

    def _named(self, xid: int) -> Call | None:
        """Returns the oldest call with this XID: two clients may use the same one."""
        return next((call for call in self._open.values() if call.xid == xid), None)

    def _resumed(self, event: Event) -> Call | None:
        """Returns the call that waits no longer, unless it was posted before this event."""
        waiting = self._parked.get(event.completion_queue)
        call = waiting.popleft() if waiting else None
        return call if call and call.events[-1].name == "svcrdma_sq_full" else None

    def _follow(self, call: Call, event: Event) -> None:
        """Remembers where the next events of the call will come from."""
        name = event.name
        if name == "svcrdma_post_read_chunk":
            self._posted[event.work_request] = call
            self._leave(call)
        elif name == "svcrdma_wc_read":
            self._fetched.setdefault(event.work_request, deque()).append(call)
        elif name == "svcrdma_sq_full":
            self._parked.setdefault(event.completion_queue, deque()).append(call)
            self._leave(call)
        elif name == "svcrdma_post_send" and not self._ends(call, event):
            self._posted[event.work_request] = call
            self._leave(call)
        elif name not in _COMPLETIONS and name not in _POSTS:
            self._take(call, event.pid)

    def _take(self, call: Call, thread: str) -> None:
        """Notes that a thread has the call now."""
        if call.thread != thread:
            self._leave(call)
        call.thread, self._current[thread] = thread, call

    def _leave(self, call: Call) -> None:
        """Notes that no thread has the call now."""
        if self._current.get(call.thread) is call:
            del self._current[call.thread]

    def _ends(self, call: Call, event: Event) -> bool:
        """Whether nothing more is to come. A Send behind no RDMA Write has no event at its end."""
        if event.name == "svcrdma_post_send":
            return self._until_sent or call.reply_form == "inline"
        if event.name in ("svcrdma_send_err", "svcrdma_expose_reply"):
            return True
        return event.name in _COMPLETIONS and event.name != "svcrdma_wc_read"

    def _end(self, call: Call) -> None:
        call.is_complete = True
        self._leave(call)
        self._open.pop(id(call), None)
