# SPDX-License-Identifier: GPL-2.0
"""Charts as SVG elements. Colours are classes, which the page's style sheet sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ..table import span

_WIDTH = 860
_ROW = 22
#: The room for labels at the left.
_LEFT = 300
_RIGHT = 20
_TOP = 28


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _svg(height: float, title: str, body: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img">'
        f"<title>{escape(title)}</title>{''.join(body)}</svg>"
    )


@dataclass(frozen=True)
class Range:
    """A row of a chart of latencies, in microseconds."""

    label: str
    median: float
    p99: float
    most: float
    note: str


def ranges(rows: Sequence[Range], title: str) -> str:
    """Returns a chart with the median, the 99 % value and the maximum of each row.

    The axis is logarithmic.
    """
    low = min((max(row.median, 1) for row in rows), default=1)
    high = max((row.most for row in rows), default=10)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(max(high, low * 10)))
    # The last label is centred at the end of the axis.
    scale = (_WIDTH - _LEFT - 2 * _RIGHT) / max(last - first, 1)

    def place(value: float) -> float:
        return _LEFT + (math.log10(max(value, 10**first)) - first) * scale

    height = _TOP + _ROW * len(rows) + 8
    body = []
    for power in range(first, last + 1):
        x = place(10**power)
        body.append(_line("grid", x, _TOP - 6, x, height - 8))
        body.append(_text(x, _TOP - 12, span(10**power), "middle"))
    for number, row in enumerate(rows):
        body.append(_range(row, _TOP + _ROW * (number + 0.5), place))
    return _svg(height, title, body)


def _range(row: Range, y: float, place: object) -> str:
    assert callable(place)
    median, p99, most = (place(value) for value in (row.median, row.p99, row.most))
    told = f"median {span(row.median)}, 99 % {span(row.p99)}, maximum {span(row.most)}; {row.note}"
    return (
        f"<g><title>{escape(row.label)}: {escape(told)}</title>"
        + _text(_LEFT - 10, y + 4, row.label, "end")
        + _line("thin", median, y, most, y)
        + _line("thick", median, y, p99, y)
        + f'<circle class="dot" cx="{median:.1f}" cy="{y:.1f}" r="5"/></g>'
    )


def bars(rows: Sequence[tuple[str, int]], title: str) -> str:
    """Returns a chart with a bar for each label and number."""
    most = max((count for _, count in rows), default=1) or 1
    room = _WIDTH - _LEFT - _RIGHT - 60
    height = _ROW * len(rows) + 12
    body = []
    for number, (label, count) in enumerate(rows):
        y, width = 6 + _ROW * number, max(room * count / most, 1)
        body.append(_text(_LEFT - 10, y + 14, label, "end"))
        body.append(
            f'<rect class="bar" x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_ROW - 6}" rx="2">'
            f"<title>{escape(label)}: {count}</title></rect>"
        )
        body.append(_text(_LEFT + width + 8, y + 14, str(count)))
    return _svg(height, title, body)


@dataclass(frozen=True)
class Curve:
    """A quantity over time: pairs of seconds and value."""

    label: str
    kind: str
    points: Sequence[tuple[float, float]]


def curves(
    lines: Sequence[Curve], marks: Sequence[tuple[float, str]], seconds: float, title: str
) -> str:
    """Returns a chart of curves over time, with a vertical mark for each event."""
    left, height, bottom = 60, 200, 170
    most = max((value for line in lines for _, value in line.points), default=1) or 1
    scale = (_WIDTH - left - _RIGHT) / max(seconds, 0.001)

    def place(point: tuple[float, float]) -> tuple[float, float]:
        return left + point[0] * scale, bottom - (bottom - _TOP) * point[1] / most

    body = [
        _line("grid", left, bottom, _WIDTH - _RIGHT, bottom),
        _line("grid", left, _TOP, _WIDTH - _RIGHT, _TOP),
        _text(left - 8, bottom + 4, "0", "end"),
        _text(left - 8, _TOP + 4, f"{most:g}", "end"),
        _text(left, bottom + 20, "0 s", "middle"),
        _text(_WIDTH - _RIGHT, bottom + 20, f"{seconds:.0f} s", "end"),
    ]
    for at, what in marks:
        x = place((at, 0))[0]
        mark = _line("mark", x, _TOP, x, bottom)
        body.append(f"<g><title>{escape(what)}</title>{mark}</g>")
    for number, line in enumerate(lines):
        path, x = _steps([place(point) for point in line.points]), left + 180 * number
        named = f"<title>{escape(line.label)}</title>"
        body.append(f'<path class="{line.kind}" d="{path}">{named}</path>')
        body.append(f'<rect class="{line.kind} key" x="{x}" y="2" width="12" height="12"/>')
        body.append(_text(x + 18, 12, line.label))
    return _svg(height, title, body)


def _steps(points: Sequence[tuple[float, float]]) -> str:
    """Returns a path that keeps each value until the next one."""
    if not points:
        return ""
    words = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for x, y in points[1:]:
        words.append(f"H{x:.1f}V{y:.1f}")
    return "".join(words)
