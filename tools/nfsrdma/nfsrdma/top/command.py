# SPDX-License-Identifier: GPL-2.0
"""The loop of ``nfsrdma top``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .frame import Look, Order, frame
from .latencies import Form, quantile
from .sample import Sample, Sampler

#: The shortest and the longest interval in seconds.
SHORTEST, LONGEST = 0.5, 60.0

#: Seconds between two looks at keys and events.
_STEP = 0.1


class Screen(Protocol):
    """Shows frames and returns keys, as a `terminal.Terminal` does."""

    def show(self, lines: Sequence[str]) -> None:
        """Shows a frame."""

    def height(self) -> int:
        """Returns the number of lines."""

    def key(self, patience: float) -> str:
        """Returns a key; an empty string if there is none."""


def interactive(sampler: Sampler, screen: Screen, look: Look, frames: int | None = None) -> None:
    """Shows successive intervals until a key ends it, or for this number of `frames`."""
    sample = sampler.take()
    shown = 0
    while frames is None or shown < frames:
        screen.show(frame(sample, look, screen.height()))
        if not _wait(sampler, screen, look, sample):
            return
        if not look.paused:
            sample = sampler.take()
        shown += 1


def _wait(sampler: Sampler, screen: Screen, look: Look, sample: Sample) -> bool:
    """Waits for the end of an interval. Returns whether to continue."""
    end = time.monotonic() + look.interval
    while time.monotonic() < end:
        key = screen.key(_STEP)
        if key == "q":
            return False
        if key and press(look, key):
            screen.show(frame(sample, look, screen.height()))
        sampler.pump()
    return True


def press(look: Look, key: str) -> bool:
    """Changes the look by a key. Returns whether it has changed."""
    if key in ("p", " "):
        look.paused = not look.paused
    elif key in ("h", "?"):
        look.help = not look.help
    elif key in [order.value for order in Order]:
        look.order = Order(key)
    elif key == "+":
        look.interval = min(LONGEST, look.interval * 2)
    elif key == "-":
        look.interval = max(SHORTEST, look.interval / 2)
    else:
        return False
    return True


def batch(
    sampler: Sampler, look: Look, frames: int, as_json: bool, show: Callable[[str], None]
) -> None:
    """Shows this number of intervals one below the other."""
    for number in range(frames):
        end = time.monotonic() + look.interval
        while time.monotonic() < end:
            # Waiting for an event would wake this program for each of them.
            time.sleep(min(_STEP, look.interval))
            sampler.pump()
        sample = sampler.take()
        if as_json:
            show(json.dumps(describe(sample)))
        else:
            show("\n".join([*([""] if number else []), *frame(sample, look)]))


def describe(sample: Sample) -> dict[str, Any]:
    """Returns an interval for ``--json``."""
    seconds = sample.seconds
    operations = {
        name: {
            "per_second": round(counts.operations / seconds, 3),
            "sent_bytes_per_second": round(counts.sent / seconds),
            "received_bytes_per_second": round(counts.received / seconds),
            "retransmissions": counts.retransmissions,
            "errors": counts.errors,
        }
        for name, counts in sample.operations.items()
    }
    told = {"forms": _forms(sample.forms, "registration_us", sample.one_in / seconds)}
    if sample.served is not None:
        told["served"] = _forms(sample.served, "rdma_reads_us", sample.served_one_in / seconds)
    return {
        "seconds": round(seconds, 3),
        "operations": operations,
        **told,
        "one_in": sample.one_in,
        "events_per_second": sample.event_rate and round(sample.event_rate, 1),
        "events_lost": sample.lost,
        "own_load": round(sample.own_load, 4),
        "connections": [conn.as_json() for conn in sample.connections],
    }


def _forms(forms: dict[str, Form], last: str, weight: float) -> dict[str, Any]:
    """Returns the calls of each form. `weight`: the calls a second that one call stands for."""
    return {
        name: {
            "per_second": round(form.count * weight, 3),
            "median_us": quantile(form.rtts, 0.5),
            "p99_us": quantile(form.rtts, 0.99),
            last: round(quantile(form.mappings, 0.5), 1),
        }
        for name, form in forms.items()
    }
