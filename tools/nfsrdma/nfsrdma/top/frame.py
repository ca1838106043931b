# SPDX-License-Identifier: GPL-2.0
"""An interval as lines of text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..connections import Connection
from ..mountstats import Counts
from ..table import columns, duration, size, span
from .latencies import Form, quantile
from .sample import Sample


class Order(Enum):
    """The order of operations, by key."""

    RATE = "o"
    BYTES = "b"
    TIME = "l"


@dataclass
class Look:
    """How the frame looks, as keys have set it."""

    order: Order = Order.RATE
    paused: bool = False
    help: bool = False
    interval: float = 2.0


HELP = [
    "Keys",
    "  q        quit",
    "  p, space pause",
    "  o        order operations by their rate",
    "  b        order operations by their bytes",
    "  l        order operations by their mean latency",
    "  +, -     longer or shorter intervals",
    "  h, ?     this help, and back",
]


#: The fewest lines of connections: the head, two connections, and how many are left out.
_FEWEST = 4


def frame(sample: Sample, look: Look, height: int | None = None) -> list[str]:
    """Returns the lines of an interval.

    `height`: the lines of the screen. Connections leave room for the other tables.
    """
    if look.help:
        return HELP
    first = [_title(sample, look), _cost(sample), "", "Connections"]
    last = ["", *_tables(sample, look)]
    found = _connections(sample)
    room = len(found) if height is None else max(_FEWEST, height - len(first) - len(last))
    if len(found) > room:
        found[room - 1 :] = [f"  and {len(found) - room + 1} more: nfsrdma list"]
    return first + found + last


def _tables(sample: Sample, look: Look) -> list[str]:
    """Returns operations and forms."""
    lines = []
    if sample.operations or sample.served is None:
        lines += ["Operations of mounts", *_operations(sample, look.order), ""]
        lines += ["Calls by form (call, reply)", *_forms(sample)]
    if sample.served is not None:
        lines += [""] if sample.operations else []
        lines += ["Calls that nfsd serves, by form (call, reply)", *_served(sample, sample.served)]
    return lines


def _title(sample: Sample, look: Look) -> str:
    total, seconds = sample.total, sample.seconds
    state = "paused" if look.paused else f"every {look.interval:g} s"
    return (
        f"nfsrdma top, {state}: {total.operations / seconds:.0f} ops/s,"
        f" sent {size(total.sent / seconds)}/s, received {size(total.received / seconds)}/s,"
        f" {total.retransmissions} sent again{_served_rate(sample)}"
    )


def _served_rate(sample: Sample) -> str:
    if sample.served is None:
        return ""
    calls = sum(form.count for form in sample.served.values())
    return f"; {calls * sample.served_one_in / sample.seconds:.0f} calls/s served"


def _cost(sample: Sample) -> str:
    """Says what this program costs."""
    own = f"cost: {sample.own_load:.1%} of a processor for this program"
    if sample.event_rate is None:
        return f"{own}; no tracing"
    looked = "all calls" if sample.one_in == 1 else f"one call in {sample.one_in}"
    lost = f", {sample.lost} lost" if sample.lost else ""
    return f"{own}; tracing {looked}, {sample.event_rate:.0f} events/s{lost}"


def _connections(sample: Sample) -> list[str]:
    if sample.problem:
        return [f"  unknown: {sample.problem}"]
    if not sample.connections:
        return ["  none"]
    head = ("ROLE", "PEER", "DEVICE", "V", "STATE", "CREDITS", "IN USE", "INLINE", "READ", "WRITE",
            "REPLY", "REGIONS")  # fmt: skip
    return columns([head, *map(_connection, sample.connections)])


def _connection(conn: Connection) -> tuple[str, ...]:
    first = (conn.role, conn.peer)
    if not conn.is_up:
        state = f"down {duration(conn['state_s'])}"
        return (*first, "-", "-", state, *("-" for _ in range(7)))
    return (
        *first,
        conn.device,
        str(conn["version"]),
        f"up {duration(conn['state_s'])}",
        f"{conn['credits']}/{conn['credit_limit']}",
        *(str(conn[name]) for name in ("in_use", "inline", "read", "write", "reply")),
        f"{conn['regions_used']}/{conn['regions']}",
    )


def _operations(sample: Sample, order: Order) -> list[str]:
    if not sample.operations:
        return ["  none"]

    def key(entry: tuple[str, Counts]) -> float:
        counts = entry[1]
        if order == Order.BYTES:
            return counts.sent + counts.received
        return _mean(counts) if order == Order.TIME else counts.operations

    head = ("OPERATION", "OPS/S", "SENT/S", "RECEIVED/S", "ROUND TRIP", "IN ALL", "AGAIN", "ERRORS")
    rows = [head]
    for name, counts in sorted(sample.operations.items(), key=key, reverse=True):
        rows.append(_operation(name, counts, sample.seconds))
    return columns(rows)


def _mean(counts: Counts) -> float:
    return counts.rtt_ms / max(counts.operations, 1)


def _operation(name: str, counts: Counts, seconds: float) -> tuple[str, ...]:
    return (
        name,
        f"{counts.operations / seconds:.1f}",
        size(counts.sent / seconds),
        size(counts.received / seconds),
        f"{_mean(counts):.2f} ms",
        f"{counts.execute_ms / max(counts.operations, 1):.2f} ms",
        str(counts.retransmissions),
        str(counts.errors),
    )


def _forms(sample: Sample) -> list[str]:
    if sample.event_rate is None:
        return ["  not traced"]
    if not sample.forms:
        return ["  none"]
    return _table(sample.forms, "REGISTRATION", sample.one_in / sample.seconds)


def _served(sample: Sample, served: dict[str, Form]) -> list[str]:
    if not served:
        return ["  none"]
    return _table(served, "RDMA READS", sample.served_one_in / sample.seconds)


def _table(forms: dict[str, Form], last: str, weight: float) -> list[str]:
    """Returns forms by their rate. `weight`: the calls a second that one call stands for."""
    rows = [("FORM", "CALLS/S", "MEDIAN", "99 %", "MAX", last)]
    for name, form in sorted(forms.items(), key=lambda entry: -entry[1].count):
        rows.append(_form(name, form, weight))
    return columns(rows)


def _form(name: str, form: Form, weight: float) -> tuple[str, ...]:
    mapping = span(quantile(form.mappings, 0.5)) if form.mappings else "-"
    return (
        name,
        f"{form.count * weight:.1f}",
        span(quantile(form.rtts, 0.5)),
        span(quantile(form.rtts, 0.99)),
        span(max(form.rtts, default=0)),
        mapping,
    )
