# SPDX-License-Identifier: GPL-2.0
"""Choosing the compilers: the kernel's own check decides, not a version list.

A machine may have several rustc; the first in PATH is often rustup's without
rust-src. Each candidate is put to the kernel's `make rustavailable`.
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

#: What is installed when Debian's own bindgen is older than the kernel wants.
BINDGEN_VERSION = "0.73.0"


@dataclass(frozen=True)
class Toolchain:
    """The tools one kernel and its modules are built with."""

    llvm: str
    rustc: str
    bindgen: str

    def make_args(self) -> list[str]:
        """Arguments that make Kbuild use exactly these tools."""
        args = [f"LLVM={self.llvm}"] if self.llvm else []
        return [*args, f"RUSTC={self.rustc}", f"BINDGEN={self.bindgen}"]

    def env(self) -> dict[str, str]:
        """Environment for builds: rustfmt and friends from rustc's own directory first."""
        path = os.environ.get("PATH", "/usr/bin:/bin")
        return {"PATH": f"{Path(self.rustc).parent}:{Path(self.bindgen).parent}:{path}"}

    def digest(self) -> str:
        """A hash that changes when any of the compilers does."""
        cc = f"clang{self.llvm}" if self.llvm.startswith("-") else "clang" if self.llvm else "gcc"
        text = [capture([tool, "--version"]) for tool in (cc, self.bindgen)]
        text.append(capture([self.rustc, "-vV"]))
        return hashlib.sha256("\n".join(text).encode()).hexdigest()[:12]


def cached_bindgen() -> Path:
    """Where the bindgen that the lab itself installs is kept."""
    return paths.cache() / "tools" / f"bindgen-{BINDGEN_VERSION}" / "bin" / "bindgen"


def _candidates(variable: str, program: str, extra: list[Path]) -> list[str]:
    """Every `program` worth trying, the user's choice first, without duplicates."""
    given = shutil.which(os.environ.get(variable) or "")
    found = [given] if given else []
    found += [str(path) for path in extra if path.exists()]
    for directory in [*os.environ.get("PATH", "").split(":"), "/usr/bin"]:
        path = shutil.which(program, path=directory) if directory else None
        if path:
            found.append(path)
    return list(dict.fromkeys(found))


def _accepted(src: Path, tools: Toolchain) -> str:
    """Put one choice to the kernel's own check; return its complaint or ''."""
    args = ["make", "-s", "-C", str(src), "O=" + str(paths.sub("tmp")), *tools.make_args()]
    env = {**os.environ, **tools.env()}
    done = subprocess.run([*args, "rustavailable"], env=env, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr.strip()


def choose(src: Path, llvm: str) -> Toolchain:
    """The first rustc and bindgen that `make rustavailable` of `src` accepts.

    The verdict is remembered for the same candidates, unchanged on disk: the
    kernel's check takes seconds.

    # Errors
    `LabError` with the kernel's last complaint when none will do.
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
