# SPDX-License-Identifier: GPL-2.0
"""Latencies by the forms of call and reply, from two trace events for each call.

On a busy host only some tasks are sampled: a filter in the kernel drops the events of others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..trace.events import Event
from ..trace.rpcs import Rpc

#: The events for each call: three if it registers memory, and one more for each further region.
EVENTS = (
    "rpcrdma:xprtrdma_mr_map",
    "rpcrdma:xprtrdma_marshal",
    "sunrpc:rpc_stats_latency",
)

#: Events per second above which fewer tasks are sampled.
MOST = 4000
#: Events per second below which more tasks are sampled.
_FEW = MOST // 4
#: The sample is at least one task in this number.
_RAREST = 1024
#: Calls whose end was not seen before they are forgotten.
_OPEN = 10_000


@dataclass
class Form:
    """The calls of one form in one interval."""

    #: Microseconds from the Send to the reply, as SUNRPC measures them.
    rtts: list[int] = field(default_factory=list)
    #: Microseconds that the memory of calls took to be mapped.
    mappings: list[float] = field(default_factory=list)
    #: Bytes of calls, without data that the server reads and writes.
    call_bytes: int = 0

    @property
    def count(self) -> int:
        """The sampled calls."""
        return len(self.rtts)


def quantile(values: list[int] | list[float], part: float) -> float:
    """Returns the smallest value that `part` of all values do not exceed; 0 without values."""
    if not values:
        return 0
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


class Latencies:
    """Collects the latencies of an interval."""

    def __init__(self) -> None:
        """No call is known."""
        self._open: dict[str, Rpc] = {}
        self._forms: dict[str, Form] = {}
        self._events = 0
        #: The sample is one task in this number.
        self.one_in = 1

    def feed(self, events: Iterable[Event]) -> None:
        """Adds events."""
        for event in events:
            self._events += 1
            if event.task:
                self._add(event)
        if len(self._open) > _OPEN:
            self._open.clear()

    def _add(self, event: Event) -> None:
        rpc = self._open.setdefault(event.task, Rpc(event.task))
        rpc.add(event)
        if event.name != "rpc_stats_latency":
            return
        del self._open[event.task]
        if not rpc.is_rdma or rpc.rtt is None:
            return
        form = self._forms.setdefault(rpc.form, Form())
        form.rtts.append(rpc.rtt)
        form.call_bytes += rpc.call_bytes
        if rpc.mapping:
            form.mappings.append(rpc.mapping)

    def take(self, seconds: float) -> tuple[dict[str, Form], float]:
        """Ends the interval. Returns its calls by form, and the events in a second."""
        forms, rate = self._forms, self._events / max(seconds, 0.001)
        self._forms, self._events = {}, 0
        return forms, rate

    def adapt(self, rate: float) -> bool:
        """Chooses the sampled share of the tasks. Returns whether the share has changed."""
        before = self.one_in
        while rate > MOST and self.one_in < _RAREST:
            self.one_in, rate = self.one_in * 2, rate / 2
        while rate < _FEW and self.one_in > 1:
            self.one_in, rate = self.one_in // 2, rate * 2
        return self.one_in != before

    @property
    def filter(self) -> str:
        """The filter of the kernel for the events."""
        return f"!(task_id & {self.one_in - 1})" if self.one_in > 1 else "0"
