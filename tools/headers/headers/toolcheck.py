# SPDX-License-Identifier: GPL-2.0
"""Compares the tools on this machine with those that built the kernel.

All tools are checked before the download, and all faults are reported together.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import HeadersError
from .run import output, search_path
from .tree import Tree

#: Pairs of program and Debian package. dpkg-deb, tar and apt-get are part of every Debian.
_PROGRAMS = (
    ("make", "make"),
    ("xz", "xz-utils"),
    ("gcc", "gcc"),
)
_C_HEADERS = (("stdio.h", "libc6-dev"),)
_CORE = "lib/rustlib/src/rust/library/core/src/lib.rs"


@dataclass(frozen=True)
class Tools:
    """The programs that make gets as variables."""

    rustc: str
    bindgen: str
    rustfmt: str


@dataclass(frozen=True)
class Fault:
    """A fault. `package` corrects it when installed; it is empty if no package does."""

    text: str
    package: str = ""


def candidates(name: str) -> Iterator[str]:
    """Yields the user's choice (`RUSTC=` …), or else every program of that name in PATH."""
    given = os.environ.get(name.upper())
    if given:
        yield given
        return
    for directory in search_path().split(":"):
        path = Path(directory) / name
        if os.access(path, os.X_OK) and path.is_file():
            yield str(path)


def _version(program: str) -> str:
    """Returns the first line of `--version`, which Kconfig records."""
    lines = (output([program, "--version"]) or "").splitlines()
    return lines[0].strip() if lines else ""


def _pick(name: str, wanted: str, package: str, faults: list[Fault]) -> str:
    """Returns the first program of version `wanted`. Adds a fault if there is none."""
    seen = ""
    for path in candidates(name):
        text = _version(path)
        if text == wanted:
            return path
        seen = seen or (f"{path} is '{text}'" if text else f"{path} does not run")
    if seen:
        faults.append(
            Fault(
                f"{seen}, this kernel was built with '{wanted}':"
                f" install that version of {package}, or set {name.upper()}= to it"
            )
        )
    else:
        faults.append(Fault(f"no {name}, this kernel was built with '{wanted}'", package))
    return name


def check(tree: Tree) -> Tools:
    """Returns the tools that built this kernel.

    # Errors
    `HeadersError` with one line for each fault.
    """
    config, faults = tree.config, list[Fault]()
    rustc = _pick("rustc", config.get("CONFIG_RUSTC_VERSION_TEXT", ""), "rustc", faults)
    faults += _llvm(rustc, config.get("CONFIG_RUSTC_LLVM_VERSION", ""))
    bindgen = _pick("bindgen", config.get("CONFIG_BINDGEN_VERSION_TEXT", ""), "bindgen", faults)
    sysroot = (output([rustc, "--print", "sysroot"]) or "").strip()
    if sysroot and not (Path(sysroot) / _CORE).is_file():
        faults.append(Fault(f"{rustc} has no library sources", "rust-src"))
    rustfmt = next((path for path in candidates("rustfmt") if _version(path)), "")
    if not rustfmt:
        # Without rustfmt bindgen writes one long line, which the kernel's build cannot search.
        faults.append(Fault("no rustfmt", "rustfmt"))
    faults += _compiler(tree.compiler, config.get("CONFIG_CC_VERSION_TEXT", ""))
    faults += [
        Fault(f"no {program}", package)
        for program, package in _PROGRAMS
        if not shutil.which(program, path=search_path())
    ]
    faults += [
        Fault(f"no C header {header}", package)
        for header, package in _C_HEADERS
        if not _has_header(header)
    ]
    if faults:
        raise report(tree.release, faults)
    return Tools(rustc, bindgen, rustfmt)


def _llvm(rustc: str, wanted: str) -> list[Fault]:
    """Checks the LLVM of rustc; the configuration has its version as one number, as 190107."""
    text = output([rustc, "-vV"]) or ""
    found = next((line.split()[-1] for line in text.splitlines() if line.startswith("LLVM ")), "")
    parts = [int(part) for part in found.split(".") if part.isdigit()]
    number = "".join(f"{part:02d}" for part in parts).lstrip("0")
    if not found or not wanted or number == wanted:
        return []
    named = ".".join(str(int(wanted) // unit % 100) for unit in (10000, 100, 1))
    return [Fault(f"{rustc} has LLVM {found}, this kernel was built with LLVM {named}")]


def _compiler(name: str, wanted: str) -> list[Fault]:
    """Checks the C compiler, which determines parts of the configuration."""
    if not shutil.which(name, path=search_path()):
        package = name.rpartition("-gnu-")[2]
        return [Fault(f"no C compiler {name}, which built this kernel", package)]
    text = _version(name)
    if wanted and text != wanted:
        return [
            Fault(
                f"{name} is '{text}', this kernel was built with '{wanted}':"
                " install that version of it, or a newer kernel"
            )
        ]
    return []


def _has_header(header: str) -> bool:
    include = Path("/usr/include")
    return (include / header).exists() or any(include.glob(f"*-linux-gnu/{header}"))


def report(release: str, faults: list[Fault]) -> HeadersError:
    """Returns all faults as one error: a line for each, and one command to install packages."""
    lines = [fault.text for fault in faults]
    packages = dict.fromkeys(fault.package for fault in faults if fault.package)
    if packages:
        lines.append("to install: apt-get install --no-install-recommends " + " ".join(packages))
    if len(lines) == 1:
        return HeadersError(lines[0])
    count = len(faults)
    head = f"{count} thing{'s' if count > 1 else ''} missing to prepare the headers of {release}:"
    return HeadersError(head, "\n".join(lines))
