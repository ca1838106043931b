# SPDX-License-Identifier: GPL-2.0
"""Puts the events of each RPC together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from .events import Event

#: The events that an RPC needs. Each is recorded for each RPC at most a few times.
EVENTS = (
    "sunrpc:rpc_request",
    "sunrpc:rpc_stats_latency",
    "sunrpc:rpc_task_end",
    "sunrpc:xprt_retransmit",
    "rpcrdma:xprtrdma_mr_map",
    "rpcrdma:xprtrdma_mr_fastreg",
    "rpcrdma:xprtrdma_mr_reminv",
    "rpcrdma:xprtrdma_mr_localinv",
    "rpcrdma:xprtrdma_chunk_read",
    "rpcrdma:xprtrdma_chunk_write",
    "rpcrdma:xprtrdma_chunk_reply",
    "rpcrdma:xprtrdma_marshal",
    "rpcrdma:xprtrdma_marshal_failed",
    "rpcrdma:xprtrdma_nomrs_err",
    "rpcrdma:xprtrdma_post_send",
    "rpcrdma:xprtrdma_post_send_err",
    "rpcrdma:xprtrdma_reply",
    "rpcrdma:xprtrdma_fixup",
    "rpcrdma:xprtrdma_wc_li_done",
    "rpcrdma:xprtrdma_given_up",
    "rpcrdma:xprtrdma_err_vers",
    "rpcrdma:xprtrdma_err_chunk",
    "rpcrdma:xprtrdma_reply_violation",
)

#: The names of the forms, by what xprtrdma_marshal prints.
CALL_FORMS = {
    "inline": "inline",
    "pullup": "inline",
    "mapped": "inline",
    "read list": "read chunk",
    "*read list": "long call",
}
REPLY_FORMS = {"inline": "inline", "write list": "write chunk", "reply chunk": "reply chunk"}

_MARSHAL = re.compile(r"hdr=(\d+) xdr=(\d+)/(\d+)/(\d+) (.+)/(.+)$")
_REQUEST = re.compile(r"(\w+?)v(\d+) (\S+) \((a?)sync\)")


@dataclass
class Rpc:
    """The known facts of an RPC."""

    task: str
    events: list[Event] = field(default_factory=list)
    xid: int | None = None
    #: Program and version, as in ``nfs 4``.
    program: str = ""
    procedure: str = ""
    call_form: str = ""
    reply_form: str = ""
    #: The bytes of the RPC message of the call.
    call_bytes: int = 0
    #: Segments of memory that the call offers to the server.
    segments: int = 0
    registered: int = 0
    retransmissions: int = 0
    #: Microseconds that SUNRPC has measured, or None.
    rtt: int | None = None
    execute: int | None = None
    is_complete: bool = False

    @property
    def name(self) -> str:
        """Program and procedure."""
        return f"{self.program} {self.procedure}".strip() or "an RPC"

    @property
    def form(self) -> str:
        """The forms of call and reply, as in ``read chunk, inline``."""
        return f"{self.call_form}, {self.reply_form}" if self.call_form else "not sent by RDMA"

    @property
    def begin(self) -> float:
        """When its first event was recorded."""
        return self.events[0].time

    @property
    def is_rdma(self) -> bool:
        """Whether it was sent by RDMA, or was prepared for that."""
        return bool(self.call_form)

    @property
    def mapping(self) -> float:
        """Microseconds from the first region that was mapped to the call that is prepared."""
        first = next((event.time for event in self.events if event.name == "xprtrdma_mr_map"), None)
        done = self._last("xprtrdma_marshal")
        return (done - first) * 1e6 if first is not None and done is not None else 0.0

    def _last(self, name: str) -> float | None:
        times = [event.time for event in self.events if event.name == name]
        return times[-1] if times else None

    def add(self, event: Event) -> None:
        """Adds an event and its facts."""
        self.events.append(event)
        if event.xid is not None:
            self.xid = event.xid
        handler = _HANDLERS.get(event.name)
        if handler:
            handler(self, event)


def _request(rpc: Rpc, event: Event) -> None:
    found = _REQUEST.search(event.rest)
    if found:
        rpc.program, rpc.procedure = f"{found[1]}v{found[2]}", found[3]


def _marshal(rpc: Rpc, event: Event) -> None:
    found = _MARSHAL.search(event.rest)
    if found:
        rpc.call_bytes = sum(int(found[part]) for part in (2, 3, 4))
        rpc.call_form = CALL_FORMS.get(found[5], found[5])
        rpc.reply_form = REPLY_FORMS.get(found[6], found[6])


def _latency(rpc: Rpc, event: Event) -> None:
    words = event.rest.split()
    if len(words) > 2:
        rpc.program, rpc.procedure = words[1], words[2]
    rpc.rtt, rpc.execute = event.number("rtt"), event.number("execute")


def _segment(rpc: Rpc, event: Event) -> None:
    rpc.segments += 1
    found = re.search(r"(\d+)@0x", event.rest)
    rpc.registered += int(found[1]) if found else 0


def _retransmit(rpc: Rpc, _event: Event) -> None:
    rpc.retransmissions += 1


def _end(rpc: Rpc, _event: Event) -> None:
    rpc.is_complete = True


_HANDLERS = {
    "rpc_request": _request,
    "rpc_stats_latency": _latency,
    "rpc_task_end": _end,
    "xprt_retransmit": _retransmit,
    "xprtrdma_marshal": _marshal,
    "xprtrdma_chunk_read": _segment,
    "xprtrdma_chunk_write": _segment,
    "xprtrdma_chunk_reply": _segment,
}


#: RPCs that have ended and wait for what SUNRPC has measured: it traces that after their end.
_WAITING = 32


class Assembler:
    """Finds the RPC of each event."""

    def __init__(self) -> None:
        """There is no RPC yet."""
        self._open: dict[str, Rpc] = {}
        #: The task whose memory a region maps.
        self._regions: dict[str, str] = {}
        self._xids: dict[int, str] = {}
        self._ended: dict[str, Rpc] = {}
        #: Events that belong to no RPC.
        self.others: list[Event] = []

    def feed(self, event: Event) -> Rpc | None:
        """Adds an event. Returns an RPC of which nothing more is to come, if there is one now."""
        task = self._task(event)
        if not task:
            self.others.append(event)
            return None
        if event.name == "rpc_stats_latency" and task in self._ended:
            rpc = self._ended.pop(task)
            rpc.add(event)
            return rpc
        if event.name == "rpc_request":
            # The number of a task is used again.
            self._open.pop(task, None)
        rpc = self._open.setdefault(task, Rpc(task))
        rpc.add(event)
        if event.region:
            self._regions[event.region] = task
        if rpc.xid is not None:
            self._xids[rpc.xid] = task
        if not rpc.is_complete:
            return None
        self._forget(rpc)
        if not rpc.is_rdma:
            return rpc
        self._ended[task] = rpc
        return self._oldest() if len(self._ended) > _WAITING else None

    def _oldest(self) -> Rpc:
        return self._ended.pop(next(iter(self._ended)))

    def _task(self, event: Event) -> str:
        if event.task:
            return event.task
        if event.region:
            return self._regions.get(event.region, "")
        return self._xids.get(event.xid, "") if event.xid is not None else ""

    def _forget(self, rpc: Rpc) -> None:
        del self._open[rpc.task]
        if rpc.xid is not None:
            self._xids.pop(rpc.xid, None)
        for region in {event.region for event in rpc.events if event.region}:
            self._regions.pop(region, None)

    def unfinished(self) -> list[Rpc]:
        """Returns the RPCs of which more may come."""
        return [*self._ended.values(), *self._open.values()]


def assemble(events: Iterable[Event]) -> tuple[list[Rpc], list[Event]]:
    """Returns the RPCs of all events in the order of their begin, and the events of none."""
    assembler = Assembler()
    done = [rpc for rpc in map(assembler.feed, events) if rpc]
    rpcs = sorted([*done, *assembler.unfinished()], key=lambda rpc: rpc.begin)
    return rpcs, assembler.others
