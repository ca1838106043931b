# SPDX-License-Identifier: GPL-2.0
"""An RPC as a time line, in words."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..table import span
from .events import Event
from .rpcs import CALL_FORMS, REPLY_FORMS, Rpc

_SEGMENT = re.compile(r"(\d+)@(0x[0-9a-f]+):(0x[0-9a-f]+)")
_MARSHAL = re.compile(r"hdr=(\d+) xdr=(\d+)/(\d+)/(\d+) (.+)/(.+)$")

_CALL = {
    "inline": "the call goes inline",
    "read chunk": "its data goes by a read chunk",
    "long call": "the whole call goes by a read chunk",
}
_REPLY = {
    "inline": "the reply is expected inline",
    "write chunk": "the data of the reply is expected in a write chunk",
    "reply chunk": "the whole reply may come in a reply chunk",
}


#: Events that say nothing if no byte was copied.
_UNINTERESTING = ("xprtrdma_fixup",)


def tell(rpc: Rpc) -> list[str]:
    """Returns the time line of an RPC, after a head line."""
    took = (rpc.events[-1].time - rpc.begin) * 1e6
    xid = f"xid 0x{rpc.xid:08x}" if rpc.xid is not None else "without XID"
    state = span(took) if rpc.is_complete else f"not ended after {span(took)}"
    lines = [f"{rpc.name}, {xid}, task {rpc.task}: {state}"]
    for event in rpc.events:
        if event.name in _UNINTERESTING and event.number("fixup") == 0:
            continue
        since = (event.time - rpc.begin) * 1e6
        lines.append(f"  {since:>9.0f} us  {sentence(event)}")
    return lines


def sentence(event: Event) -> str:
    """Returns the meaning of an event."""
    tell_event = _SENTENCES.get(event.name)
    return tell_event(event) if tell_event else f"{event.name}: {event.rest}"


def _request(event: Event) -> str:
    return "begins" + (", in the background" if "(async)" in event.rest else "")


def _map(event: Event) -> str:
    found = _SEGMENT.search(event.rest)
    length, key = (found[1], found[3]) if found else ("?", "?")
    use = "may write" if "FROM_DEVICE" in event.rest else "may read"
    return f"region {event.region} maps {length} bytes that the server {use} (R_key {key})"


def _chunk(kind: str) -> Callable[[Event], str]:
    def tell_chunk(event: Event) -> str:
        found = _SEGMENT.search(event.rest)
        at = f" at position {event.value('pos')}" if event.value("pos") else ""
        length, key = (found[1], found[3]) if found else ("?", "?")
        return f"offers {length} bytes in a {kind}{at} (R_key {key})"

    return tell_chunk


def _marshal(event: Event) -> str:
    found = _MARSHAL.search(event.rest)
    if not found:
        return f"is prepared: {event.rest}"
    head, pages, tail = (int(found[part]) for part in (2, 3, 4))
    call = _CALL.get(CALL_FORMS.get(found[5], ""), f"the call goes as {found[5]}")
    reply = _REPLY.get(REPLY_FORMS.get(found[6], ""), f"the reply comes as {found[6]}")
    message = f"{head + pages + tail} bytes" + (f", {pages} of them in pages" if pages else "")
    return f"is prepared, {message}, behind a header of {found[1]}: {call}; {reply}"


def _reply(event: Event) -> str:
    return f"has its reply; the server grants {event.value('credits')} credits"


def _latency(event: Event) -> str:
    waited, rtt, execute = (event.number(name) for name in ("backlog", "rtt", "execute"))
    return f"waited {span(waited)} to be sent; round trip {span(rtt)}; in all {span(execute)}"


def _end(event: Event) -> str:
    status = event.number("status")
    return f"ends with error {status}" if status < 0 else "ends"


def _given_up(event: Event) -> str:
    waited = "its reply was awaited" if event.value("waited") == "1" else "no reply is awaited"
    answer = "and has arrived" if event.value("answered") == "1" else "and has not arrived"
    return f"is aborted: {waited}, {answer}"


_SENTENCES: dict[str, Callable[[Event], str]] = {
    "rpc_request": _request,
    "rpc_stats_latency": _latency,
    "rpc_task_end": _end,
    "xprt_retransmit": lambda event: f"is sent again, for the {event.value('ntrans')}. time",
    "xprtrdma_mr_map": _map,
    "xprtrdma_mr_fastreg": lambda event: f"posts the registration of region {event.region}",
    "xprtrdma_mr_reminv": lambda event: f"the server has invalidated region {event.region}",
    "xprtrdma_mr_localinv": lambda event: f"posts the invalidation of region {event.region}",
    "xprtrdma_chunk_read": _chunk("read chunk"),
    "xprtrdma_chunk_write": _chunk("write chunk"),
    "xprtrdma_chunk_reply": _chunk("reply chunk"),
    "xprtrdma_marshal": _marshal,
    "xprtrdma_marshal_failed": lambda event: f"cannot be prepared now: error {event.value('ret')}",
    "xprtrdma_nomrs_err": lambda _: "waits for memory regions",
    "xprtrdma_post_send": lambda _: "is sent",
    "xprtrdma_post_send_err": lambda event: f"cannot be sent: error {event.value('rc')}",
    "xprtrdma_reply": _reply,
    "xprtrdma_fixup": lambda event: f"copies {event.value('fixup')} bytes of the reply to pages",
    "xprtrdma_wc_li_done": lambda _: "its memory is out of the server's reach",
    "xprtrdma_given_up": _given_up,
    "xprtrdma_err_vers": lambda event: f"the server refuses the version: {event.rest}",
    "xprtrdma_err_chunk": lambda _: "the server could not process the header (ERR_CHUNK)",
    "xprtrdma_reply_violation": lambda event: f"the reply breaks the protocol: {event.rest}",
}


def connection_sentence(event: Event) -> str:
    """Returns an event that belongs to no RPC, with its time."""
    return f"{event.time:.6f}  {event.name.removeprefix('xprtrdma_')}: {event.text}"
