# SPDX-License-Identifier: GPL-2.0
"""Runs the scenarios under pytest: the short form on the plain kernel, or all with `FULL=1`.

The long form makes three runs for each pair of modules and mode of `DMA`: on the plain kernel, on
the debug kernel, and on the plain kernel over iWARP; and one with a disk under the server's export.
`ONLY` names scenarios for one run; `LIST=1` lists the scenarios and boots nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from . import accesses, arch, debian_build, deps, device, image, kernel, module, paths, settings
from .progress import say

#: The exit status of pytest when no scenario is left to run.
NOTHING_SELECTED = 5


@dataclass(frozen=True)
class Round:
    """One run of the scenarios: kernel, link, modules, and pytest's expression for the markers."""

    flavour: str
    link: str
    markers: str = ""
    client: str = "ours"
    server: str = "stock"
    dma: str = "none"
    export: str = "tmpfs"

    @property
    def name(self) -> str:
        """Returns a report's description of the run."""
        modules = f"{self.client} client, {self.server} server"
        dma = "" if self.dma == "none" else f", DMA={self.dma}"
        dma += "" if self.export == "tmpfs" else f", EXPORT={self.export}"
        profile = "" if settings.profile() == "none" else f", PROFILE={settings.profile()}"
        names = [machine.name for machine in arch.in_use()]
        machines = "" if names == [arch.X86.name] else f", {' and '.join(names)}"
        return f"scenarios ({self.flavour} kernel, {modules}, {self.link}{dma}{profile}{machines})"

    @property
    def environment(self) -> dict[str, str]:
        """The settings of the run in the lab's variables."""
        modules = {"CLIENT": self.client, "SERVER": self.server}
        return {
            "KERNEL": self.flavour,
            "LINK": self.link,
            "DMA": self.dma,
            "EXPORT": self.export,
            **modules,
        }


@dataclass
class Outcome:
    """The exit statuses of a round's runs of pytest, and its device's accesses to memory."""

    turn: Round
    statuses: list[int] = field(default_factory=list)
    accesses: int = 0


def pytest(
    arguments: Sequence[str], suite: str, output: IO[bytes] | None = None, **env: str
) -> int:
    """Runs pytest in the lab's venv and returns its exit status; `output` takes what it prints."""
    python = deps.install_venv() / "bin/python"
    settled = {**os.environ, "PYTHONPATH": str(paths.LAB), "LAB_SUITE": suite, **env}
    settled["PYTHONDONTWRITEBYTECODE"] = "1"
    args = [python, "-m", "pytest", "--rootdir", paths.LAB, "-c", paths.LAB / "pyproject.toml"]
    words = [*map(str, args), *arguments]
    errors = subprocess.STDOUT if output else None
    return subprocess.run(words, env=settled, stdout=output, stderr=errors).returncode


def prepare(turn: Round) -> None:
    """Builds what every scenario of a run needs, so that no scenario's time includes it."""
    if turn.flavour == "debian":
        debian_build.prepare()
        return
    for side in ("client", "server"):
        built = kernel.ensure(turn.flavour, side)
        image.ensure(built.machine)
        device.files(built, turn.link, turn.dma)
        if "ours" in (turn.client, turn.server):
            module.build(built)
            if not settings.only():
                module.build(built, kunit=True)


def main(arguments: Sequence[str]) -> int:
    """``lab check [pytest arguments]``."""
    parser = argparse.ArgumentParser(prog="lab check", description=__doc__)
    _, rest = parser.parse_known_args(arguments)
    if settings.listing():
        return pytest([str(paths.LAB / "scenarios"), "-qq", *rest], "list")
    deps.ensure()
    outcomes = [one for group in _groups(_rounds(rest)) for one in _run_group(group, rest)]
    statuses = [status for one in outcomes for status in one.statuses]
    sums = [one.accesses for one in outcomes if one.turn.dma != "none"]
    if sums:
        say(f"{sum(sums)} accesses of the device went through the DMA API")
    if set(statuses) == {NOTHING_SELECTED}:
        say("no scenario of that name runs with this KERNEL, LINK, CLIENT and SERVER")
        return NOTHING_SELECTED
    # With several runs of pytest a selection need not have a scenario in each.
    # A run that a signal has ended has a negative status.
    return next((status for status in statuses if status not in (0, NOTHING_SELECTED)), 0)


def _groups(rounds: Sequence[Round]) -> list[list[Round]]:
    """Returns the rounds in order. Those of a group run at the same time, with a pair each.

    Nobody can watch several rounds at once.
    """
    groups: list[list[Round]] = []
    for turn in rounds:
        last = groups[-1] if groups else []
        room = settings.pairs(turn.flavour) if turn.markers == _SHORT_DMA else 1
        if not settings.attended() and _SHORT_DMA in {r.markers for r in last} and len(last) < room:
            last.append(turn)
        else:
            groups.append([turn])
    return groups


def _run_group(group: Sequence[Round], given: list[str]) -> list[Outcome]:
    """Runs rounds side by side. What several of them print appears at the end of all."""
    for turn in group:
        prepare(turn)
        say(f"{turn.name}: running")
    if len(group) == 1:
        return [_run(group[0], given)]
    with ExitStack() as stack, ThreadPoolExecutor(len(group)) as pool:
        outputs = [stack.enter_context(TemporaryFile()) for _ in group]
        outcomes = list(pool.map(_run, group, [given] * len(group), outputs))
        for output in outputs:
            output.seek(0)
            print(output.read().decode(errors="replace"), end="", flush=True)
    return outcomes


def _run(turn: Round, given: list[str], output: IO[bytes] | None = None) -> Outcome:
    """Runs the scenarios of a round."""
    outcome = Outcome(turn)
    for part in _parts(turn, given):
        name = "check" if turn.dma == "none" else f"check-{turn.dma}"
        logs = str(paths.run_directory(name))
        env = {**turn.environment, "LAB_RUN": logs}
        arguments = [str(paths.LAB / "scenarios"), *part]
        outcome.statuses.append(pytest(arguments, turn.name, output, **env))
        outcome.accesses += accesses.total(Path(logs))
    # Its scenarios have not run, or the counters are of nothing.
    if turn.markers == _SHORT_DMA and not outcome.accesses:
        say(f"{turn.name}: the device has accessed nothing")
        outcome.statuses.append(1)
    return outcome


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
    shown = ["-v", "--durations", "25"]
    pairs = settings.pairs(turn.flavour)
    # A short round has less work than the boot of a second pair.
    if pairs == 1 or turn.markers == _SHORT_DMA:
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


#: The modules of the runs that are about the server.
_OF_SERVER = (("ours", "ours"), ("stock", "ours"))
#: The scenarios of the short rounds in which the device stands behind the DMA API.
_SHORT_DMA = "dma"


def _rounds(given: Sequence[str] = ()) -> list[Round]:
    """Returns the rounds. What the user names is all there is, and so is `given` for pytest."""
    named = settings.only() or given or os.environ.get("CLIENT") or os.environ.get("SERVER")
    if named:
        return _of_modules((settings.client(), settings.server()), "")
    # The client's scenarios are about a stock server, whose habits they know.
    rounds = _of_modules(("ours", "stock"), "" if settings.full() else "not server")
    both = ("ours", "ours")
    modes = [] if os.environ.get("DMA") else [mode for mode in settings.DMA_MODES if mode != "none"]
    if settings.full():
        rounds += [r for pair in _OF_SERVER for r in _of_modules(pair, "(server or both_roles)")]
        rounds += [r for m in modes for r in _of_modules(both, "(server or both_roles)", m)]
        return [*rounds, *_over_a_disk()]
    # What is about the server alone does not depend on the client.
    short = " and not server_long"
    rounds += _of_modules(both, f"(server or both_roles){short}")
    rounds += _of_modules(("stock", "ours"), f"both_roles{short}")
    return rounds + [r for mode in modes for r in _of_modules(both, _SHORT_DMA, mode)]


def _over_a_disk() -> list[Round]:
    """Returns the round of the data scenarios over ext4, unless `EXPORT` names a file system."""
    if os.environ.get("EXPORT") or os.environ.get("KERNEL"):
        return []
    return [Round("plain", settings.link(), "export", "ours", "ours", settings.dma(), "ext4")]


def _of_modules(modules: tuple[str, str], markers: str, dma: str = "") -> list[Round]:
    """Returns the rounds with these modules: one, or three in the long form."""
    flavour, link = os.environ.get("KERNEL"), os.environ.get("LINK")
    rest = (*modules, dma or settings.dma(), settings.export())
    if flavour or settings.only() or not settings.full():
        return [Round(settings.flavour(), settings.link(), markers, *rest)]
    rounds = [Round(name, settings.link(), markers, *rest) for name in ("plain", "debug")]
    if link:
        return rounds
    over_siw = " and ".join(filter(None, ("not any_link", markers)))
    return [*rounds, Round("plain", "siw", over_siw, *rest)]
