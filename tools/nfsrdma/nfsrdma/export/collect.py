# SPDX-License-Identifier: GPL-2.0
"""Collects all metrics of one look."""

from __future__ import annotations

import time
from collections.abc import Callable

from .. import connections
from ..errors import UsageError
from ..host import Host
from . import client, reconnects, server, transports
from .latency import Histograms
from .metrics import Page
from .reconnects import Seen


class Collector:
    """Looks at the host, and remembers what the next look needs."""

    def __init__(
        self,
        host: Host,
        histograms: Histograms | None = None,
        reconnected: Seen | None = None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`reconnected`: the reconnections that earlier looks have counted."""
        self._host, self._histograms, self._now = host, histograms, now
        self._reconnected = reconnected
        #: Why the last look has not seen the connections; empty if it has.
        self.problem = ""

    def collect(self) -> Page:
        """Returns the metrics of a look."""
        begin = self._now()
        page = Page()
        self._tell_connections(page)
        client.tell(page, self._host)
        server.tell(page, self._host)
        if self._histograms:
            self._histograms.tell(page)
        does = "Time that this look has taken."
        page.gauge("collect_seconds", does).add(self._now() - begin)
        return page

    def _tell_connections(self, page: Page) -> None:
        up = page.gauge("up", "Whether the module rpcrdma shows its connections.")
        try:
            found = connections.read(self._host)
        except UsageError as error:
            self.problem = str(error)
            up.add(0)
            does = "Why connections are not shown, and what helps."
            page.info("problem", does).add(1, {"text": self.problem})
            return
        self.problem = ""
        up.add(1)
        version = (self._host.read("/sys/module/rpcrdma/version") or "").strip()
        page.info("module", "The loaded module.").add(1, {"version": version})
        transports.tell(page, found)
        self._reconnected = reconnects.counted(self._reconnected, found)
        reconnects.tell(page, self._reconnected)

    def pump(self) -> None:
        """Does what has to be done several times a second."""
        if self._histograms:
            self._histograms.pump()
