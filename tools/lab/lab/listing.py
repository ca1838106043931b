# SPDX-License-Identifier: GPL-2.0
"""`make lab-check LIST=1`: the scenarios, with a line on each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from .selection import Case


@dataclass(frozen=True)
class Entry:
    """A case, what its file is about and what its function shows."""

    case: Case
    about: str
    shows: str


def lines(entries: Iterable[Entry]) -> list[str]:
    """Returns the lines of the list: one for each file, and one below it for each scenario.

    Files come in the order of the alphabet, scenarios in the order of their file.
    """
    ordered = sorted(entries, key=lambda entry: entry.case.file)
    width = max((len(entry.case.function) for entry in ordered), default=0)
    found = []
    for file, of_file in groupby(ordered, key=lambda entry: entry.case.file):
        inside = list(of_file)
        found.append(f"{file}: {inside[0].about}")
        for function, cases in groupby(inside, key=lambda entry: entry.case.function):
            members = list(cases)
            text = f"  {function:{width}}  {members[0].shows}{_long(members)}"
            found.append(text)
    return found


def _long(members: list[Entry]) -> str:
    """Says how many cases of a scenario only the long form contains."""
    count = sum("full" in entry.case.markers for entry in members)
    if not count:
        return ""
    if count == len(members):
        return " (FULL=1)"
    return f" (FULL=1: {count} of {len(members)} cases)"


def first_line(text: str | None) -> str:
    """Returns the first sentence or line of a docstring without its full stop."""
    return ((text or "").strip().splitlines() or [""])[0].rstrip(".")
