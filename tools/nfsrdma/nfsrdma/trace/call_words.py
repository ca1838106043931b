# SPDX-License-Identifier: GPL-2.0
"""A call that this host serves as a time line, in words."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..table import span
from .calls import Call
from .events import Event

_SEGMENT = re.compile(r"(\d+)@0x[0-9a-f]+:(0x[0-9a-f]+)")
_PULLUP = re.compile(r"hdr=(\d+) msg=(\d+)")
_OPERATION = re.compile(r"op=(\d+)/(\d+) (\S+)")


def tell(call: Call) -> list[str]:
    """Returns the time line of a call, after a head line."""
    took = (call.end - call.begin) * 1e6
    client = f" of {call.client}" if call.client else ""
    state = span(took) if call.is_complete else f"not ended after {span(took)}"
    lines = [f"{call.name}{client}, xid 0x{call.xid:08x}: {state}"]
    for event in call.events:
        since = (event.time - call.begin) * 1e6
        lines.append(f"  {since:>9.0f} us  {sentence(event)}")
    return lines


def sentence(event: Event) -> str:
    """Returns the meaning of an event."""
    tell_event = _SENTENCES.get(event.name)
    return tell_event(event) if tell_event else f"{event.name}: {event.rest}"


def _decoded(event: Event) -> str:
    whole = event.value("proc") == "RDMA_NOMSG"
    form = "as a long call, all of it in a read chunk" if whole else "inline"
    return (
        f"comes {form} ({event.value('proc')} of version {event.value('vers')}), behind a header"
        f" of {event.value('hdrlen')} bytes; the client asks for {event.value('credits')} credits"
    )


def _refused(why: str) -> Callable[[Event], str]:
    return lambda event: f"is refused: {why} (version {event.value('vers')})"


def _segment(event: Event) -> tuple[str, str]:
    """Returns the length and the R_key of a segment."""
    found = _SEGMENT.search(event.text)
    return (found[1], found[2]) if found else ("?", "?")


def _read_segment(event: Event) -> str:
    length, key = _segment(event)
    what = f"segment {event.value('segno')} of a read chunk at position {event.value('position')}"
    return f"offers {length} bytes in {what} (R_key {key})"


def _write_segment(event: Event) -> str:
    length, key = _segment(event)
    what = f"segment {event.value('segno')} of a write chunk or reply chunk"
    return f"offers room for {length} bytes in {what} (R_key {key})"


def _written(event: Event) -> str:
    (length, key), number = _segment(event), event.value("segno")
    if length == "0":
        return f"leaves segment {number} empty (R_key {key})"
    return f"gets {length} bytes of its reply in segment {number} (R_key {key})"


def _read(event: Event) -> str:
    took = span(event.number("latency-us"))
    return f"the RDMA Reads have read {event.value('totalbytes')} bytes in {took}"


def _process(event: Event) -> str:
    service, version = event.value("service"), event.value("vers")
    return f"is processed by {service} v{version} as {event.value('proc')}"


def _operation(event: Event) -> str:
    found = _OPERATION.search(event.text)
    status = event.number("status")
    ended = f"ends with NFS error {status}" if status else "is done"
    number, count, name = found.groups() if found else ("?", "?", "?")
    return f"operation {number} of {count}, {name.removeprefix('OP_')}, {ended}"


def _message(what: str) -> Callable[[Event], str]:
    def tell_message(event: Event) -> str:
        pages = event.value("page").partition("(")[0]
        inside = f", {pages} of them in pages" if pages not in ("", "0") else ""
        return f"{what}, {event.value('len')} bytes{inside}"

    return tell_message


def _header(event: Event) -> str:
    found = _PULLUP.search(event.text)
    header, message = found.groups() if found else ("?", "?")
    behind = f", with {message} bytes of the reply behind it" if message != "0" else ""
    return f"has a header of {header} bytes{behind}"


def _writes(kind: str) -> Callable[[Event], str]:
    return lambda event: f"posts the {kind} (work requests: {event.value('sqecount')})"


def _sent(event: Event) -> str:
    key = event.value("inv_rkey")
    invalidates = event.number("inv_rkey") != 0
    return "the reply is sent" + (f", and invalidates R_key {key}" if invalidates else "")


def _full(event: Event) -> str:
    return f"waits for the send queue, of which is free: {event.value('sc_sq_avail')}"


def _failed(what: str) -> Callable[[Event], str]:
    return lambda event: f"{what} has failed: {event.value('status')}"


def _short(event: Event) -> str:
    return f"the client's chunk is too short for {event.value('remaining')} bytes of the reply"


_SENTENCES: dict[str, Callable[[Event], str]] = {
    "svcrdma_wc_recv": lambda event: f"arrives in a message of {event.value('received')} bytes",
    "svcrdma_decode_rqst": _decoded,
    "svcrdma_decode_badvers_err": _refused("its version is not served"),
    "svcrdma_decode_badproc_err": _refused("its message type is not served"),
    "svcrdma_decode_parse_err": _refused("its header or its RPC message is malformed"),
    "svcrdma_padded_call": lambda event: f"loses {event.value('length')} bytes of padding",
    "svcrdma_decode_rseg": _read_segment,
    "svcrdma_decode_wseg": _write_segment,
    "svcrdma_post_read_chunk": _writes("RDMA Reads"),
    "svcrdma_wc_read": _read,
    "svcrdma_wc_read_flush": _failed("an RDMA Read"),
    "svcrdma_wc_read_err": _failed("an RDMA Read"),
    "svcrdma_read_finished": lambda event: f"is taken, with what was read, by {event.thread}",
    "svc_xdr_recvfrom": _message("is handed to nfsd"),
    "svc_process": _process,
    "nfsd_compound_status": _operation,
    "svc_stats_latency": lambda event: f"was processed in {span(event.number('execute-us'))}",
    "svc_xdr_sendto": _message("has its reply"),
    "svcrdma_encode_wseg": _written,
    "svcrdma_send_pullup": _header,
    "svcrdma_small_wrch_err": _short,
    "svcrdma_expose_reply": lambda event: (
        f"{event.value('length')} bytes of the reply are exposed to RDMA Reads by the client"
    ),
    "svcrdma_err_vers": lambda _: "is answered with ERR_VERS",
    "svcrdma_err_chunk": lambda _: "is answered with ERR_CHUNK",
    "svcrdma_breach": lambda event: f"breaks the protocol: {event.rest}",
    "svcrdma_post_write_chunk": _writes("RDMA Writes to the write chunk"),
    "svcrdma_post_reply_chunk": _writes("RDMA Writes to the reply chunk"),
    "svcrdma_post_send": _sent,
    "svcrdma_sq_full": _full,
    "svcrdma_sq_retry": lambda _: "the send queue has room again",
    "svcrdma_sq_post_err": _failed("posting"),
    "svcrdma_send_err": _failed("sending the reply"),
    "svcrdma_wc_send": lambda _: "the RDMA Writes and the Send are known to have completed",
    "svcrdma_wc_send_flush": _failed("the Send"),
    "svcrdma_wc_send_err": _failed("the Send"),
    "svcrdma_wc_write_flush": _failed("an RDMA Write"),
    "svcrdma_wc_write_err": _failed("an RDMA Write"),
}
