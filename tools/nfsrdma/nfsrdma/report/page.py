# SPDX-License-Identifier: GPL-2.0
"""The page: one HTML file with its style and its charts. It loads nothing and runs nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any

from .. import doctor
from ..connections import Connection
from ..table import size, span
from .mask import masked
from .record import Data, is_mark
from .svg import Curve, Range, bars, curves, ranges
from .tally import Group, Tally

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --faint: #d8dce2;
  --one: #2563a8; --two: #c2571a; --bad: #b3261e; --soft: #57606a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e6ea; --paper: #15181c; --faint: #343a42;
  --one: #6ea8e8; --two: #e89a5f; --bad: #ef8078; --soft: #9aa4af; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 900px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; margin-bottom: 0; } h2 { font-size: 1.15em; margin-top: 2em; }
p.about, td.soft, p.soft { color: var(--soft); }
table { border-collapse: collapse; font-size: 0.92em; } th { text-align: left; font-weight: 600; }
th, td { padding: 0.2em 1em 0.2em 0; border-bottom: 1px solid var(--faint);
  font-variant-numeric: tabular-nums; vertical-align: top; }
td:first-child { white-space: nowrap; }
div.wide { overflow-x: auto; } code, pre { font-size: 0.92em; } pre { margin: 0.2em 0 0.8em 1.2em; }
svg { width: 100%; height: auto; font-size: 12px; } svg text { fill: var(--ink); }
line.grid { stroke: var(--faint); } line.thin { stroke: var(--one); }
line.thick { stroke: var(--one); stroke-width: 5; opacity: 0.55; } circle.dot { fill: var(--one); }
rect.bar { fill: var(--one); } path { fill: none; stroke-width: 2; }
path.one { stroke: var(--one); } path.two { stroke: var(--two); }
rect.one.key { fill: var(--one); } rect.two.key { fill: var(--two); }
line.mark { stroke: var(--bad); stroke-dasharray: 4 3; }
.problem { color: var(--bad); font-weight: 600; } .warning { font-weight: 600; }
"""

#: The most rows of the chart of latencies.
_ROWS = 24


@dataclass(frozen=True)
class About:
    """The page's description of itself."""

    host: str
    kernel: str
    module: str
    when: str


@dataclass(frozen=True)
class Kind:
    """The page's part about calls that are made, or about those that are served."""

    title: str
    #: The time that is a latency.
    span: str
    columns: tuple[str, ...]
    #: The name in JSON of the time in the column behind the maximum.
    mapping: str = "registration_us"


def page(data: Data, about: About, found: doctor.Result, mask: Callable[[str], str]) -> str:
    """Returns the page. `mask` is applied to everything that comes from this host."""
    told = f"{about.host}, kernel {about.kernel}, rpcrdma {about.module}, {about.when}"
    parts = [
        f"<h1>NFS over RDMA</h1><p class=about>{_safe(told, mask)}. {data.seconds:.0f} s were"
        f" recorded{_lost(data)}.</p>",
        "<h2>What is wrong</h2>",
        _findings(found, mask),
        "<h2>Connections</h2>",
        _connections(data, mask),
        *_made(data),
        *_served(data),
        "<h2>Credits over time</h2>",
        _credits(data, mask),
        "<h2>Events of connections</h2>",
        _events(data, mask),
    ]
    recording = json.dumps(masked(describe(data, about, found), mask)).replace("<", "\\u003c")
    return (
        "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>NFS over RDMA</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(parts)
        + f"\n<script type=application/json id=recording>{recording}</script></body></html>\n"
    )


def _safe(text: str, mask: Callable[[str], str]) -> str:
    return escape(mask(text))


def _lost(data: Data) -> str:
    return f"; the kernel had no room for {data.lost} events" if data.lost else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table of cells that are safe."""
    heads = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div class=wide><table><tr>{heads}</tr>{body}</table></div>"


def _findings(found: doctor.Result, mask: Callable[[str], str]) -> str:
    if not found.findings:
        return "<p>Nothing that <code>nfsrdma doctor</code> knows.</p>"
    parts = []
    for finding in sorted(found.findings, key=lambda entry: entry.severity.rank):
        name = finding.severity.value
        parts.append(
            f"<p><span class={name}>{name}</span>: {_safe(finding.text, mask)}</p>"
            f"<pre>{_safe(finding.fix, mask)}</pre>"
        )
    return "".join(parts)


def _connections(data: Data, mask: Callable[[str], str]) -> str:
    last = data.looks[-1][1] if data.looks else []
    if not last:
        return "<p class=soft>None were seen.</p>"
    head = ("role", "peer", "device", "version", "state", "call/reply", "credits", "made", "lost")
    rows = []
    for conn in last:
        cells = (
            conn.role,
            conn.peer,
            conn.device or "-",
            str(conn["version"] or "-"),
            conn.texts.get("state", "?"),
            f"{conn['call_bytes']}/{conn['reply_bytes']}",
            f"{conn['credits']}/{conn['credit_limit']}",
            str(conn["connects"]),
            conn.lost,
        )
        rows.append([_safe(cell, mask) for cell in cells])
    return _table(head, rows)


#: The meanings of the columns of a table of latencies.
_MADE = Kind(
    "<h2>Latency by operation and form</h2>",
    "From a Send to its reply",
    ("calls", "median", "99 %", "maximum", "registration", "sent again"),
)
_SERVED = Kind(
    "<h2>Calls that nfsd serves, by operation and form</h2>",
    "From when a thread of nfsd has taken a call to its reply",
    ("calls", "median", "99 %", "maximum", "RDMA Reads"),
    "rdma_reads_us",
)


def _made(data: Data) -> list[str]:
    """Returns the parts about calls of this host. A server that makes none has no such parts."""
    if data.served is not None and not data.made.count:
        return []
    if not data.made.count:
        return [_MADE.title, "<p class=soft>No call was made over RDMA.</p>"]
    return [
        _MADE.title,
        _latencies(data.made, _MADE),
        "<h2>Bytes in chunks of a call</h2>",
        _sizes(data.made),
    ]


def _served(data: Data) -> list[str]:
    """Returns the parts about calls that this host serves."""
    if data.served is None:
        return []
    if not data.served.count:
        return [_SERVED.title, "<p class=soft>No call was served over RDMA.</p>"]
    return [
        _SERVED.title,
        _latencies(data.served, _SERVED),
        "<h2>Bytes in chunks of a call that nfsd serves</h2>",
        _sizes(data.served),
    ]


def _latencies(tally: Tally, kind: Kind) -> str:
    rows, cells = [], []
    for name, form in tally.largest(_ROWS):
        numbers = tally.groups[name, form].as_json()
        label = f"{name.partition(' ')[2] or name}: {form}"
        note = f"{numbers['calls']} calls"
        rows.append(Range(label, numbers["median_us"], numbers["p99_us"], numbers["max_us"], note))
        cells.append(_latency_row(name, form, tally.groups[name, form])[: 2 + len(kind.columns)])
    chart = ranges(rows, "Latency by operation and form")
    explain = (
        f"<p class=soft>{kind.span}: the dot is the median, the thick line ends at the value that"
        " 99 of 100 calls do not exceed, the thin line at the maximum.</p>"
    )
    return chart + explain + _table(("operation", "form (call, reply)", *kind.columns), cells)


def _latency_row(name: str, form: str, group: Group) -> list[str]:
    numbers = group.as_json()
    registration = span(numbers["registration_us"]) if group.mappings else "-"
    return [
        escape(name),
        escape(form),
        str(numbers["calls"]),
        span(numbers["median_us"]),
        span(numbers["p99_us"]),
        span(numbers["max_us"]),
        registration,
        str(numbers["retransmissions"]),
    ]


def _sizes(tally: Tally) -> str:
    rows = [
        (f"up to {size(bytes_)}" if bytes_ else "no chunks", tally.sizes[bytes_])
        for bytes_ in sorted(tally.sizes)
    ]
    return bars(rows, "Calls by the bytes of their chunks")


def _credits(data: Data, mask: Callable[[str], str]) -> str:
    """Returns a chart for each connection that was seen."""
    seen: dict[int, list[tuple[float, Connection]]] = {}
    for since, looked in data.looks:
        for conn in looked:
            seen.setdefault(conn["id"], []).append((since, conn))
    marks = [
        (since, mask(text))
        for since, name, text in data.noted
        if name == "conn_state" and is_mark(text)
    ]
    parts = []
    for looks in seen.values():
        granted = [(since, conn["credits"]) for since, conn in looks]
        used = [(since, conn["in_use"]) for since, conn in looks]
        lines = [Curve("granted", "one", granted), Curve("in use", "two", used)]
        conn = looks[-1][1]
        parts.append(f"<h3>{_safe(f'{conn.role} {conn.peer}', mask)}</h3>")
        parts.append(curves(lines, marks, data.seconds, "Credits over time"))
    explain = "<p class=soft>Dashed lines: connections that were made or lost.</p>"
    return "".join(parts) + explain if parts else "<p class=soft>No connection was seen.</p>"


def _events(data: Data, mask: Callable[[str], str]) -> str:
    if not data.noted:
        return "<p class=soft>None.</p>"
    rows = []
    for (name, text), same in groupby(data.noted, key=lambda noted: noted[1:]):
        times = [since for since, _, _ in same]
        often = f" ({len(times)} times, the last at {times[-1]:.3f} s)" if len(times) > 1 else ""
        rows.append((f"{times[0]:.3f} s", escape(name), _safe(text, mask) + often))
    return _table(("time", "event", "what"), rows)


def describe(data: Data, about: About, found: doctor.Result) -> dict[str, Any]:
    """Returns the recording for programs. The page contains it, and ``--json`` prints it."""
    return {
        "about": vars(about),
        "seconds": round(data.seconds, 3),
        "lost_events": data.lost,
        "findings": [finding.as_json() for finding in found.findings],
        "operations": data.made.as_json(),
        "sizes": data.made.sizes_as_json(),
        **(_describe_served(data.served) if data.served is not None else {}),
        "connections": [
            {"since": round(since, 2), "connections": [conn.as_json() for conn in looked]}
            for since, looked in data.looks
        ],
        "events": [
            {"since": round(since, 6), "event": name, "text": text}
            for since, name, text in data.noted
        ],
    }


def _describe_served(served: Tally) -> dict[str, Any]:
    return {
        "served": served.as_json(_SERVED.mapping),
        "served_sizes": served.sizes_as_json(),
    }
