# SPDX-License-Identifier: GPL-2.0
"""`make bench`: our module against the stock one, as ratios.

Both are measured in the same run on the same pair of guests, taking turns, so
that what else the machine does hits both alike. Ratios are of medians; the
spread of the rounds stands beside them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from . import demo, instructions, paths, settings
from .command import capture
from .kernel import Kernel
from .pair import MOUNT_POINT, Pair, Setup
from .progress import say, step

MODULES = ("stock", "ours")
ROUNDS = 3
_FIO = (
    f"fio --name=b --filename={MOUNT_POINT}/bench --size=64m --direct=1 --ioengine=libaio"
    " --time_based --ramp_time=1 --runtime={seconds} --output-format=json"
)


@dataclass(frozen=True)
class Job:
    """One fio job: its name in the table, its arguments, the figure that counts."""

    name: str
    arguments: str
    side: str
    figure: str


JOBS = (
    Job("4 KiB random read, depth 16, IOPS", "--rw=randread --bs=4k --iodepth=16", "read", "iops"),
    Job(
        "4 KiB random write, depth 16, IOPS", "--rw=randwrite --bs=4k --iodepth=16", "write", "iops"
    ),
    Job("1 MiB sequential read, KiB/s", "--rw=read --bs=1m --iodepth=4", "read", "bw"),
    Job("1 MiB sequential write, KiB/s", "--rw=write --bs=1m --iodepth=4", "write", "bw"),
)


def _use(pair: Pair, module: str, options: str = "") -> None:
    """Load one of the two modules on the client and mount."""
    pair.client.sh(f"insmod /lab/{module}.ko")
    pair.mount("4.2", options=options)


def _leave(pair: Pair) -> None:
    pair.umount()
    pair.unload()


def _fio(pair: Pair, job: Job, seconds: int) -> float:
    command = _FIO.format(seconds=seconds) + " " + job.arguments
    out = pair.client.sh(command, timeout=seconds + 120)
    (result,) = json.loads(out[out.index("{") :])["jobs"]
    return float(result[job.side][job.figure])


def throughput(
    pair: Pair, modules: Sequence[str], seconds: int
) -> dict[str, dict[str, list[float]]]:
    """Figures by job and module, the modules taking turns."""
    figures = {job.name: {module: [] for module in modules} for job in JOBS}
    pair.server.sh("head -c 64M /dev/zero > /srv/export/bench; chmod 666 /srv/export/bench")
    for turn in range(ROUNDS):
        for module in modules:
            with step(f"round {turn + 1} of {ROUNDS}, {module}"):
                _use(pair, module)
                for job in JOBS:
                    figures[job.name][module].append(_fio(pair, job, seconds))
                _leave(pair)
    return figures


def count(
    setup: Setup, modules: Sequence[str], directory: Path
) -> dict[str, dict[str, list[float]]]:
    """Instructions per operation by verb and module, on a client with one processor.

    What each function of the modules costs goes into `functions.txt` in `directory`.
    """
    counts = paths.sub("tmp") / f"insncount-{time.time_ns()}"
    plugin = f"{instructions.build_plugin()},out={counts}"
    counted = replace(setup, cpus=1, client_extra=("-plugin", plugin))
    figures: dict[str, dict[str, list[float]]] = {}
    try:
        with step("counting instructions"), Pair(counted, directory) as pair:
            pair.server.sh("head -c 1M /dev/zero > /srv/export/ops; chmod 666 /srv/export/ops")
            counters = instructions.Counters(counts)
            for module in modules:
                _use(pair, module, "actimeo=0")
                for verb in instructions.VERBS:
                    cost = instructions.measure(pair, counters, verb)
                    name = f"instructions per {verb.upper()}"
                    figures.setdefault(f"{name}, kernel", {})[module] = [cost.total]
                    figures.setdefault(f"{name}, module", {})[module] = [cost.module]
                    _note_functions(directory / "functions.txt", f"{module} {verb}", cost)
                _leave(pair)
    finally:
        counts.unlink(missing_ok=True)
    return figures


def _note_functions(path: Path, title: str, cost: instructions.Cost) -> None:
    names = capture(["c++filt", *cost.functions]).splitlines()
    lines = [f"{n:9.1f}  {name}" for n, name in zip(cost.functions.values(), names, strict=True)]
    with path.open("a") as file:
        file.write("\n".join([f"{title}: {cost.module:.1f} per operation", *lines, "", ""]))


def table(figures: dict[str, dict[str, list[float]]]) -> str:
    """Medians, spreads and the ratio of ours to stock."""
    lines = [f"{'':36} {'stock':>18} {'ours':>18} {'ours/stock':>11}"]
    for name, by_module in figures.items():
        cells = [_cell(by_module.get(module)) for module in MODULES]
        ratio = ""
        if all(by_module.get(module) for module in MODULES):
            stock, ours = (statistics.median(by_module[module]) for module in MODULES)
            ratio = f"{ours / stock:.2f} {_bar(ours / stock)}"
        lines.append(f"{name:36} {cells[0]:>18} {cells[1]:>18} {ratio}")
    return "\n".join(lines)


def _cell(values: list[float] | None) -> str:
    if not values:
        return "-"
    middle = statistics.median(values)
    if len(values) == 1:
        return f"{middle:,.0f}"
    spread = (max(values) - min(values)) / 2 / middle if middle else 0
    return f"{middle:,.0f} ±{spread:.0%}"


def _bar(ratio: float) -> str:
    """A bar of twenty characters for a ratio of one, for the eye."""
    return "#" * min(40, round(ratio * 20))


def main(arguments: Sequence[str]) -> int:
    """``lab bench [--seconds N] [--stock-only]``."""
    parser = argparse.ArgumentParser(prog="lab bench", description=__doc__)
    parser.add_argument("--seconds", type=int, default=8, help="of each fio job")
    parser.add_argument("--counts-only", action="store_true", help="no wall-clock figures")
    parser.add_argument("--stock-only", action="store_true", help="prove the bench itself")
    args = parser.parse_args(arguments)
    modules = ("stock",) if args.stock_only else MODULES
    built, ours = demo.prepare("stock" if args.stock_only else "ours", "plain")
    directory = paths.run_directory("bench")
    setup = _setup(built, ours)
    figures = count(setup, modules, directory)
    if not args.counts_only:
        with Pair(setup, directory) as pair:
            figures |= throughput(pair, modules, args.seconds)
    say(f"measured under TCG over {settings.link()}, NFSv4.2, stock server:")
    print(table(figures))
    (directory / "figures.json").write_text(json.dumps(figures, indent=1))
    return 0


def _setup(built: Kernel, ours: Path) -> Setup:
    files = {"stock.ko": built.stock_module, "ours.ko": ours}
    # Figures are comparable under TCG only, whatever the machine could do.
    return Setup(built, ours, built.stock_module, link=settings.link(), files=files)
