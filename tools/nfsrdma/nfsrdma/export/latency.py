# SPDX-License-Identifier: GPL-2.0
"""Histograms of latencies from trace events, which cost each call some time.

Above some thousand events per second only a part of the calls is sampled; each of these then counts
for those that were not.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import accumulate

from ..errors import UsageError
from ..top import latencies, served
from ..top.latencies import Form, Latencies
from ..top.served import Served
from ..trace.tracefs import Recording
from .metrics import Page

#: The upper bounds of the buckets in microseconds; there is one more bucket behind them.
BOUNDS = (50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 1_000_000, 10**7)
#: Seconds after which the sampled share is chosen again.
_INTERVAL = 1.0


class Histogram:
    """The latencies of the calls of one form."""

    def __init__(self) -> None:
        """Initially empty."""
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.microseconds = 0

    def add(self, microseconds: int, calls: int) -> None:
        """Adds calls that took this long."""
        self.buckets[bisect.bisect_left(BOUNDS, microseconds)] += calls
        self.microseconds += microseconds * calls


class Histograms:
    """Collects latencies while the command serves."""

    def __init__(
        self,
        record: Callable[[], Recording],
        *,
        serves: bool,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`record` begins a recording. `serves`: the recording has the events of the server."""
        self._record, self._serves, self._now = record, serves, now
        self._recording: Recording | None = None
        self._stack = ExitStack()
        self._made: dict[tuple[str, str], Histogram] = {}
        #: Why nothing is recorded; empty if something is.
        self.problem = ""
        self._begin()

    def _begin(self) -> None:
        """Begins to record; the module may not be loaded yet."""
        self._latencies, self._served = Latencies(), Served()
        self._since = self._now()
        try:
            self._recording = self._stack.enter_context(self._record())
            self.problem = ""
        except UsageError as error:
            self._recording, self.problem = None, str(error)

    def close(self) -> None:
        """Ends the recording."""
        self._stack.close()
        self._recording = None

    def pump(self) -> None:
        """Takes the events that are there. Call this several times a second."""
        if self._recording:
            events = self._recording.read()
            self._latencies.feed(events)
            if self._serves:
                self._served.feed(events)
        if self._now() - self._since >= _INTERVAL:
            self._settle()

    def _settle(self) -> None:
        """Adds the calls of an interval, and chooses the share of the next."""
        seconds, self._since = self._now() - self._since, self._now()
        if not self._recording or not self._recording.is_live:
            # The module was unloaded, and its events with it.
            self.close()
            self._begin()
            return
        one_in = self._latencies.one_in
        forms, rate = self._latencies.take(seconds)
        self._add("client", forms, one_in)
        self._add("server", self._served.take(), served.one_in(one_in))
        if self._latencies.adapt(rate):
            self._recording.set_filter(self._latencies.filter, latencies.EVENTS)
            if self._serves:
                text = served.filter_for(self._latencies.one_in)
                self._recording.set_filter(text, served.FILTERED)

    def _add(self, role: str, forms: dict[str, Form], one_in: int) -> None:
        for name, form in forms.items():
            histogram = self._made.setdefault((role, name), Histogram())
            for rtt in form.rtts:
                histogram.add(rtt, one_in)

    def tell(self, page: Page) -> None:
        """Adds the histograms."""
        self.pump()
        does = "Latency by the forms of call and reply: from Send to reply, or within the server."
        for (role, form), made in self._made.items():
            labels = {"role": role, "form": form}
            family = page.histogram("latency_seconds", does)
            counts = accumulate(made.buckets)
            for bound, count in zip((*BOUNDS, None), counts, strict=True):
                le = "+Inf" if bound is None else repr(bound / 1e6)
                family.add(count, labels | {"le": le}, "_bucket")
            family.add(made.microseconds / 1e6, labels, "_sum")
            family.add(sum(made.buckets), labels, "_count")
        if self._recording:
            does = "Trace events that the kernel had no room for."
            page.counter("lost_trace_events", does).add(self._recording.lost)
