#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Builds the module with clippy in place of the compiler, and fails on any warning.

Usage: KDIR=tree RUSTC=... BINDGEN=... LLVM=... clippy.py

The module is built as users build it, beside the samples. Then clippy reads the forms with tests
and without RFC 5666: an item that only one form uses is dead code in the others. Kbuild does not
turn warnings into errors, so this script reads them from its output, those of the C compiler and of
modpost as well. The builds run in a copy of the tree in the user's cache, and leave the work tree
unchanged. Without a KDIR that has CONFIG_RUST, the script uses the lab's plain kernel, and builds
it if it is missing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from checks.tree import Tree

ROOT = Path(__file__).resolve().parents[2]

# Debian builds its kernels with the oldest compiler that they support (msrv in the kernel's
# .clippy.toml). So the sources must compile with it, and the lint incompatible_msrv, which the
# kernel leaves out, is on.
LINTS = "-Wclippy::incompatible_msrv"
WHOLE = [f"KRUSTFLAGS={LINTS}", "modules"]
# Without FULL=1, only the first build is linked. No lint depends on how code is optimised, which
# takes half of the time.
FULL = os.environ.get("FULL", "0") not in ("", "0")
CRATE = WHOLE if FULL else [f"KRUSTFLAGS={LINTS} -Copt-level=0", "rust/rpcrdma.o"]

# What make is called with, by the name of the build.
BUILDS = {
    "as users build it, and the samples": ["SAMPLES=y", *WHOLE],
    "with tests": ["RPCRDMA_KUNIT=y", *CRATE],
    "without RFC 5666": ["RPCRDMA_LEGACY=n", *CRATE],
    "without RFC 5666, with tests": ["RPCRDMA_LEGACY=n", "RPCRDMA_KUNIT=y", *CRATE],
}

_RUST = re.compile(
    r"^(?P<what>(?:warning|error)[^\n]*)\n\s*--> (?P<place>(?!\S*(?:generated|closure)\.rs)\S+)",
    re.MULTILINE,
)
# The paths of the kernel's own headers are absolute.
_C = re.compile(r"^(?P<place>(?!/)\S+\.[ch]:\d+:\d+): (?P<what>(?:warning|error).*)", re.MULTILINE)
_MODPOST = re.compile(r"^(?P<what>(?:WARNING|ERROR): (?P<place>modpost): .*)", re.MULTILINE)


@dataclass(frozen=True)
class Build:
    """A kernel tree and the tools for it."""

    kdir: Path
    arguments: list[str]
    path: str


def _given() -> Build | None:
    """Returns the tree and tools that the environment names, or None without CONFIG_RUST."""
    kdir = Path(os.environ.get("KDIR", ""))
    config = kdir / ".config"
    if not config.is_file() or "CONFIG_RUST=y" not in config.read_text().splitlines():
        return None
    names = ("LLVM", "RUSTC", "BINDGEN")
    arguments = [f"{name}={os.environ[name]}" for name in names if os.environ.get(name)]
    return Build(kdir.resolve(), arguments, os.environ["PATH"])


def _from_lab() -> Build:
    sys.path.insert(0, str(ROOT / "tools/lab"))
    from lab import kernel  # noqa: PLC0415 - only this function uses the lab

    built = kernel.ensure("plain")
    return Build(built.obj, built.tools.make_args(), built.tools.env()["PATH"])


def _driver(build: Build) -> str:
    """Returns the clippy-driver of the compiler's own build; no other loads its crates."""
    rustc = next((a[6:] for a in build.arguments if a.startswith("RUSTC=")), "rustc")
    found = shutil.which(rustc, path=build.path) or rustc
    return os.environ.get("CLIPPY_DRIVER") or str(Path(found).parent / "clippy-driver")


def _copy(source: Path, target: Path) -> None:
    """Updates the copy. Files that have not changed keep their times."""
    files = Tree(source).files
    for name in files:
        old, new = target / name, source / name
        if not old.exists() or old.read_bytes() != new.read_bytes():
            old.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(new, old)
    for stale in target.glob("rust/**/*.rs"):
        name = str(stale.relative_to(target))
        if name not in files and not name.startswith("rust/raw/"):
            stale.unlink()


def warnings(output: str) -> list[str]:
    """Returns the warnings and errors in our files, each once, with its place."""
    matches = [m for kind in (_RUST, _C, _MODPOST) for m in kind.finditer(output)]
    return sorted({f"{m['place']}: {m['what']}" for m in matches})


def check(name: str, command: list[str], environment: dict[str, str]) -> bool:
    """Runs a build and prints its warnings. Returns whether it has ended without any."""
    done = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    found = warnings(done.stdout)
    passed = not found and done.returncode == 0
    print(f"{'ok  ' if passed else 'FAIL'} {name}")
    for line in found:
        print(f"    {line}")
    if done.returncode and not found:
        print("\n".join(done.stdout.splitlines()[-20:]))
    return passed


def main() -> int:
    """Builds the module in each way. Returns the exit status."""
    build = _given() or _from_lab()
    driver = _driver(build)
    if not shutil.which(driver):
        print(
            f"no {driver}: install rust-clippy (Debian 12: rust-web-clippy), or set CLIPPY_DRIVER="
        )
        return 1
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    copy = cache / "rpcrdma-lab/module" / f"{build.kdir.name}-clippy"
    _copy(ROOT, copy)
    # Without its objects the module is compiled again, and the compilers repeat their warnings.
    for stale in copy.glob("**/*.o"):
        stale.unlink()
    command = ["make", "-C", str(build.kdir), f"M={copy}", *build.arguments]
    command += ["CLIPPY=1", f"CLIPPY_DRIVER={driver}"]
    environment = {**os.environ, "PATH": build.path, "MAKEFLAGS": "", "MAKELEVEL": "0"}
    environment.pop("RPCRDMA_LEGACY", None)
    passed = [check(name, [*command, *options], environment) for name, options in BUILDS.items()]
    print(f"clippy: {passed.count(True)} passed, {passed.count(False)} failed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
