# SPDX-License-Identifier: GPL-2.0
"""Runs the scenarios under pytest: the short form on the plain kernel, or all with `FULL=1`.

The long form makes three runs: on the plain kernel, on the debug kernel, and on the plain kernel
over iWARP. `ONLY` names scenarios for one run; `LIST=1` lists the scenarios and boots nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from . import deps, image, kernel, module, paths, settings
from .progress import say

#: The exit status of pytest when no scenario is left to run.
NOTHING_SELECTED = 5


@dataclass(frozen=True)
class Round:
    """One run of the scenarios: kernel, link, and pytest's expression for the markers."""

    flavour: str
    link: str
    markers: str = ""


def pytest(arguments: Sequence[str], suite: str, **env: str) -> int:
    """Runs pytest in the lab's venv and returns its exit status."""
    python = deps.install_venv() / "bin/python"
    settled = {**os.environ, "PYTHONPATH": str(paths.LAB), "LAB_SUITE": suite, **env}
    settled["PYTHONDONTWRITEBYTECODE"] = "1"
    args = [python, "-m", "pytest", "--rootdir", paths.LAB, "-c", paths.LAB / "pyproject.toml"]
    return subprocess.run([*map(str, args), *arguments], env=settled).returncode


def prepare(flavour: str) -> None:
    """Builds what every scenario needs, so that no scenario's time includes it."""
    image.ensure()
    built = kernel.ensure(flavour)
    if settings.client() == "ours":
        module.build(built)
        if not settings.only():
            module.build(built, kunit=True)


def main(arguments: Sequence[str]) -> int:
    """``lab check [pytest arguments]``."""
    parser = argparse.ArgumentParser(prog="lab check", description=__doc__)
    _, rest = parser.parse_known_args(arguments)
    scenarios = str(paths.LAB / "scenarios")
    if settings.listing():
        return pytest([scenarios, "-qq", *rest], "list")
    deps.ensure()
    rounds = _rounds()
    statuses = []
    for turn in rounds:
        prepare(turn.flavour)
        name = f"scenarios ({turn.flavour} kernel, {settings.client()} client, {turn.link})"
        say(f"{name}: running")
        for part in _parts(turn, rest):
            logs = str(paths.run_directory("check"))
            env = {"KERNEL": turn.flavour, "LINK": turn.link, "LAB_RUN": logs}
            statuses.append(pytest([scenarios, *part], name, **env))
    if set(statuses) == {NOTHING_SELECTED}:
        say("no scenario of that name runs with this KERNEL, LINK and CLIENT")
        return NOTHING_SELECTED
    # With several runs of pytest a selection need not have a scenario in each.
    # A run that a signal has ended has a negative status.
    return next((status for status in statuses if status not in (0, NOTHING_SELECTED)), 0)


def _parts(turn: Round, given: list[str]) -> list[list[str]]:
    """Returns the arguments of each run of pytest within a round.

    A person watches a run with names, `KEEP` or `GDB`: it prints what the scenarios print, and has
    the terminal. Other runs share the scenarios between several pairs of guests. The scenarios that
    are `by_the_clock` run last then, with one pair, which has the host to itself.
    """
    watched = ["-v", "-s"]
    if given:
        return [[*given, *(watched if settings.attended() else [])]]
    if settings.only() or settings.attended():
        return [[*watched, *_marked(turn.markers)]]
    shown = ["-v", "--durations", "8"]
    pairs = settings.pairs(turn.flavour)
    if pairs == 1:
        return [[*shown, *_marked(turn.markers)]]
    shared = ["-n", str(pairs), "--dist", "loadgroup"]
    return [
        [*shown, *_marked("not by_the_clock", turn.markers), *shared],
        [*shown, *_marked("by_the_clock", turn.markers)],
    ]


def _marked(*expressions: str) -> list[str]:
    """Returns pytest's option for scenarios whose markers fulfil all the expressions."""
    wanted = " and ".join(filter(None, expressions))
    return ["-m", wanted] if wanted else []


def _rounds() -> list[Round]:
    """Returns the rounds. What the user names is all there is."""
    flavour, link = os.environ.get("KERNEL"), os.environ.get("LINK")
    if flavour or settings.only() or not settings.full():
        return [Round(settings.flavour(), settings.link())]
    rounds = [Round(name, settings.link()) for name in ("plain", "debug")]
    return rounds if link else [*rounds, Round("plain", "siw", "not any_link")]
