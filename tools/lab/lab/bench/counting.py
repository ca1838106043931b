# SPDX-License-Identifier: GPL-2.0
"""Counts instructions per operation of both modules in turns, of the client or of both guests."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from .. import paths
from ..command import capture
from ..pair import Pair, Setup
from ..progress import step
from .figures import Figures
from .instructions import CLOCK, VERBS, Counters, build_plugin, measure
from .server.turns import serving
from .turns import in_turn, using

CLIENT, BOTH = ("client",), ("client", "server")


def count(
    setup: Setup,
    modules: Sequence[str],
    rounds: int,
    directory: Path,
    figures: Figures,
    guests: Sequence[str] = CLIENT,
) -> None:
    """Puts the counts of these guests into `figures`. A module runs on all of them at a time.

    Writes the cost of each function to `functions.txt` (the module) and `kernel.txt` (the whole
    kernel) in `directory`.
    """
    with counters(guests) as files:
        extra = {
            f"{guest}_extra": ("-plugin", f"{build_plugin()},out={path}", *CLOCK)
            for guest, path in files.items()
        }
        with Pair(replace(setup, **extra), directory) as pair:
            pair.server.sh("head -c 1M /dev/zero > /srv/export/ops; chmod 666 /srv/export/ops")
            counts = {guest: Counters(path) for guest, path in files.items()}
            for turn in range(rounds):
                for module in in_turn(modules, turn):
                    title = f"counting instructions, round {turn + 1} of {rounds}, {module}"
                    with step(title), ExitStack() as stack:
                        if "server" in guests:
                            stack.enter_context(serving(pair, module))
                        stack.enter_context(using(pair, module, "actimeo=0"))
                        _measure(pair, counts, module, figures, directory)


@contextmanager
def counters(guests: Sequence[str]) -> Iterator[dict[str, Path]]:
    """Yields a file of the plugin for each guest, and removes it afterwards."""
    base = paths.sub("tmp") / f"insncount-{time.time_ns()}"
    files = {guest: base.with_name(f"{base.name}-{guest}") for guest in guests}
    try:
        yield files
    finally:
        for path in files.values():
            path.unlink(missing_ok=True)


def _measure(
    pair: Pair, counts: Mapping[str, Counters], module: str, figures: Figures, directory: Path
) -> None:
    for verb in VERBS:
        costs = measure(pair, counts, verb)
        for guest, cost in costs.items():
            place = f", {guest}" if len(costs) > 1 else ""
            kernel, inside = f"{verb.title}{place}, whole kernel", f"{verb.title}{place}, module"
            figures.note(kernel, "instructions", module, cost.total)
            figures.note(inside, "instructions", module, cost.module)
            title = f"{module} {verb.title}{place}"
            note(directory / "functions.txt", title, cost.module, cost.functions)
            note(directory / "kernel.txt", title, cost.total, cost.kernel)
        if len(costs) > 1:
            total = sum(cost.total for cost in costs.values())
            figures.note(f"{verb.title}, both kernels", "instructions", module, total)


def note(path: Path, title: str, total: float, functions: Mapping[str, float]) -> None:
    """Appends the cost of each function to a file."""
    names = capture(["c++filt", *functions]).splitlines()
    lines = [f"{n:9.1f}  {name}" for n, name in zip(functions.values(), names, strict=True)]
    with path.open("a") as file:
        file.write("\n".join([f"{title}: {total:.1f} per operation", *lines, "", ""]))
