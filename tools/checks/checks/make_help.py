# SPDX-License-Identifier: GPL-2.0
"""Checks that `make help` describes every target and variable that a user may use."""

from __future__ import annotations

import re
import subprocess

from .tree import Finding, Tree, line_of

NAME = "make help"

# Targets that only other targets use.
INTERNAL = {"preflight", "fuzz-build", "fuzz-object"}
# Variables that make itself sets.
MAKES_OWN = {"CURDIR", "MAKE", "MAKEFILE_LIST"}

_VARIABLE = re.compile(r"([A-Z][A-Z0-9_]*)=(\S*)")


def _makefiles(tree: Tree) -> list[str]:
    return [f for f in tree.files if f == "Makefile" or f.endswith("/targets.mk")]


def _code(text: str) -> str:
    """Blanks out the comments of a makefile, and keeps the line numbers."""
    return re.sub(r"^#.*$", "", text, flags=re.MULTILINE)


def targets(text: str) -> dict[str, int]:
    """Returns the targets that a makefile defines, with their lines."""
    found = {}
    for match in re.finditer(r"^([a-z][\w-]*(?: [a-z][\w-]*)*)\s*:(?![:=])", text, re.MULTILINE):
        for name in match[1].split():
            found[name] = line_of(text, match.start())
    return found


def inputs(tree: Tree) -> dict[str, tuple[str, int]]:
    """Returns the variables that a user may set, each with the place of its first use.

    Such a variable is used or has a default (`?=`), and no makefile sets it.
    """
    codes = {path: _code(tree.text(path)) for path in _makefiles(tree)}
    # An assignment that uses the variable's own value extends the user's value.
    plain = re.compile(r"^(?:export )?([A-Z]\w*)\s*:?=(?!.*\$\(\1\))", re.MULTILINE)
    own = {name for code in codes.values() for name in plain.findall(code)} | MAKES_OWN
    found: dict[str, tuple[str, int]] = {}
    for path, code in codes.items():
        for match in re.finditer(r"\$\(([A-Z]\w*)\)|^([A-Z]\w*) \?=", code, re.MULTILINE):
            name = match[1] or match[2]
            if name not in own:
                found.setdefault(name, (path, line_of(code, match.start())))
    return found


def _described(tree: Tree) -> dict[str, tuple[str, int]]:
    """Returns the variables that lines `#: NAME=... text` describe, with their places."""
    found = {}
    for path in _makefiles(tree):
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            match = _VARIABLE.match(line.removeprefix("#: "))
            if line.startswith("#: ") and match:
                found[match[1]] = (path, number)
    return found


def _check_targets(tree: Tree) -> list[Finding]:
    """Reports targets without help, and help without a target."""
    findings = []
    described: set[str] = set()
    for path in _makefiles(tree):
        described |= set(re.findall(r"^## ([\w-]+):", tree.text(path), re.MULTILINE))
    defined: set[str] = set()
    for path in _makefiles(tree):
        for name, line in targets(tree.text(path)).items():
            defined.add(name)
            if name not in described | INTERNAL:
                findings.append(Finding(path, line, f"target {name} has no `## {name}: ...` line"))
    for name in sorted(described - defined):
        findings.append(Finding("Makefile", 0, f"help describes {name}, which is no target"))
    return findings


def _is_used(tree: Tree, name: str) -> bool:
    """Returns whether a makefile has `$(NAME)`, or a script of tools/ reads the variable."""
    if any(f"$({name})" in _code(tree.text(path)) for path in _makefiles(tree)):
        return True
    return any(f'"{name}"' in tree.text(path) for path in tree.under("tools", ".py"))


def _check_variables(tree: Tree) -> list[Finding]:
    """Reports variables without help, and help without a variable."""
    described = _described(tree)
    findings = [
        Finding(path, line, f"help describes {name}, which nothing uses")
        for name, (path, line) in described.items()
        if not _is_used(tree, name)
    ]
    return findings + [
        Finding(path, line, f"variable {name} has no `#: {name}= ...` line")
        for name, (path, line) in inputs(tree).items()
        if name not in described
    ]


def _printed(tree: Tree, path: str) -> list[str]:
    """Returns the output of the sed commands of the target `help` for a makefile."""
    lines: list[str] = []
    for program in re.findall(r"@sed -n '([^']*)' \$\(MAKEFILE_LIST\)", tree.text("Makefile")):
        command = ["sed", "-n", program.replace("$$", "$")]
        done = subprocess.run(
            command, input=tree.text(path), capture_output=True, text=True, check=True
        )
        lines += done.stdout.splitlines()
    return lines


def _check_output(tree: Tree) -> list[Finding]:
    """Reports help lines that `make help` does not print, or that have a wrong form."""
    findings = []
    for path in _makefiles(tree):
        printed = _printed(tree, path)
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            if not line.startswith(("## ", "#: ")):
                continue
            name, _, text = line[3:].partition(": " if line.startswith("##") else " ")
            if f"  {name}\t{text}" not in printed:
                findings.append(Finding(path, number, f"make help does not print: {line}"))
            elif line.startswith("#: ") and not (_VARIABLE.fullmatch(name) and text):
                findings.append(Finding(path, number, "not of the form `#: NAME=value text`"))
            elif _VARIABLE.match(text):
                findings.append(Finding(path, number, "a variable needs a line of its own"))
    return findings


def check(tree: Tree) -> list[Finding]:
    """Reports help that is missing, not printed, or about nothing."""
    return _check_targets(tree) + _check_variables(tree) + _check_output(tree)
