# SPDX-License-Identifier: GPL-2.0
"""Builds the kernel's Rust crates again, and verifies that they equal those of the image.

Two conditions must hold. `olddefconfig` must leave the configuration unchanged: it records compiler
versions, so the compilers are the same. Every symbol that the crates export must be a symbol that
the image exports: a name contains a hash of crate and compiler, so other code has other names.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from .errors import HeadersError
from .progress import say, step
from .run import logged
from .toolcheck import Tools
from .tree import Tree

_EXPORT = re.compile(r"EXPORT_SYMBOL_RUST_GPL\((\w+)\)")


def build(tree: Tree, tools: Tools, source: Path, objects: Path, log: Path) -> None:
    """Builds the missing files into `objects`, and verifies them.

    # Errors
    `HeadersError`: the configuration changed, the build failed, or symbols differ.
    """
    objects.mkdir()
    for name in (".config", ".kernelvariables"):
        shutil.copy(tree.build / name, objects / name)
    make = ["make", "-C", str(source), f"O={objects}", f"-j{jobs()}"]
    make += [f"RUSTC={tools.rustc}", f"HOSTRUSTC={tools.rustc}", f"BINDGEN={tools.bindgen}"]
    make += [f"RUSTFMT={tools.rustfmt}"]
    with step("configuring"):
        logged([*make, "olddefconfig"], log, "make olddefconfig")
    require_same_config(tree, objects)
    with step("building the kernel's Rust crates"):
        logged([*make, "modules_prepare"], log, "make modules_prepare")
    require_same_exports(tree, objects)


def jobs() -> int:
    """Returns the number of parallel jobs: `JOBS`, or the number of processors."""
    given = os.environ.get("JOBS", "")
    return int(given) if given.isdigit() and int(given) > 0 else os.cpu_count() or 1


def require_same_config(tree: Tree, objects: Path) -> None:
    """Verifies that `olddefconfig` changed nothing.

    # Errors
    `HeadersError` with the first differences.
    """
    before = _options((tree.build / ".config").read_text())
    after = _options((objects / ".config").read_text())
    changed = [
        f"{name}: {before.get(name, 'absent')} -> {after.get(name, 'absent')}"
        for name in sorted({**before, **after})
        if before.get(name) != after.get(name)
    ]
    if changed:
        raise HeadersError(
            f"the tools here are not those that built {tree.release}: {len(changed)} options of"
            " its configuration would change; install the versions that they name",
            "\n".join(changed[:8]),
        )


def _options(text: str) -> dict[str, str]:
    set_to = dict(re.findall(r"^(CONFIG_\w+)=(.*)$", text, re.M))
    unset = dict.fromkeys(re.findall(r"^# (CONFIG_\w+) is not set$", text, re.M), "n")
    return {**unset, **set_to}


def require_same_exports(tree: Tree, objects: Path) -> None:
    """Verifies that the image exports every symbol that the crates export.

    # Errors
    `HeadersError` with the first symbols that the image lacks.
    """
    text = (tree.build / "Module.symvers").read_text()
    image = {line.split("\t")[1] for line in text.splitlines() if "\t" in line}
    headers = sorted((objects / "rust").glob("exports_*_generated.h"))
    ours = {name for header in headers for name in _EXPORT.findall(header.read_text())}
    if not ours:
        raise HeadersError(
            f"the source of {tree.series} exports no Rust symbol: see kernel-range.rst"
        )
    missing = sorted(ours - image)
    if missing:
        raise HeadersError(
            f"{len(missing)} of {len(ours)} Rust symbols built here are not in {tree.release}:"
            " this is another compiler or source; reinstall rustc and the headers",
            "\n".join(missing[:5]),
        )
    say(f"{len(ours)} exported Rust symbols, all of them in {tree.release}")
