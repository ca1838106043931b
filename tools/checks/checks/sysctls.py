# SPDX-License-Identifier: GPL-2.0
"""Checks that each sysctl has its scenario and its entry in a guide, with the same numbers.

A setting is `IntSysctl::new(c"name", default, least, greatest)`, or an `EnumSysctl` of words. Its
scenario has the three numbers in `RANGES` or `ADDED`, or names the choice. Its guide has a term
such as "``name``: 4 to 300, default 8". Of an `AddrSysctl` and of a counter both have the name.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .tree import Finding, Tree, line_of

NAME = "sysctls"

_SCENARIOS = "tools/lab/scenarios"
#: The files with the sysctls: the scenario and the guide of each.
SOURCES = {
    "rust/client/config.rs": (f"{_SCENARIOS}/test_sysctl.py", "Documentation/admin-guide.rst"),
    "rust/client/legacy.rs": (f"{_SCENARIOS}/test_sysctl.py", "Documentation/admin-guide.rst"),
    "rust/server/config.rs": (
        f"{_SCENARIOS}/test_server_sysctl.py",
        "Documentation/server-guide.rst",
    ),
    "rust/server/legacy.rs": (
        f"{_SCENARIOS}/test_server_sysctl.py",
        "Documentation/server-guide.rst",
    ),
}

_TYPE = "IntSysctl|EnumSysctl|AddrSysctl|Counter"
_NEW = re.compile(rf'static \w+: ({_TYPE}) =\s*(\w+)(?:::new)?\(\s*c"(\w+)"([^;]*)\);')
_STATIC = re.compile(rf"^(?:pub\S* )?static \w+: (?:{_TYPE})\b", re.MULTILINE)
_LIMITS = {"i32::MIN": str(-(2**31)), "i32::MAX": str(2**31 - 1)}
_TERM = re.compile(r"^``\w.*$", re.MULTILINE)

Range = tuple[int, int, int]


@dataclass(frozen=True)
class Sysctl:
    """A file below /proc/sys: default, least and greatest value, or its words."""

    name: str
    line: int
    range: Range | None
    words: tuple[str, ...]


def _range(rest: str) -> Range:
    """Returns default, least and greatest value, from the arguments behind the name."""
    numbers = [_LIMITS.get(word, word) for word in re.findall(r"[-\w:]+", rest)]
    default, least, greatest = map(int, numbers or ("0", "0", "0"))
    return default, least, greatest


def declared(text: str) -> list[Sysctl]:
    """Returns the sysctls of a file of the module."""
    found = []
    for match in _NEW.finditer(text):
        kind, _, name, rest = match.groups()
        line = line_of(text, match.start())
        numbers = _range(rest) if kind == "IntSysctl" else None
        found.append(Sysctl(name, line, numbers, tuple(re.findall(r'"(\w+)"', rest))))
    return found


def tried(scenario: str) -> dict[str, Range | None]:
    """Returns the names in the constants of a scenario, with the ranges that they have there."""
    found: dict[str, Range | None] = {}
    for node in ast.walk(ast.parse(scenario)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.setdefault(node.value.rpartition("/")[2], None)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Tuple):
                    found[key.value] = ast.literal_eval(value)
    return found


def described(page: str) -> dict[str, str]:
    """Returns the names in the terms of a page, each with the text of its term."""
    found: dict[str, str] = {}
    for match in _TERM.finditer(page):
        *_, last = groups = match[0].split("; ")
        default = last if last.startswith("default") else ""
        for group in groups:
            names, _, says = group.partition(": ")
            for name in re.findall(r"``([\w*]+)``", names):
                # Numbers may stand behind each of several names, or behind the last one alone.
                found.setdefault(name, f"{says}, {default}".strip(", "))
    return found


def _says(sysctl: Sysctl) -> list[str]:
    """Returns the text that the term of a sysctl has to contain."""
    if sysctl.words:
        return [f"``{word}``" for word in sysctl.words]
    if sysctl.range in (None, (0, 0, 0)):
        return []
    default, least, greatest = sysctl.range
    between = f"{least} {'or' if greatest == least + 1 else 'to'} {greatest}"
    anything = str(least) in _LIMITS.values() and str(greatest) in _LIMITS.values()
    return ["any number" if anything else between, f"default {default}"]


def _check_scenario(sysctl: Sysctl, known: dict[str, Range | None]) -> str | None:
    if sysctl.name not in known:
        return "is not tried in"
    if sysctl.range and known[sysctl.name] is None:
        return f"has no range {sysctl.range} in"
    if sysctl.range and known[sysctl.name] != sysctl.range:
        return f"is {sysctl.range}, but {known[sysctl.name]} in"
    return None


def _check_page(sysctl: Sysctl, terms: dict[str, str]) -> str | None:
    says = next((terms[name] for name in terms if fnmatchcase(sysctl.name, name)), None)
    if says is None:
        return "has no entry in"
    missing = [words for words in _says(sysctl) if words not in says]
    return f'lacks "{", ".join(missing)}" in' if missing else None


def check(tree: Tree) -> list[Finding]:
    """Reports sysctls that a scenario or a guide does not have, or has with other numbers."""
    found = []
    for source, (scenario, page) in SOURCES.items():
        if source not in tree.files:
            continue
        sysctls = declared(tree.text(source))
        if len(sysctls) != len(_STATIC.findall(tree.text(source))) or not sysctls:
            found.append(Finding(source, 0, "has a sysctl that this check cannot read"))
        known, terms = tried(tree.text(scenario)), described(tree.text(page))
        for sysctl in sysctls:
            for says, where in (
                (_check_scenario(sysctl, known), scenario),
                (_check_page(sysctl, terms), page),
            ):
                if says:
                    found.append(Finding(source, sysctl.line, f"{sysctl.name} {says} {where}"))
    return found
