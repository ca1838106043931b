# SPDX-License-Identifier: GPL-2.0
"""The events of one interval."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from .. import connections, mountstats
from ..connections import Connection
from ..errors import UsageError
from ..host import Host
from ..mountstats import Counts
from ..trace.events import Event
from . import latencies, served
from .latencies import Form, Latencies
from .served import Served


class Source(Protocol):
    """Where events come from."""

    lost: int

    def read(self, patience: float = 0) -> list[Event]:
        """Returns the events since the last call, of many only the first ones."""

    def set_filter(self, text: str, names: Iterable[str]) -> None:
        """Sets the filter of some events."""


@dataclass
class Sample:
    """An interval."""

    seconds: float
    connections: list[Connection] = field(default_factory=list)
    #: Why the connections cannot be seen; empty if they can.
    problem: str = ""
    operations: dict[str, Counts] = field(default_factory=dict)
    forms: dict[str, Form] = field(default_factory=dict)
    one_in: int = 1
    #: The calls that this host serves; None if it is no server.
    served: dict[str, Form] | None = None
    served_one_in: int = 1
    #: Events in a second; None without tracing.
    event_rate: float | None = None
    #: Events that the kernel had no room for.
    lost: int = 0
    #: The part of a processor that this program has used.
    own_load: float = 0

    @property
    def total(self) -> Counts:
        """The counters of all operations."""
        return sum(self.operations.values(), Counts())


class Sampler:
    """Takes one sample after the other."""

    def __init__(
        self,
        host: Host,
        source: Source | None,
        now: Callable[[], float] = time.monotonic,
        *,
        serves: bool = False,
    ) -> None:
        """Begins the first interval. Without a source of events there are no latencies.

        `serves`: the source also has the events of the server.
        """
        self._host, self._source, self._now = host, source, now
        self._latencies = Latencies()
        self._served = Served() if serves else None
        self._begin = now()
        self._used = _used()
        self._lost = source.lost if source else 0
        self._before = mountstats.systems(host)

    def pump(self) -> None:
        """Takes the events that are there."""
        if self._source:
            events = self._source.read()
            self._latencies.feed(events)
            if self._served:
                self._served.feed(events)

    def take(self) -> Sample:
        """Ends the interval and begins the next one."""
        self.pump()
        now, used, after = self._now(), _used(), mountstats.systems(self._host)
        seconds = max(now - self._begin, 0.001)
        sample = Sample(seconds, operations=mountstats.increase(self._before, after))
        sample.own_load = (used - self._used) / seconds
        self._begin, self._used, self._before = now, used, after
        try:
            sample.connections = connections.read(self._host)
        except UsageError as error:
            sample.problem = str(error)
        if self._source:
            self._take_latencies(sample, self._source)
        return sample

    def _take_latencies(self, sample: Sample, source: Source) -> None:
        sample.one_in = self._latencies.one_in
        sample.forms, sample.event_rate = self._latencies.take(sample.seconds)
        if self._served:
            sample.served_one_in = served.one_in(sample.one_in)
            sample.served = self._served.take()
        sample.lost, self._lost = source.lost - self._lost, source.lost
        if self._latencies.adapt(sample.event_rate):
            source.set_filter(self._latencies.filter, latencies.EVENTS)
            if self._served:
                source.set_filter(served.filter_for(self._latencies.one_in), served.FILTERED)


def _used() -> float:
    """Returns the seconds of a processor that this program has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
