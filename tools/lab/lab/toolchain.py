# SPDX-License-Identifier: GPL-2.0
"""Chooses the compilers with the kernel's own check.

A machine may have several rustc; the first one in PATH is often that of rustup without rust-src.
The kernel's `make rustavailable` accepts or rejects each candidate.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from . import paths
from .command import capture
from .errors import LabError

#: The version that the lab installs when Debian's bindgen is too old for the kernel.
BINDGEN_VERSION = "0.73.0"


@dataclass(frozen=True)
class Toolchain:
    """The tools that build one kernel and its modules."""

    llvm: str
    rustc: str
    bindgen: str
    #: The architecture to build for, as Kbuild calls it; empty for that of the environment.
    arch: str = ""

    def make_args(self) -> list[str]:
        """Returns the arguments that make Kbuild use exactly these tools."""
        args = [f"ARCH={self.arch}"] if self.arch else []
        args += [f"LLVM={self.llvm}"] if self.llvm else []
        return [*args, f"RUSTC={self.rustc}", f"BINDGEN={self.bindgen}"]

    def env(self) -> dict[str, str]:
        """Returns the environment for builds, with the directories of these tools first in PATH."""
        path = os.environ.get("PATH", "/usr/bin:/bin")
        return {"PATH": f"{Path(self.rustc).parent}:{Path(self.bindgen).parent}:{path}"}

    def digest(self) -> str:
        """Returns a hash that changes when one of the compilers changes."""
        cc = f"clang{self.llvm}" if self.llvm.startswith("-") else "clang" if self.llvm else "gcc"
        text = [capture([tool, "--version"]) for tool in (cc, self.bindgen)]
        text.append(capture([self.rustc, "-vV"]))
        return hashlib.sha256("\n".join(text).encode()).hexdigest()[:12]


def cached_bindgen() -> Path:
    """Returns the place of the bindgen that the lab itself installs."""
    return paths.cache() / "tools" / f"bindgen-{BINDGEN_VERSION}" / "bin" / "bindgen"


def _candidates(variable: str, program: str, extra: list[Path]) -> list[str]:
    """Returns every installed `program`, the user's choice first, without duplicates."""
    given = shutil.which(os.environ.get(variable) or "")
    found = [given] if given else []
    found += [str(path) for path in extra if path.exists()]
    for directory in [*os.environ.get("PATH", "").split(":"), "/usr/bin"]:
        path = shutil.which(program, path=directory) if directory else None
        if path:
            found.append(path)
    return list(dict.fromkeys(found))


def _accepted(src: Path, tools: Toolchain) -> str:
    """Runs the kernel's own check with one choice; returns its error message, or ''."""
    args = ["make", "-s", "-C", str(src), "O=" + str(paths.sub("tmp")), *tools.make_args()]
    env = {**os.environ, **tools.env()}
    done = subprocess.run([*args, "rustavailable"], env=env, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr.strip()


def choose(src: Path, llvm: str) -> Toolchain:
    """Returns the first rustc and bindgen that `make rustavailable` of `src` accepts.

    The check takes seconds, so a file keeps its result for the same, unchanged candidates.

    # Errors
    `LabError` with the last error message when the kernel accepts no candidate.
    """
    rustcs = _candidates("RUSTC", "rustc", [])
    bindgens = _candidates("BINDGEN", "bindgen", [cached_bindgen()])
    stamps = [(path, Path(path).stat().st_mtime_ns) for path in rustcs + bindgens]
    key = hashlib.sha256(repr((str(src), llvm, stamps)).encode()).hexdigest()[:12]
    note = paths.sub("tmp") / f"toolchain-{key}.json"
    if note.exists():
        return Toolchain(**json.loads(note.read_text()))
    complaint = "no rustc or bindgen found"
    for rustc in rustcs:
        for bindgen in bindgens:
            tools = Toolchain(llvm, rustc, bindgen)
            complaint = _accepted(src, tools)
            if not complaint:
                note.write_text(json.dumps(asdict(tools)))
                return tools
    raise LabError(f"no Rust toolchain fit for the kernel; run tools/lab/bootstrap\n{complaint}")
