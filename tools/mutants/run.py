#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Changes wire and proto in small ways, and checks that the tests detect each change.

Usage: CARGO=cargo JOBS=n [FILES="wire/lists.rs proto/session"] [MUTANTS=REGEX] run.py

cargo-mutants makes the changes (mutants) in a copy of the rooms, compiles each, and runs the tables
of cases and golden bytes that the KUnit suites also run. A mutant that no table catches is a fault,
unless equivalents.tsv lists it (see compare.py). The tables themselves, cases and vectors, are the
only sources that are not changed. FILES= restricts a run to files and folders of rust/, MUTANTS= to
mutants whose names match.

Exit status 0: every mutant that was run is caught or listed, and the list has no other line.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import compare

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).resolve().parent / "equivalents.tsv"
# The names and the number of mutants depend on the version.
VERSION = "27.1.0"
ROOMS = ("wire", "proto")
# The rooms' tests are not changed.
TESTS = ("**/cases.rs", "**/cases/**", "**/vectors.rs", "**/vectors/**")
# The tables take some milliseconds. A mutant that needs this many seconds does not end.
TIMEOUT = 60
# The number of mutants between two lines of progress.
STEP = 25

MANIFEST = """[package]
name = "mutants"
version = "0.0.0"
edition = "2021"

[profile.dev]
debug = 0
"""

LIBRARY = """#![no_std]
#![allow(warnings)]
mod tree {
    pub mod proto;
    pub mod wire;
}
pub use tree::{proto, wire};

#[cfg(test)]
mod tests {
    #[test]
    fn vectors() {
        assert_eq!(crate::wire::vectors::check_all(), Ok(()));
    }
    #[test]
    fn cases() {
        assert_eq!(crate::proto::cases::check_all(), Ok(()));
    }
}
"""


class MutantsError(Exception):
    """Something other than a mutant has failed."""


def environment() -> dict[str, str]:
    """Returns the environment of cargo. The kernel's compiler may be older than cargo's own."""
    return {name: value for name, value in os.environ.items() if name != "RUSTC"}


def tool() -> Path:
    """Returns cargo-mutants of the right version. Installs it into the cache if it is missing."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    root = cache / "rpcrdma-lab/tools" / f"cargo-mutants-{VERSION}"
    program = root / "bin/cargo-mutants"
    if not program.exists():
        print(f"  INSTALL cargo-mutants {VERSION}", flush=True)
        command = [os.environ.get("CARGO") or "cargo", "install", "--locked", "--quiet"]
        command += ["cargo-mutants", "--version", VERSION, "--root", str(root)]
        if subprocess.run(command, env=environment()).returncode:
            raise MutantsError("cargo-mutants, which needs cargo 1.88 (CARGO=), is not installed")
    return program


def make_crate(crate: Path) -> None:
    """Writes the crate: a copy of the rooms, and one test for each room's tables."""
    for room in ROOMS:
        shutil.copytree(ROOT / "rust" / room, crate / compare.TREE / room)
        shutil.copy(ROOT / "rust" / f"{room}.rs", crate / compare.TREE)
    shutil.copy(ROOT / "tools/host/build.rs", crate)
    (crate / "Cargo.toml").write_text(MANIFEST)
    (crate / "src/lib.rs").write_text(LIBRARY)


def chosen(files: str) -> list[str]:
    """Returns the options for the files and folders of FILES=."""
    options = []
    for name in files.split():
        path = compare.TREE + name.removeprefix("rust/").rstrip("/")
        if not path.endswith(".rs"):
            options += ["-f", f"{path}/**"]
            path += ".rs"
        options += ["-f", path]
    return options


def select(program: Path, crate: Path, options: list[str]) -> list[compare.Mutant]:
    """Returns the mutants that these options select."""
    command = [program, "mutants", "--list", "--json", "-d", crate, *options]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise MutantsError("cargo-mutants cannot list the mutants")
    listed = json.loads(done.stdout)
    sources = {entry["file"]: (crate / entry["file"]).read_text() for entry in listed}
    return compare.mutants(listed, sources)


def run(program: Path, crate: Path, options: list[str], count: int) -> None:
    """Runs the mutants, and prints how far it is and which ones are missed."""
    command = [
        program,
        "mutants",
        "-d",
        crate,
        "-o",
        crate.parent,
        "-j",
        os.environ.get("JOBS") or "1",
    ]
    command += ["--no-shuffle", "--timeout", str(TIMEOUT), "--colors", "never", "-v", "-V"]
    command += [*options, "--", "--lib"]
    began = time.monotonic()
    with subprocess.Popen(
        list(map(str, command)),
        env={**environment(), "RUST_BACKTRACE": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        finished = 0
        for line in process.stdout or ():
            outcome = line.split(maxsplit=1)[0] if line.strip() else ""
            if outcome not in {"caught", "unviable"}:
                print(f"    {line.rstrip()}", flush=True)
            finished += outcome in {"caught", "unviable", "MISSED", "TIMEOUT"}
            if outcome and finished % STEP == 0 and finished:
                minutes = round((time.monotonic() - began) / 60)
                print(f"  MUTANTS {finished} of {count}, {minutes} min", flush=True)
    # 2: some were missed; 3: some did not end.
    if process.returncode not in {0, 2, 3}:
        raise MutantsError(f"cargo-mutants has failed with status {process.returncode}")


def outcomes(crate: Path, *names: str) -> set[str]:
    """Returns the names of the mutants with these outcomes."""
    found: set[str] = set()
    for name in names:
        found |= set((crate.parent / "mutants.out" / f"{name}.txt").read_text().splitlines())
    return found


def check(crate: Path) -> bool:
    """Runs the chosen mutants and judges them. Returns whether all is well."""
    allowed = compare.equivalents(LIST.read_text())
    program = tool()
    make_crate(crate)
    tests = [option for glob in TESTS for option in ("-e", glob)]
    options = tests + chosen(os.environ.get("FILES", ""))
    if regex := os.environ.get("MUTANTS"):
        options += ["--re", regex]
    every = select(program, crate, tests)
    some = select(program, crate, options)
    if not some:
        raise MutantsError("no mutant is chosen")
    run(program, crate, options, len(some))
    missed = outcomes(crate, "missed")
    # A mutant that does not end would have failed its test.
    caught = outcomes(crate, "caught", "timeout")
    unviable = outcomes(crate, "unviable")
    if len(missed | caught | unviable) != len(some):
        raise MutantsError("cargo-mutants has not run every mutant")
    verdict = compare.compare(every, caught, missed, set(allowed))
    for line in compare.report(verdict, "rust"):
        print(f"    {line}")
    listed = len(missed) - len(verdict.survivors)
    print(
        f"mutants: {len(some)} of {len(every)} run: {len(caught)} caught, {len(unviable)} do not "
        f"compile, {listed} equivalent, {len(verdict.survivors)} survive"
    )
    return verdict.passed


def main() -> int:
    """Runs cargo-mutants on a generated crate. Returns the exit status."""
    try:
        with tempfile.TemporaryDirectory(prefix="rpcrdma-mutants-") as folder:
            return 0 if check(Path(folder) / "crate") else 1
    except (MutantsError, compare.ListError) as error:
        print(f"mutants: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
