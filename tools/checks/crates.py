#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Checks that the oldest supported compiler builds every crate that a Cargo.lock pins.

Usage: CARGO=cargo crates.py

That compiler is `rust-version` in tools/host/Cargo.toml, and every other workspace names the same.
A new cargo builds newer crates as well, so a machine that has one does not show them. The
resolver that each Cargo.toml asks for prefers crates that `rust-version` builds, when they are
updated.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIRST = "tools/host"
#: The compiler of the machine's own release, which the lab installs.
RUSTC = "/usr/bin/rustc"


def numbers(version: str) -> tuple[int, ...]:
    """Returns the three numbers of a version of Rust, for comparisons."""
    found = [int(number) for number in re.findall(r"\d+", version)[:3]]
    return (*found, *[0] * (3 - len(found)))


def metadata(workspace: Path) -> dict:
    """Returns what cargo says about a workspace and the crates that Linux builds of it.

    # Errors
    `CalledProcessError`, with cargo's message on standard error.
    """
    cargo = [os.environ.get("CARGO") or "cargo"]
    environment = {name: value for name, value in os.environ.items() if name != "RUSTC"}
    options = ["--locked", "--quiet", "--format-version", "1"]
    options += ["--filter-platform", "x86_64-unknown-linux-gnu"]
    done = subprocess.run(
        [*cargo, "metadata", *options],
        cwd=workspace,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def findings(found: dict, oldest: str) -> list[str]:
    """Returns the faults of a workspace: another `rust-version`, and crates that need a newer."""
    own = found["resolve"]["root"]
    faults = []
    for crate in found["packages"]:
        needs = crate["rust_version"]
        if crate["id"] == own and needs != oldest:
            faults.append(f"rust-version is {needs}, but {oldest} in {FIRST}")
        elif needs and numbers(needs) > numbers(oldest):
            name = f"{crate['name']} {crate['version']}"
            faults.append(f"{name} needs rustc {needs}, and {oldest} is to build it")
    return faults


def too_old(oldest: str, rustc: str) -> str:
    """Returns the fault if a compiler, by its own words, is older than `rust-version`."""
    version = rustc.split()[1]
    if numbers(version) >= numbers(oldest):
        return ""
    return f"rust-version is {oldest}, but this release of Debian has rustc {version}"


def check(root: Path, folder: str, oldest: str) -> list[str]:
    """Returns the faults of a workspace, or that cargo cannot read it."""
    try:
        return findings(metadata(root / folder), oldest)
    except (OSError, subprocess.CalledProcessError) as error:
        return [str(error)]


def main() -> int:
    """Checks every workspace. Returns the exit status."""
    folders = sorted(str(path.parent.relative_to(ROOT)) for path in ROOT.glob("tools/*/Cargo.toml"))
    text = (ROOT / FIRST / "Cargo.toml").read_text()
    oldest = re.search(r'^rust-version = "(.*)"$', text, re.MULTILINE)[1]
    failed = 0
    for folder in folders:
        faults = check(ROOT, folder, oldest)
        if folder == FIRST and Path(RUSTC).exists():
            said = subprocess.run([RUSTC, "--version"], stdout=subprocess.PIPE, text=True).stdout
            faults += filter(None, [too_old(oldest, said)])
        failed += bool(faults)
        for fault in faults:
            print(f"{folder}/Cargo.lock: {fault}")
    print(f"crates: {len(folders) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
