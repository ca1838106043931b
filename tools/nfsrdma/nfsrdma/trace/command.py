# SPDX-License-Identifier: GPL-2.0
"""``nfsrdma trace``: RPCs that this host makes and serves, as time lines in words."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .. import interrupt
from ..errors import UsageError
from ..table import span
from . import call_words, calls
from .calls import Call, Calls
from .events import Event
from .rpcs import EVENTS, Assembler, Rpc
from .words import connection_sentence, tell

#: Further events for ``--all``: connections, breaches, calls by the server.
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
#: Seconds after the command's end in which completions may still arrive.
_AFTER = 0.2


class Source(Protocol):
    """The source of events: a `tracefs.Recording`, or the recording of a test."""

    lost: int

    def read(self, patience: float = 0) -> list[Event]:
        """Returns the events since the last call, of many only the first ones."""

    def stop(self) -> None:
        """Ends recording."""


@dataclass(frozen=True)
class Wish:
    """The RPCs to trace, and the form of the output."""

    command: Sequence[str]
    xid: int | None = None
    everything: bool = False
    as_json: bool = False
    #: Whether this host serves calls, which are traced as well.
    serves: bool = False

    @property
    def events(self) -> tuple[str, ...]:
        """The events to record."""
        names = EVENTS + (CONNECTION_EVENTS if self.everything else ())
        if not self.serves:
            return names
        return names + calls.EVENTS + (calls.CONNECTION_EVENTS if self.everything else ())


def trace(wish: Wish, source: Source, run: Callable[[Sequence[str]], Iterator[int | None]]) -> int:
    """Traces a command, or until an interrupt. Returns the command's exit status.

    `run` begins a command and yields its exit status, None while it runs.

    # Errors
    `UsageError`: there is nothing to wait for.
    """
    if not wish.command and wish.xid is None:
        raise UsageError("trace needs a command to run, or --xid")
    teller = Teller(wish)
    begin = time.monotonic()
    status = _follow(teller, source, run(wish.command))
    time.sleep(_AFTER)
    source.stop()
    seconds = time.monotonic() - begin
    while events := source.read():
        teller.take(events)
    teller.finish()
    if not wish.as_json:
        print("\n".join(teller.summary(seconds, source.lost)))
    return status


def _follow(teller: Teller, source: Source, runs: Iterator[int | None]) -> int:
    """Prints RPCs until a command ends, or an interrupt. Returns the command's exit status."""
    status = 0
    with interrupt.noted() as interrupted:
        for ended in runs:
            # Waiting for an event would wake this program for each of them.
            time.sleep(_STEP)
            teller.take(source.read())
            status = ended or 0
            if interrupted():
                break
    return status


def running(command: Sequence[str]) -> Iterator[int | None]:
    """Runs a command, and yields None until it has ended, then its exit status, as a shell has it.

    Without a command it yields None endlessly.

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
    ended = process.returncode
    yield ended if ended >= 0 else 128 - ended


class Teller:
    """Prints RPCs as soon as they are complete, and counts them by form."""

    def __init__(self, wish: Wish) -> None:
        """Nothing is known yet."""
        self._wish = wish
        self._assembler, self._calls = Assembler(), Calls()
        self._made: Counter[str] = Counter()
        self._served: Counter[str] = Counter()

    def take(self, events: list[Event]) -> None:
        """Prints the RPCs that events complete, and with ``--all`` the events of no RPC."""
        for event in events:
            if calls.is_of_server(event):
                self._tell_call(self._calls.feed(event))
            else:
                self._tell_rpc(self._assembler.feed(event))
        for others in (self._assembler.others, self._calls.others):
            if self._wish.everything and self._wish.xid is None and not self._wish.as_json:
                for event in others:
                    print(connection_sentence(event))
            others.clear()

    def finish(self) -> None:
        """Prints the RPCs whose end was not seen."""
        for rpc in self._assembler.unfinished():
            self._tell_rpc(rpc)
        for call in self._calls.unfinished():
            self._tell_call(call)

    def summary(self, seconds: float, lost: int) -> list[str]:
        """Returns how many RPCs were printed, by form."""
        lines = [f"{self._made.total()} RPCs in {span(seconds * 1e6)} {_forms(self._made)}"]
        if self._wish.serves:
            lines.append(f"{self._served.total()} calls served {_forms(self._served)}")
        if lost:
            lines.append(
                f"The kernel had no room for {lost} events: some time lines are not complete."
            )
        return lines

    def _tell_rpc(self, rpc: Rpc | None) -> None:
        # SUNRPC has tasks that call nobody, and tasks over TCP.
        if rpc and self._is_wanted(rpc.xid) and (rpc.is_rdma or self._wish.everything):
            self._made[rpc.form] += 1
            self._print(as_json(rpc) if self._wish.as_json else tell(rpc))

    def _tell_call(self, call: Call | None) -> None:
        if call and self._is_wanted(call.xid):
            self._served[call.form] += 1
            self._print(call.as_json() if self._wish.as_json else call_words.tell(call))

    def _is_wanted(self, xid: int | None) -> bool:
        return self._wish.xid is None or self._wish.xid == xid

    @staticmethod
    def _print(told: dict[str, Any] | list[str]) -> None:
        print(json.dumps(told) if isinstance(told, dict) else "\n".join(told), flush=True)


def _forms(forms: Counter[str]) -> str:
    counted = ", ".join(f"{count} {form}" for form, count in forms.most_common())
    return f"(call, reply): {counted or 'none'}"


def as_json(rpc: Rpc) -> dict[str, Any]:
    """Returns an RPC of this host for ``--json``, which prints one object on each line."""
    return {
        "role": "client",
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
        "events": [event.as_json(rpc.begin) for event in rpc.events],
    }
