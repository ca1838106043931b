# SPDX-License-Identifier: GPL-2.0
"""Compares the mutants that no test has caught with the list of equivalents.

A mutant is a change that cargo-mutants makes to one function. An equivalent is a mutant that no
test can catch, because no caller can see the difference. equivalents.tsv has one line for each,
with four columns that are separated by tabs: the file below rust/, the function, the mutant and the
reason. No column has the place in the file, so lines that are added elsewhere change nothing. The
mutant is the line of the source as changed, or for a change of more than one line its description.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

# The folder of the generated crate that has the copies of the rooms.
TREE = "src/tree/"

# These change part of an expression. The changed line names them better than a description.
_IN_LINE = {"BinaryOperator", "UnaryOperator", "MatchArmGuard"}
_PLACE = re.compile(r"^[^:]*:\d+:\d+: ")


@dataclass(frozen=True, order=True)
class Key:
    """Returns the identity of a mutant, which does not change with the lines above it."""

    path: str
    function: str
    mutant: str

    def __str__(self) -> str:
        """Formats the key as a line of the list without the reason."""
        return f"{self.path}\t{self.function}\t{self.mutant}"


@dataclass(frozen=True)
class Mutant:
    """A mutant with its place."""

    key: Key
    # The name that cargo-mutants gives it, which contains line and column.
    name: str

    @property
    def line(self) -> int:
        """The line in the file."""
        return int(self.name.split(":")[1])


@dataclass
class Verdict:
    """Returns the defects: mutants to kill or list, and lines of the list to remove."""

    survivors: list[Mutant] = field(default_factory=list)
    caught: list[Key] = field(default_factory=list)
    gone: list[Key] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.survivors or self.caught or self.gone)


class ListError(Exception):
    """A line of the list that has another form."""


def mutants(listed: list[dict[str, Any]], sources: dict[str, str]) -> list[Mutant]:
    """Returns the mutants of cargo-mutants' list in JSON. `sources`: the files that it names."""
    return [Mutant(_key(entry, sources[entry["file"]]), entry["name"]) for entry in listed]


def _key(entry: dict[str, Any], source: str) -> Key:
    function = (entry.get("function") or {}).get("function_name", "-")
    path = entry["file"].removeprefix(TREE)
    first, last = entry["span"]["start"], entry["span"]["end"]
    if entry["genre"] in _IN_LINE and first["line"] == last["line"]:
        line = source.splitlines()[first["line"] - 1]
        changed = line[: first["column"] - 1] + entry["replacement"] + line[last["column"] - 1 :]
        return Key(path, function, changed.strip())
    words = _PLACE.sub("", entry["name"]).removesuffix(f" in {function}")
    return Key(path, function, words)


def equivalents(text: str) -> dict[Key, str]:
    """Returns the list of equivalents with their reasons.

    # Errors
    `ListError` for a line without four columns, and for a mutant that is listed twice.
    """
    found: dict[Key, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        columns = line.split("\t")
        if len(columns) != 4 or not all(column.strip() for column in columns):
            raise ListError(f"line {number}: not four columns")
        key = Key(*columns[:3])
        if key in found:
            raise ListError(f"line {number}: {key.mutant} is listed twice")
        found[key] = columns[3]
    return found


def compare(every: list[Mutant], caught: set[str], missed: set[str], allowed: set[Key]) -> Verdict:
    """Compares the outcomes with the list.

    `every` has all mutants of the tree, `caught` and `missed` the names of those that were run. A
    listed mutant is gone if the tree does not have it. It counts as caught if all mutants with its
    key were run, and not one was missed.
    """
    verdict = Verdict()
    names: dict[Key, set[str]] = {}
    for mutant in every:
        names.setdefault(mutant.key, set()).add(mutant.name)
        if mutant.name in missed and mutant.key not in allowed:
            verdict.survivors.append(mutant)
    for key in sorted(allowed):
        if key not in names:
            verdict.gone.append(key)
        elif names[key] <= caught:
            verdict.caught.append(key)
    return verdict


def report(verdict: Verdict, root: str) -> Iterable[str]:
    """Returns the lines that describe the defects. `root`: the folder of the rooms."""
    for mutant in verdict.survivors:
        key = mutant.key
        place = f"{root}/{key.path}:{mutant.line}"
        yield f"{place}: no test fails: {key.function}: {key.mutant}"
    for what, keys in (("is caught", verdict.caught), ("does not exist", verdict.gone)):
        for key in keys:
            yield f"equivalents.tsv: {key.path}: {key.function}: {key.mutant}: {what}; remove it"
