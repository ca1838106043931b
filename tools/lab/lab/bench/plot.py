# SPDX-License-Identifier: GPL-2.0
"""Draws the ratios: a bar for each figure, and a line where both modules are equal."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from .figures import Figure

ROW, LABEL, WIDTH, MARGIN = 24, 330, 760, 40
#: The greatest ratio in the drawing.
MOST = 2.5
BETTER, SAME, WORSE = "#3a7d44", "#8a8a8a", "#b23a48"


def svg(figures: Sequence[Figure], title: str) -> str:
    """Returns an SVG drawing without scripts and fonts."""
    shown = [figure for figure in figures if figure.ratio is not None]
    height = MARGIN + ROW * len(shown) + MARGIN
    root = Xml.Element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height}",
        **{"font-family": "sans-serif", "font-size": "12"},
    )
    Xml.SubElement(root, "rect", width=str(WIDTH), height=str(height), fill="white")
    _text(root, 10, 20, title)
    for mark in (0.5, 1.0, 1.5, 2.0):
        _line(
            root, _x(mark), MARGIN - 8, _x(mark), height - MARGIN, "#222" if mark == 1 else "#ddd"
        )
        _text(root, _x(mark), height - MARGIN + 16, f"{mark:g}", "middle")
    for row, figure in enumerate(shown):
        _row(root, MARGIN + row * ROW, figure)
    note = "ours / stock, median of the rounds; whiskers: least and most of them; green is better"
    _text(root, 10, height - 6, note)
    return Xml.tostring(root, encoding="unicode") + "\n"


def _x(ratio: float) -> float:
    """Returns the place of a ratio on the axis."""
    return LABEL + min(ratio, MOST) * (WIDTH - LABEL - 60) / MOST


def _row(root: Xml.Element, top: float, figure: Figure) -> None:
    ratio, (low, high) = figure.ratio or 0.0, figure.spread or (0.0, 0.0)
    _text(root, LABEL - 8, top + 13, f"{figure.name}, {figure.unit}", "end")
    Xml.SubElement(
        root,
        "rect",
        x=f"{_x(0):.1f}",
        y=f"{top:.1f}",
        width=f"{_x(ratio) - _x(0):.1f}",
        height=f"{ROW - 8}",
        fill=_colour(figure),
    )
    middle = top + (ROW - 8) / 2
    _line(root, _x(low), middle, _x(high), middle, "#222")
    _text(root, _x(max(ratio, high)) + 6, top + 13, f"{ratio:.2f}")


def _colour(figure: Figure) -> str:
    if figure.worse:
        return WORSE
    better = (figure.ratio or 1) > 1 if figure.more else (figure.ratio or 1) < 1
    return BETTER if better else SAME


def _line(root: Xml.Element, x1: float, y1: float, x2: float, y2: float, colour: str) -> None:
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    Xml.SubElement(root, "line", {k: f"{v:.1f}" for k, v in ends.items()}, stroke=colour)


def _text(root: Xml.Element, x: float, y: float, text: str, anchor: str = "start") -> None:
    attributes = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}
    Xml.SubElement(root, "text", attributes).text = text
