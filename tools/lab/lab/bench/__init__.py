# SPDX-License-Identifier: GPL-2.0
"""`make bench`: our module against the stock one, as ratios.

The bench measures both modules in turns in the same run on the same pair of guests, so that other
work on the machine affects both alike. Each round gives a ratio; the result is the median, the
least and the greatest ratio. The bench writes a table, a plot (SVG) and JSON.

`SIDE` (or `--side`) is the guest on which the modules take turns; `both` counts instructions alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .. import demo, module, paths, programs, settings
from ..kernel import Kernel
from ..pair import Pair, Setup
from ..progress import say, step
from . import goals, link, plot, recovery, server, sizes, tuning
from .clock import by_the_clock
from .counting import BOTH, CLIENT, count
from .figures import MODULES, STOCK, Figures, table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lab bench", description=__doc__)
    parser.add_argument("--seconds", type=int, default=3, help="of each fio job (default: 3)")
    parser.add_argument("--rounds", type=int, help="by the clock (default: 6), of recovery (3)")
    parser.add_argument("--counts", type=int, default=3, help="of instructions (default: 3)")
    parser.add_argument("--cpus", type=int, help="of each guest (default: 2; 1 to count)")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--counts-only", action="store_true", help="no wall-clock figures")
    one.add_argument("--no-counts", action="store_true", help="wall-clock figures only")
    parser.add_argument("--recovery", action="store_true", help="times to recover, nothing else")
    parser.add_argument("--sizes", action="store_true", help="sizes of messages, by version")
    parser.add_argument("--tuning", action="store_true", help="the settings of tuning.rst")
    explicit = "sizes in bytes that --sizes sets by hand, beside the defaults (default: 16384)"
    parser.add_argument("--explicit", default="16384", help=explicit)
    every = ",".join(recovery.NAMES)
    parser.add_argument("--rows", default=every, help=f"what to recover from (default: {every})")
    versions = ",".join(recovery.VERSIONS)
    parser.add_argument("--versions", default=versions, help=f"to recover with ({versions})")
    parser.add_argument("--stock-only", action="store_true", help="prove the bench itself")
    parser.add_argument("--side", default=settings.side(), choices=settings.SIDES)
    every = ",".join((*server.NAMES, *server.ON_REQUEST))
    only = ",".join(settings.only())
    parser.add_argument("--only", default=only, help=f"rows of the server's side ({every})")
    client = "client's module beside the server's (default: stock)"
    parser.add_argument("--client", default="stock", choices=MODULES, help=client)
    version = "version of NFS on the server's side (default: 4.2)"
    parser.add_argument("--nfs", default="4.2", choices=("3", "4.0", "4.1", "4.2"), help=version)
    twins = "measure the stock module under both names, which proves the server's side itself"
    parser.add_argument("--twins", action="store_true", help=twins)
    return parser


def main(arguments: Sequence[str]) -> int:
    """``lab bench [--seconds N] [--rounds N] [--counts-only | --no-counts | --recovery] …``."""
    parser = _parser()
    args = parser.parse_args(arguments)
    if unknown := set(args.rows.split(",")) - set(recovery.NAMES):
        parser.error(f"no such rows: {', '.join(unknown)}")
    if args.side == "both" and args.no_counts:
        parser.error("--side both has no wall-clock figures; leave out --no-counts")
    modules = (STOCK,) if args.stock_only else MODULES
    if args.sizes:
        return _sizes(args)
    if args.tuning:
        return _tuning(args)
    if args.side == "server":
        return _server(parser, modules, args)
    built, ours = demo.prepare("stock" if args.stock_only else "ours", "plain")
    directory = paths.run_directory("bench")
    setup, figures = _setup(built, ours), Figures()
    limits: dict[str, float] = {}
    if args.recovery:
        return _recover(setup, modules, args, directory)
    if not args.no_counts:
        counted = replace(setup, cpus=args.cpus or 1)
        guests = BOTH if args.side == "both" else CLIENT
        count(counted, modules, args.counts, directory, figures, guests)
    if not args.counts_only and args.side != "both":
        timed = replace(setup, cpus=args.cpus or setup.cpus)
        limits = _by_the_clock(timed, modules, args, directory, figures)
    peer = f"over {settings.link()}, guests under TCG"
    title = f"NFSv4.2 {peer if args.side == 'both' else _surroundings()}"
    _report(directory, title, args, figures, limits)
    return 0


def _sizes(args: argparse.Namespace) -> int:
    """Measures what version two saves, with the same module on both sides."""
    built, ours = demo.prepare("ours", "plain")
    directory = paths.run_directory("bench")
    files = {"stock.ko": built.stock_module, "ours.ko": ours}
    setup = Setup(built, ours, ours, link=settings.link(), cpus=args.cpus or 1, files=files)
    explicit = [int(size) for size in args.explicit.split(",") if size]
    names = [name for name in args.only.split(",") if name]
    found = sizes.measure(setup, directory, explicit, names, args.rounds or 3)
    say(f"measured: NFSv4.2 over {settings.link()}, guests under TCG")
    print(sizes.table(found))
    _write(directory, {"title": "sizes", "arguments": vars(args), "figures": found.records()})
    return 0


def _tuning(args: argparse.Namespace) -> int:
    """Measures the worth of the settings that tuning.rst proposes, with ours on both sides."""
    built, ours = demo.prepare("ours", "plain")
    directory = paths.run_directory("bench")
    setup = Setup(built, ours, ours, link=settings.link(), cpus=args.cpus or 1)
    setup = replace(setup, files=programs.build(built.machine))
    found = tuning.measure(setup, args.rounds or 1, directory)
    say(f"measured: NFSv4.2 over {settings.link()}, ours on both sides, guests under TCG")
    print(tuning.table(found))
    records = {title: figures.records() for title, figures in found.items()}
    _write(directory, {"title": "tuning", "arguments": vars(args), "figures": records})
    return 0


def _server(
    parser: argparse.ArgumentParser, modules: Sequence[str], args: argparse.Namespace
) -> int:
    """Measures the server's side."""
    names = args.only.split(",") if args.only else server.NAMES
    if unknown := set(names) - {*server.NAMES, *server.ON_REQUEST}:
        parser.error(f"no such rows: {', '.join(unknown)}")
    theirs = args.twins or args.stock_only
    built, ours = demo.prepare("stock" if theirs else "ours", "plain")
    client = module.chosen(built, args.client)
    files = {"stock.ko": built.stock_module, "ours.ko": ours}
    setup = Setup(built, client, built.stock_module, link=settings.link(), files=files)
    setup = replace(setup, cpus=args.cpus or 1)
    directory, figures = paths.run_directory("bench"), Figures()
    plan = server.Plan(names, modules, args.rounds, args.seconds, args.nfs)
    server.measure(setup, plan, directory, figures)
    title = f"NFSv{args.nfs} over {settings.link()}, {args.client} client, guests under TCG"
    say(f"measured: {title}" + ", the stock server under both names" * args.twins)
    print(goals.table(figures))
    _write(directory, {"title": title, "arguments": vars(args), "figures": figures.records()})
    return 0


def _write(directory: Path, results: dict[str, object]) -> None:
    (directory / "results.json").write_text(json.dumps(results, indent=1))
    say(f"{', '.join(sorted(_results(directory)))}: {directory}")


def _by_the_clock(
    setup: Setup,
    modules: Sequence[str],
    args: argparse.Namespace,
    directory: Path,
    figures: Figures,
) -> dict[str, float]:
    """Measures all that goes by the clock; returns the bandwidth of raw verbs."""
    with Pair(setup, directory) as pair:
        with step("raw verbs"):
            limits = link.bandwidth(pair)
        by_the_clock(pair, modules, args.rounds or 6, args.seconds, figures)
    return limits


def _recover(
    setup: Setup, modules: Sequence[str], args: argparse.Namespace, directory: Path
) -> int:
    """Measures recovery, whose table shows single values, some of which are `never`."""
    wanted = args.rows.split(","), args.versions.split(",")
    figures = recovery.recovery(setup, modules, args.rounds or 3, *wanted, directory)
    title = f"stalls {_surroundings()}"
    say(f"measured: {title}")
    print(recovery.table(figures))
    results = {"title": title, "arguments": vars(args), "seconds": recovery.records(figures)}
    (directory / "results.json").write_text(json.dumps(results, indent=1))
    say(f"results.json: {directory}")
    return 0


def _report(
    directory: Path,
    title: str,
    args: argparse.Namespace,
    figures: Figures,
    limits: dict[str, float],
) -> None:
    """Prints the table and writes the files in the run's directory."""
    say(f"measured: {title}")
    print(table(figures))
    for name, rate in limits.items():
        print(f"raw verbs, {name} of 1 MiB: {rate:,.0f} KiB/s")
    results = {"title": title, "arguments": vars(args), "figures": figures.records()}
    results["raw_verbs_kib_per_second"] = limits
    (directory / "results.json").write_text(json.dumps(results, indent=1))
    (directory / "ratios.svg").write_text(plot.svg(list(figures), title))
    say(f"{', '.join(sorted(_results(directory)))}: {directory}")


def _surroundings() -> str:
    return f"over {settings.link()}, stock server, guests under TCG"


def _results(directory: Path) -> list[str]:
    """Returns the names of the result files."""
    return [p.name for p in directory.iterdir() if p.suffix in {".json", ".svg", ".txt"}]


def _setup(built: Kernel, ours: Path) -> Setup:
    files = {"stock.ko": built.stock_module, "ours.ko": ours}
    # Figures are comparable under TCG only, so the bench never uses KVM.
    return Setup(built, ours, built.stock_module, link=settings.link(), files=files)
