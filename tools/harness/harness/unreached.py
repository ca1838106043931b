# SPDX-License-Identifier: GPL-2.0
"""Reads the list of what the fuzzer never reaches, and why.

An entry names a file, and may name a function or a part of a line, to which it is then limited. It
is stale if the fuzzer reaches that, or if it is not there.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.errors import LabError

from lab import paths

from . import build

FILE = build.HARNESS / "unreached.toml"


@dataclass(frozen=True, order=True)
class Place:
    """The position in the source where blocks of the program begin."""

    file: str
    line: int
    column: int


@dataclass(frozen=True)
class Entry:
    """Something that is never reached."""

    file: str
    reason: str
    function: str = ""
    code: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.function, self.code) if part)


@dataclass
class Sources:
    """The lines of source files."""

    root: Path = paths.ROOT
    _read: dict[str, list[str]] = field(default_factory=dict)

    def of(self, file: str) -> list[str]:
        """Returns the lines of a file; none if there is no such file."""
        if file not in self._read:
            path = self.root / file
            self._read[file] = path.read_text().splitlines() if path.exists() else []
        return self._read[file]

    def line(self, place: Place) -> str:
        """Returns the line of a place."""
        lines = self.of(place.file)
        return lines[place.line - 1] if place.line <= len(lines) else ""

    def function(self, file: str, name: str) -> set[int]:
        """Returns the numbers of the lines of all functions of a name in a file."""
        found: set[int] = set()
        end = ""
        for number, text in enumerate(self.of(file), 1):
            if begin := re.match(rf"(\s*)(?:[\w()]+ )*fn {re.escape(name)}\b", text):
                end = begin[1] + "}"
            if end:
                found.add(number)
            if text == end:
                end = ""
        return found


@dataclass
class Listed:
    """The places that entries name, and the entries that are wrong."""

    known: set[Place] = field(default_factory=set)
    stale: list[Entry] = field(default_factory=list)


def entries(path: Path = FILE) -> list[Entry]:
    """Reads the list.

    # Errors
    `LabError` if an entry has no file or no reason, or something else.
    """
    try:
        return [Entry(**entry) for entry in tomllib.loads(path.read_text()).get("never", [])]
    except (TypeError, tomllib.TOMLDecodeError) as error:
        raise LabError(f"{path.name}: {error}") from error


def match(listed: Sequence[Entry], sources: Sources, reached: Mapping[Place, bool]) -> Listed:
    """Compares the list with all places, and whether each was reached."""
    result = Listed()
    for entry in listed:
        lines = sources.function(entry.file, entry.function) if entry.function else None
        named = [
            place
            for place in reached
            if place.file == entry.file
            and (lines is None or place.line in lines)
            and entry.code in sources.line(place)
        ]
        # A line is reached in part if it may fail.
        open_places = [place for place in named if not reached[place]]
        if not open_places or (not entry.code and len(open_places) < len(named)):
            result.stale.append(entry)
        result.known.update(open_places)
    return result


def lines(places: Iterable[Place], sources: Sources | None = None) -> list[str]:
    """Returns a line of text for each line of the source."""
    sources = sources or Sources()
    first = {(place.file, place.line): place for place in sorted(places, reverse=True)}
    return [f"{p.file}:{p.line}: {sources.line(p).strip()}" for p in sorted(first.values())]
