# SPDX-License-Identifier: GPL-2.0
"""``nfsrdma doctor``: diagnoses the path from the device to the mount, and suggests fixes.

- `kinds`: all findings, with their text and command.
- `view`: the state that the steps examine.
- `module`, `device`, `route`, `serving`, `link`, `settings`, `sizes`, `dma`, `memory`: the steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..host import Host
from ..table import printable
from . import device, dma, link, memory, module, route, serving, settings, sizes
from .kinds import Finding, Severity
from .view import Fact, View

Step = Callable[[View], Iterator[Fact | Finding]]

#: The steps in order: each needs what those before it have found in place.
STEPS: dict[str, Step] = {
    "module": module.check,
    "device": device.check,
    "route": route.check,
    "server": serving.check,
    "connection": link.check,
    "settings": settings.check,
    "sizes": sizes.check,
    "dma": dma.check,
    "memory": memory.check,
}

#: The exit status if something is wrong.
WRONG = 3


@dataclass(frozen=True)
class Result:
    """The results of the walk: pairs of a step's name and a fact or finding."""

    told: list[tuple[str, Fact | Finding]]

    @property
    def findings(self) -> list[Finding]:
        """The findings in the order of the walk."""
        return [entry for _, entry in self.told if isinstance(entry, Finding)]

    @property
    def status(self) -> int:
        """The exit status of the command."""
        wrong = any(finding.severity != Severity.NOTE for finding in self.findings)
        return WRONG if wrong else 0


def examine(host: Host, server: str | None) -> Result:
    """Takes all steps. A name or address of a server is walked to."""
    view = View(host, server)
    return Result([(name, entry) for name, step in STEPS.items() for entry in step(view)])


def as_json(result: Result) -> str:
    """Returns the findings and facts as JSON."""
    facts = [
        {"step": name, "text": entry.text} for name, entry in result.told if isinstance(entry, Fact)
    ]
    findings = [
        {"step": name, **entry.as_json()}
        for name, entry in result.told
        if isinstance(entry, Finding)
    ]
    return json.dumps({"facts": facts, "findings": findings}, indent=2)


def as_text(result: Result) -> str:
    """Returns the walk, and at its end the findings and their fixes."""
    lines = [f"{_mark(entry)} {name:<10} {printable(entry.text)}" for name, entry in result.told]
    findings = sorted(result.findings, key=lambda finding: finding.severity.rank)
    if not findings:
        return "\n".join([*lines, "", "Nothing is wrong."])
    lines += ["", "What to do:"]
    for number, finding in enumerate(findings, 1):
        lines.append(f"{number}. {finding.severity.value}: {printable(finding.text)}")
        lines += [f"     {line}" for line in finding.fix.split("\n")]
    return "\n".join(lines)


def _mark(entry: Fact | Finding) -> str:
    return "ok  " if isinstance(entry, Fact) else entry.severity.mark
