# SPDX-License-Identifier: GPL-2.0
"""The list of faults of the rooms that have effects outside themselves: server, client and so on.

A fault is one change of the code, as a slip would make it. faults.toml has one table for each:

name
    the room and what is wrong, such as `client/reply-of-another-connection`
file
    the source, below rust/
old, new
    the text to replace, which occurs once in the file, and the text in its place
reason
    what the fault would do
notices
    the suite that is expected to notice: `harness`, `kunit` or one of `scenarios`
scenarios
    scenarios to run if nothing before notices, each with its settings: `removal SERVER=ours`

`old` names the place, so lines that are added elsewhere change nothing.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOMS = ("server", "client", "conn", "rdma", "sunrpc")
_KEYS = {"name", "file", "old", "new", "reason", "notices"}
_SETTINGS = {"CLIENT", "SERVER", "LINK", "DMA", "KERNEL", "FULL"}


class ListError(Exception):
    """The list of faults has a mistake, or no longer fits the code."""


@dataclass(frozen=True)
class Scenario:
    """A scenario of the lab with its settings."""

    name: str
    settings: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        """Formats the scenario as the list has it."""
        return " ".join([self.name, *(f"{key}={value}" for key, value in self.settings)])


@dataclass(frozen=True)
class Fault:
    """A change of the code."""

    name: str
    file: str
    old: str
    new: str
    reason: str
    notices: str
    scenarios: tuple[Scenario, ...]

    @property
    def room(self) -> str:
        """The room that the fault is in."""
        return self.file.partition("/")[0].removesuffix(".rs")

    def apply(self, tree: Path) -> None:
        """Puts the fault into a copy of the tree.

        # Errors
        Those of `changed`.
        """
        path = tree / "rust" / self.file
        path.write_text(self.changed(path.read_text() if path.exists() else ""))

    def changed(self, source: str) -> str:
        """Returns the source with the fault.

        # Errors
        `ListError` if the text to replace does not occur exactly once.
        """
        count = source.count(self.old)
        if count == 1:
            return source.replace(self.old, self.new)
        how = "is not in" if not count else f"occurs {count} times in"
        fix = "put the same fault into the new code" if not count else "take more lines into it"
        raise ListError(
            f"faults.toml: {self.name}: the text of `old` {how} rust/{self.file}: {fix}, see it "
            f'noticed (make mutants ROOMS={self.room} MUTANTS="{self.name}")'
        )


def read(text: str) -> list[Fault]:
    """Returns the faults of the list.

    # Errors
    `ListError` if an entry lacks a key, has a wrong one, or is there twice.
    """
    try:
        entries = tomllib.loads(text).get("fault", [])
    except tomllib.TOMLDecodeError as error:
        raise ListError(f"faults.toml: {error}") from error
    found = [_fault(entry) for entry in entries]
    names = [fault.name for fault in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ListError(f"faults.toml: {twice[0]} is listed twice")
    return found


def _fault(entry: dict[str, object]) -> Fault:
    name = entry.get("name", "a fault without a name")
    if set(entry) - {"scenarios"} != _KEYS:
        wrong = ", ".join(sorted((set(entry) - {"scenarios"}) ^ _KEYS))
        raise ListError(f"faults.toml: {name}: missing or unknown: {wrong}")
    listed = entry.get("scenarios", [])
    scenarios = tuple(_scenario(text) for text in listed) if isinstance(listed, list) else ()
    fault = Fault(**{key: str(entry[key]) for key in _KEYS}, scenarios=scenarios)
    if fault.room not in ROOMS or not fault.name.startswith(f"{fault.room}/"):
        raise ListError(f"faults.toml: {name}: the name begins with the file's room")
    if fault.old == fault.new or not fault.old or not fault.reason:
        raise ListError(f"faults.toml: {name}: nothing changes, or no reason is given")
    if fault.notices not in {"harness", "kunit", *(s.name for s in scenarios)}:
        raise ListError(f"faults.toml: {name}: no suite has the name {fault.notices}")
    return fault


def _scenario(text: object) -> Scenario:
    name, *rest = str(text).split()
    settings = tuple(tuple(word.split("=", 1)) for word in rest)
    for setting in settings:
        if len(setting) != 2 or setting[0] not in _SETTINGS:
            raise ListError(f"faults.toml: {text}: {'='.join(setting)} is no setting")
    return Scenario(name, settings)


def select(faults: list[Fault], rooms: list[str], regex: str) -> list[Fault]:
    """Returns the faults of these rooms whose names match.

    # Errors
    `ListError` if a room has no faults, or no name matches.
    """
    if unknown := set(rooms) - set(ROOMS):
        raise ListError(f"ROOMS: {', '.join(sorted(unknown))}: no such room; {', '.join(ROOMS)}")
    some = [f for f in faults if f.room in rooms and re.search(regex, f.name)]
    if not some:
        raise ListError("no fault is chosen")
    return some
