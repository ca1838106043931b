# SPDX-License-Identifier: GPL-2.0
"""``nfsrdma trace``: what the RPCs of a command do, as time lines in words."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import UsageError
from ..table import span
from .events import Event
from .rpcs import EVENTS, Assembler, Rpc
from .words import connection_sentence, tell

#: Further events for ``--all``: connections, breaches, calls of the server.
CONNECTION_EVENTS = tuple(
    f"rpcrdma:xprtrdma_{name}"
    for name in (
        "connect",
        "disconnect",
        "conn_state",
        "private_data",
        "inline_thresh",
        "createmrs",
        "device_removal",
        "op_connect",
        "op_inject_dsc",
        "op_set_cto",
        "probe",
        "wc_probe",
        "terms_changed",
        "version_settled",
        "control_sent",
        "control_received",
        "recvs_grow",
        "peer_remembered",
        "session_closed",
        "session_breach",
        "cb_setup",
        "cb_call",
        "cb_reply",
        "cb_refused",
        "malformed_hdr",
        "reminv_foreign",
        "bad_credits",
        "not_a_send",
        "reply_rqst_err",
        "reply_vers_err",
        "reply_hdr_err",
        "reply_short_err",
    )
)

#: Seconds from one look at the recording to the next.
_STEP = 0.1
#: Seconds after the command's end in which completions may still come.
_AFTER = 0.2


class Source(Protocol):
    """Where events come from: a `tracefs.Recording`, or what a test has recorded."""

    lost: int

    def read(self, patience: float = 0) -> list[Event]:
        """Returns the events since the last call."""

    def stop(self) -> None:
        """Ends recording."""


@dataclass(frozen=True)
class Wish:
    """What to trace, and how to print it."""

    command: Sequence[str]
    xid: int | None = None
    everything: bool = False
    as_json: bool = False

    @property
    def events(self) -> tuple[str, ...]:
        """The events to record."""
        return EVENTS + (CONNECTION_EVENTS if self.everything else ())


@dataclass
class Told:
    """What was printed so far."""

    rpcs: int = 0
    events: int = 0
    forms: Counter[str] | None = None


def trace(wish: Wish, source: Source, run: Callable[[Sequence[str]], Iterator[int | None]]) -> int:
    """Traces a command, or until an interrupt. Returns the command's exit status.

    `run` begins a command and yields its exit status, None while it runs.

    # Errors
    `UsageError`: there is nothing to wait for.
    """
    if not wish.command and wish.xid is None:
        raise UsageError("trace needs a command to run, or --xid")
    assembler, told = Assembler(), Told(forms=Counter())
    begin = time.monotonic()
    status = 0
    try:
        for ended in run(wish.command):
            # Waiting for an event would wake this program for each of them.
            time.sleep(_STEP)
            _take(wish, assembler, told, source.read())
            status = ended or 0
    except KeyboardInterrupt:
        pass
    time.sleep(_AFTER)
    source.stop()
    _take(wish, assembler, told, source.read())
    for rpc in assembler.unfinished():
        _print(wish, told, rpc)
    if not wish.as_json:
        _summarise(told, time.monotonic() - begin, source.lost)
    return status


def running(command: Sequence[str]) -> Iterator[int | None]:
    """Runs a command, and yields None until it has ended, then its exit status.

    Without a command it yields None for ever.

    # Errors
    `UsageError`: the command cannot be run.
    """
    if not command:
        while True:
            yield None
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        raise UsageError(f"cannot run {command[0]}: {error.strerror}") from error
    while process.poll() is None:
        yield None
    yield process.returncode


def _take(wish: Wish, assembler: Assembler, told: Told, events: list[Event]) -> None:
    """Prints the RPCs that events complete, and with ``--all`` the events of no RPC."""
    for event in events:
        told.events += 1
        rpc = assembler.feed(event)
        if rpc:
            _print(wish, told, rpc)
    if wish.everything and wish.xid is None and not wish.as_json:
        for event in assembler.others:
            print(connection_sentence(event))
    assembler.others.clear()


def _print(wish: Wish, told: Told, rpc: Rpc) -> None:
    if wish.xid is not None and rpc.xid != wish.xid:
        return
    # SUNRPC has tasks that call nobody, and tasks over TCP.
    if not rpc.is_rdma and not wish.everything:
        return
    told.rpcs += 1
    if told.forms is not None:
        told.forms[rpc.form] += 1
    print(json.dumps(as_json(rpc)) if wish.as_json else "\n".join(tell(rpc)))
    sys.stdout.flush()


def as_json(rpc: Rpc) -> dict[str, Any]:
    """Returns an RPC for ``--json``, which prints one object on each line."""
    return {
        "program": rpc.program,
        "procedure": rpc.procedure,
        "xid": rpc.xid,
        "task": rpc.task,
        "call_form": rpc.call_form,
        "reply_form": rpc.reply_form,
        "call_bytes": rpc.call_bytes,
        "segments": rpc.segments,
        "registered": rpc.registered,
        "retransmissions": rpc.retransmissions,
        "rtt_us": rpc.rtt,
        "execute_us": rpc.execute,
        "complete": rpc.is_complete,
        "events": [
            {"us": round((event.time - rpc.begin) * 1e6), "name": event.name, "text": event.rest}
            for event in rpc.events
        ],
    }


def _summarise(told: Told, seconds: float, lost: int) -> None:
    forms = ", ".join(f"{count} {form}" for form, count in (told.forms or Counter()).most_common())
    print(f"{told.rpcs} RPCs in {span(seconds * 1e6)} (call, reply): {forms or 'none'}")
    if lost:
        print(f"The kernel had no room for {lost} events: some time lines are not complete.")
