# SPDX-License-Identifier: GPL-2.0
"""The commands of ``tools/harness/run``. See Documentation/harness.rst."""

from __future__ import annotations

import argparse
import random
import sys
from concurrent.futures import ThreadPoolExecutor

from lab.errors import LabError
from lab.progress import say

from lab import deps, frames, kernel

from . import build, coverage, figures, fuzzing


def _run(programs: list[build.Program], scenario: str) -> bool:
    """Runs one scenario in each program, and prints its output. Returns whether all passed."""
    good = True
    for program in programs:
        status, text = build.run(program, "run", scenario)
        say(f"{scenario}, {program.name}: {'passed' if not status else 'FAILED'}")
        say(text.rstrip())
        good = good and not status
    return good


def _scenarios(program: build.Program) -> list[str]:
    """Returns the names of the scenarios that the program lists.

    # Errors
    `LabError` when it lists none.
    """
    status, text = build.run(program, "list")
    if status or not text.split():
        raise LabError(f"{program.path} list: {text.strip() or 'no scenario'}")
    return text.split()


def _all_scenarios(program: build.Program) -> bool:
    """Runs all scenarios. Returns whether all passed."""
    failed = 0
    names = _scenarios(program)
    for name in names:
        status, text = build.run(program, "run", name)
        if status:
            failed += 1
            say(f"FAIL {name}: {text.strip().splitlines()[-1]}")
    say(f"scenarios: {len(names) - failed} passed, {failed} failed")
    return not failed


def _all_orders(program: build.Program) -> bool:
    """Runs all orders of events. Returns whether all passed."""
    status, text = build.run(program, "explore")
    say(text.rstrip())
    return not status and bool(text.strip())


def _long_orders(program: build.Program, seconds: int, seed: int) -> bool:
    """Runs the orders of long settings, and orders at random. Returns whether all passed."""
    status, text = build.run(program, "long", str(seed), str(seconds))
    say(text.rstrip())
    return not status and bool(text.strip())


def _check(program: build.Program, seconds: int, seed: int) -> bool:
    """Runs all scenarios, then all orders of events. Returns whether all passed.

    Long settings are omitted if `seconds` is 0.
    """
    good = _all_scenarios(program)
    good = _all_orders(program) and good
    return (not seconds or _long_orders(program, seconds, seed)) and good


def _orders(program: build.Program, args: argparse.Namespace) -> bool:
    """Runs the orders that the command line asks for. Returns whether all passed."""
    if args.command == "long":
        return _long_orders(program, args.seconds, args.seed)
    status, text = build.run(program, args.command, *args.order)
    say(text.rstrip())
    return not status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/harness/run", description=__doc__)
    parser.add_argument("--module", choices=("ours", "stock"), help="run with only this module")
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser(
        "check", help="check frames, run scenarios and orders, compare figures"
    )
    at_random = commands.add_parser("long", help="run orders of long settings, and at random")
    for one, seconds in ((check, 0), (at_random, 600)):
        one.add_argument("--seconds", type=int, default=seconds, help="for orders at random")
        one.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    commands.add_parser("test", help="run scenarios, and orders of events if all pass")
    commands.add_parser("list", help="list the scenarios")
    commands.add_parser("run", help="run one scenario").add_argument("scenario")
    for name in ("explore", "explore-all"):
        commands.add_parser(name, help="run orders of events").add_argument("order", nargs="*")
    fuzz = commands.add_parser("fuzz", help="fuzz the module's object")
    fuzz.add_argument("target", nargs="*", default=list(fuzzing.TARGETS))
    fuzz.add_argument("--seconds", type=int, default=60, help="for each target")
    replay = commands.add_parser("replay", help="repeat an input of the fuzzer")
    replay.add_argument("target", choices=fuzzing.TARGETS)
    replay.add_argument("input", help="a file, or hexadecimal digits")
    cover = commands.add_parser("fuzz-coverage", help="print what the fuzzer has reached")
    cover.add_argument("target", nargs="*", default=list(fuzzing.TARGETS))
    bench = commands.add_parser("bench", help="count instructions by kind of RPC")
    bench.add_argument("--kind", default="", help="measure only kinds that match")
    bench.add_argument("--verbose", action="store_true", help="also print counts by function")
    bench.add_argument("--update", action="store_true", help=f"write {figures.FILE.name}")
    return parser


def _test(program: build.Program) -> bool:
    """Runs all scenarios, and all orders of events if no scenario fails."""
    return _all_scenarios(program) and _all_orders(program)


def _fuzz(args: argparse.Namespace) -> bool:
    """Runs a command of the fuzzer. Returns whether no input has failed."""
    plain = kernel.ensure("plain")
    program = build.build_fuzzer(plain)
    if args.command == "replay":
        return fuzzing.replay(program, args.target, args.input)
    if args.command == "fuzz-coverage":
        return coverage.show(program, build.symbolizer(plain), args.target)
    good = True
    for target in args.target:
        good = fuzzing.fuzz(program, target, f"-max_total_time={args.seconds}") and good
    return good


def main(arguments: list[str]) -> int:
    """Runs one command. Returns the exit status."""
    args = _parser().parse_args(arguments)
    deps.ensure()
    if args.command in ("fuzz", "replay", "fuzz-coverage"):
        return not _fuzz(args)
    plain = kernel.ensure("plain")
    programs = build.build(plain)
    programs = [p for p in programs if args.module in (None, p.name)]
    ours = programs[0]
    if args.command == "list":
        say(build.run(ours, "list")[1].rstrip())
        return 0
    if args.command in ("test", "run"):
        good = _run(programs, args.scenario) if args.command == "run" else _test(ours)
        return not good
    if args.command in ("explore", "explore-all", "long"):
        return not _orders(ours, args)
    if args.command == "bench":
        if args.update and args.kind:
            raise LabError("figures are written for all kinds at once")
        found = figures.table(programs, args.kind, verbose=args.verbose)
        if args.update:
            figures.write(found.figures, ours.compiler)
        return 0
    # Both take a minute or more, on one processor each.
    with ThreadPoolExecutor(max_workers=1) as pool:
        checked = pool.submit(_check, ours, args.seconds, args.seed)
        found = figures.table(programs, "")
        good = checked.result()
    good = fuzzing.smoke(build.build_fuzzer(plain)) and good
    good = frames.check(frames.of(ours.module)) and good
    return not (figures.check(ours.compiler, found) and good)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LabError as error:
        sys.exit(f"harness: {error}")
