#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Puts faults into server, client, conn, rdma and sunrpc, and checks that a test detects each.

Usage: ROOMS="server client" [MUTANTS=REGEX] rooms.py

faults.toml has the faults (see faults.py). Each is put into a copy of the tree in the lab's cache,
alone. The copy is compiled and tested, by the cheapest suite first: the harness, the KUnit suites,
and the scenarios that the entry names. The first suite that fails has noticed the fault. It must be
the one that the entry expects: another one may have failed for a reason of its own, and then the
expected one has not run. A suite that does not end has shown nothing either. All suites that may be
needed run without a fault first, because a test that fails anyway shows nothing. A fault that does
not compile must be replaced: the compiler detects it.

Exit status 0: the expected suite notices each fault.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import faults
from faults import Fault, ListError, Scenario

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).resolve().parent / "faults.toml"
#: Variables that change what a scenario is. Each entry of the list has its own.
SETTINGS = ("ONLY", "FULL", "CLIENT", "SERVER", "LINK", "DMA", "KERNEL", "KEEP", "GDB", "LIST")
SETTINGS += ("ACCEL", "PROFILE")
#: A suite that takes this many seconds does not end.
LIMIT = 1800
#: The lines of suites about a failure: behind a time, or the last line of a program.
FAILURE = re.compile(
    r"^(?:\[ *[\d.]+s\] )?((?:FAIL |violation: |hang: |leak: |E  |FAILED ).*)"
    r"|^((?:harness|lab): .*)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Failure:
    """A suite that failed: its words about the failure, and whether it came to its end."""

    said: str
    ended: bool = True


@dataclass(frozen=True)
class Suite:
    """Some tests that are run by one command."""

    name: str
    command: tuple[str, ...]
    settings: tuple[tuple[str, str], ...] = ()

    def run(self, tree: Path) -> Failure | None:
        """Runs the tests of a tree. Returns `None` if all pass."""
        env = {k: v for k, v in os.environ.items() if k not in SETTINGS and "MAKE" not in k}
        env |= dict(self.settings)
        command = [str(tree / self.command[0]), *self.command[1:]]
        try:
            done = subprocess.run(
                command,
                cwd=tree,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=LIMIT,
            )
        except subprocess.TimeoutExpired:
            return Failure(f"not done after {LIMIT} s", ended=False)
        if not done.returncode:
            return None
        said = FAILURE.search(done.stdout)
        return Failure((said[1] or said[2]).strip() if said else f"status {done.returncode}")


#: Compiles the module and the harness, and lists the scenarios of the harness.
COMPILE = Suite("compiler", ("tools/harness/run", "list"))
HARNESS = Suite("harness", ("tools/harness/run", "test"))


def scenario(of: Scenario) -> Suite:
    """Returns a scenario of the lab as a suite."""
    command = ("tools/lab/python", "-m", "lab", "check")
    return Suite(str(of), command, (("ONLY", of.name), *of.settings))


def suites(fault: Fault) -> Iterator[Suite]:
    """Returns the suites that may notice a fault, the cheapest first."""
    yield HARNESS
    yield scenario(Scenario("kunit", ()))
    yield from map(scenario, fault.scenarios)


def copy(tree: Path) -> None:
    """Makes a copy of the tree as it is without a fault. Files that are equal keep their times."""
    tree.mkdir(parents=True, exist_ok=True)
    options = ["-a", "--checksum", "--no-times", "--delete", "--exclude=/.git"]
    filters = ["--filter=:- .gitignore"]
    subprocess.run(["rsync", *options, *filters, f"{ROOT}/", f"{tree}/"], check=True)


def say(text: str) -> None:
    """Prints a line at once."""
    print(text, flush=True)


def control(tree: Path, chosen: list[Fault]) -> None:
    """Runs the suites without a fault, up to the dearest one that a fault is expected to need.

    # Errors
    `ListError` if one fails.
    """
    copy(tree)
    needed: dict[str, Suite] = {}
    for fault in chosen:
        for suite in suites(fault):
            needed[suite.name] = suite
            if suite.name.split()[0] == fault.notices:
                break
    for suite in needed.values():
        began = time.monotonic()
        failure = suite.run(tree)
        say(f"  CONTROL {suite.name}, {time.monotonic() - began:.0f} s")
        if failure:
            raise ListError(f"{suite.name} fails without a fault: {failure.said}")


def check(tree: Path, fault: Fault) -> bool:
    """Tries one fault, and prints which suite has noticed it. Returns whether that one had to."""
    began = time.monotonic()
    copy(tree)
    fault.apply(tree)
    passed = []
    for suite in (COMPILE, *suites(fault)):
        failure = suite.run(tree)
        if failure:
            break
        passed.append(suite.name)
    good, verdict = False, f"NOTHING ({', '.join(passed[1:])})"
    if failure:
        good, verdict = judge(fault, suite, failure)
    say(f"  FAULT   {fault.name}: {verdict}, {time.monotonic() - began:.0f} s")
    if failure:
        say(f"            {failure.said[:160]}")
    return good


def judge(fault: Fault, suite: Suite, failure: Failure) -> tuple[bool, str]:
    """Returns whether the first suite that has failed is a proof, and its name with a reason."""
    if suite is COMPILE:
        return False, "the compiler, so replace it"
    if not failure.ended:
        return False, f"{suite.name} DID NOT END"
    if suite.name.split()[0] != fault.notices:
        return False, f"{suite.name} (EXPECTED: {fault.notices})"
    return True, suite.name


def cache() -> Path:
    """Returns the place of the copy, in the lab's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rpcrdma-lab/mutants/tree"


def main() -> int:
    """Tries the faults of the chosen rooms. Returns the exit status."""
    try:
        rooms = os.environ.get("ROOMS", "").split() or list(faults.ROOMS)
        every = faults.read(LIST.read_text())
        chosen = faults.select(every, rooms, os.environ.get("MUTANTS", ""))
        for fault in chosen:
            fault.changed((ROOT / "rust" / fault.file).read_text())
        tree = cache()
        control(tree, chosen)
        outcomes = [check(tree, fault) for fault in chosen]
    except (ListError, OSError) as error:
        say(f"mutants: {error}")
        return 1
    say(f"faults: {outcomes.count(True)} passed, {outcomes.count(False)} failed")
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
