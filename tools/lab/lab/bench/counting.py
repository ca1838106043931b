# SPDX-License-Identifier: GPL-2.0
"""Counts instructions per operation of both modules in turns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .. import paths
from ..command import capture
from ..pair import Pair, Setup
from ..progress import step
from . import instructions
from .figures import Figures
from .turns import in_turn, using


def count(
    setup: Setup, modules: Sequence[str], rounds: int, directory: Path, figures: Figures
) -> None:
    """Puts the counts into `figures`.

    Writes the cost of each function to `functions.txt` (the module) and `kernel.txt` (the whole
    kernel) in `directory`.
    """
    counts = paths.sub("tmp") / f"insncount-{time.time_ns()}"
    plugin = f"{instructions.build_plugin()},out={counts}"
    counted = replace(setup, client_extra=("-plugin", plugin))
    try:
        with Pair(counted, directory) as pair:
            pair.server.sh("head -c 1M /dev/zero > /srv/export/ops; chmod 666 /srv/export/ops")
            counters = instructions.Counters(counts)
            for turn in range(rounds):
                for module in in_turn(modules, turn):
                    title = f"counting instructions, round {turn + 1} of {rounds}, {module}"
                    with step(title), using(pair, module, "actimeo=0"):
                        _measure(pair, counters, module, figures, directory)
    finally:
        counts.unlink(missing_ok=True)


def _measure(
    pair: Pair, counters: instructions.Counters, module: str, figures: Figures, directory: Path
) -> None:
    for verb in instructions.VERBS:
        cost = instructions.measure(pair, counters, verb)
        figures.note(f"{verb.upper()}, whole kernel", "instructions", module, cost.total)
        figures.note(f"{verb.upper()}, inside the module", "instructions", module, cost.module)
        title = f"{module} {verb}"
        _note(directory / "functions.txt", title, cost.module, cost.functions)
        _note(directory / "kernel.txt", title, cost.total, cost.kernel)


def _note(path: Path, title: str, total: float, functions: dict[str, float]) -> None:
    names = capture(["c++filt", *functions]).splitlines()
    lines = [f"{n:9.1f}  {name}" for n, name in zip(functions.values(), names, strict=True)]
    with path.open("a") as file:
        file.write("\n".join([f"{title}: {total:.1f} per operation", *lines, "", ""]))
