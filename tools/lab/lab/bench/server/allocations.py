# SPDX-License-Identifier: GPL-2.0
"""Counts what the server's transport allocates for an RPC, by trace events.

guest/allocations.py says which allocations are the transport's. Pages that are allocated in bulk
have no event; the plugin's counters have them, and nothing but the transport allocates in bulk in
these runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ...errors import GuestError
from ...pair import Guest, Pair
from ...tracing import TRACING
from ..figures import Figures
from ..instructions import Counters
from . import bulk, costs
from .turns import mounted

_EVENTS = ("kmalloc", "kmem_cache_alloc", "mm_page_alloc")
_STACKS = f"{TRACING}/events/kmem/mm_page_alloc/trigger"
_BUFFER = f"{TRACING}/buffer_size_kb"
_KILOBYTES = 24576
#: Calls of a new connection that do not count.
_FIRST = 300
#: How often the two runs call an operation; the trace has thousands of events for 1 MiB.
_VERBS = [replace(verb, few=5, many=15 if verb.size > 4096 else 105) for verb in costs.VERBS]


@contextmanager
def _tracing(guest: Guest) -> Iterator[None]:
    """Prepares the trace inside the block."""
    enable = "".join(f"; echo kmem:{event} >> set_event" for event in _EVENTS)
    guest.sh(f"cd {TRACING}; echo {_KILOBYTES} > {_BUFFER}; echo stacktrace > {_STACKS}{enable}")
    try:
        yield
    finally:
        guest.sh(f"cd {TRACING}; echo > set_event; echo '!stacktrace' > {_STACKS}; echo > trace")


class Allocations:
    """The row of slab objects and pages."""

    def __init__(self, pair: Pair, counts: Path, version: str) -> None:
        """`counts`: the file of the plugin that counts the server's instructions.

        `version`: that of NFS.
        """
        self._version = version
        self._counters = Counters(counts)
        symbols = pair.server.sh(f"grep ' {bulk.FUNCTION}$' /proc/kallsyms")
        self._bulk = int(symbols.split()[0], 16) + bulk.offset(pair.setup.kernel.obj)

    def measure(self, pair: Pair, module: str, figures: Figures) -> None:
        """Counts the allocations of each operation with the module that serves."""
        with mounted(pair, self._version, "actimeo=0"):
            # The queues of a connection may grow with its first calls.
            pair.client.sh(costs.VERBS[0].command(_FIRST), timeout=300)
            with _tracing(pair.server):
                self._traced(pair, module, figures)

    def _traced(self, pair: Pair, module: str, figures: Figures) -> None:
        for verb in _VERBS:
            few, many = (self._run(pair, verb, count) for count in (verb.few, verb.many))
            slabs, pages = (
                (m - f) / (verb.many - verb.few) for m, f in zip(many, few, strict=True)
            )
            figures.note(f"{verb.title}, slab objects", "objects", module, slabs)
            figures.note(f"{verb.title}, pages", "pages", module, pages)

    def _run(self, pair: Pair, verb: costs.Verb, count: int) -> tuple[int, int]:
        """Returns the numbers of slab objects and pages of an operation called `count` times.

        # Errors
        `GuestError` if the trace has lost events.
        """
        pair.server.sh(f"echo > {TRACING}/trace")
        before = self._counters.snapshot()[1][self._bulk]
        pair.client.sh(verb.command(count), timeout=300)
        pages = self._counters.snapshot()[1][self._bulk] - before
        lost = f"awk '/^overrun/ {{print $2}}' {TRACING}/per_cpu/cpu0/stats"
        counted = f"cat {TRACING}/trace > /run/trace; python3 /lab/allocations.py < /run/trace"
        out = pair.server.sh(f"{lost}; {counted}; rm /run/trace", timeout=300).split()
        if int(out[0]):
            raise GuestError(f"{verb.title}: the trace has lost {out[0]} events")
        return int(out[1]), int(out[2]) + pages
