# SPDX-License-Identifier: GPL-2.0
"""Builds the kernel's Rust crates again, and verifies that they equal those of the image.

The header packages have most of the source, and all that the kernel's build has generated. Links to
both complete the files that `source` has obtained. `toolcheck` has found the compilers that the
configuration records. Every symbol that the crates export must be a symbol that the image exports:
a name contains a hash of crate and compiler, so other code has other names.
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


#: A target for the kernel's Makefile: the crates, without all else that they are prepared with in
#: a whole source. That is in the headers already. On other machines rustc has the kernel's target.
_TARGET = """
ifneq ($(need-sub-make),1)
.PHONY: rust-crates
rust-crates:
ifneq ($(or $(CONFIG_X86_64),$(CONFIG_X86_32)),)
	$(Q)$(MAKE) $(build)=scripts scripts/target.json
endif
	$(Q)$(MAKE) $(build)=rust
endif
"""


def build(tree: Tree, tools: Tools, source: Path, objects: Path, log: Path) -> None:
    """Builds the missing files into `objects`, and verifies them.

    `source` has the files that no header package has; this adds links to the others.

    # Errors
    `HeadersError`: the build failed, or symbols differ.
    """
    assemble_source(tree, source)
    assemble_objects(tree, objects)
    # A link to the file of an earlier run would dangle when that run's files are removed.
    for folder in (source, objects):
        (folder / "scripts/target.json").unlink(missing_ok=True)
    make = ["make", "-C", str(source), f"O={objects}", f"-j{jobs()}"]
    make += [f"RUSTC={tools.rustc}", f"HOSTRUSTC={tools.rustc}", f"BINDGEN={tools.bindgen}"]
    make += [f"RUSTFMT={tools.rustfmt}"]
    with step("building the kernel's Rust crates"):
        logged([*make, "rust-crates"], log, "make rust-crates")
    require_same_exports(tree, objects)


def assemble_source(tree: Tree, source: Path) -> None:
    """Completes a source tree with links to the headers.

    C code of the crates includes headers of drivers relative to `include/uapi`, so this folder is
    none that a link leads out of.
    """
    for name in ("arch", "tools", "include/uapi"):
        _link(tree.source / name, source / name)
    _link(tree.scripts, source / "scripts")
    _link(tree.source / "include", source / "include")
    text = (tree.source / "Makefile").read_text()
    (source / "Makefile").write_text(text + _TARGET)


def assemble_objects(tree: Tree, objects: Path) -> None:
    """Creates an object tree with the results of the kernel's build that the headers have."""
    config = objects / "include/config"
    config.mkdir(parents=True)
    # The configuration must be older than what was made from it, or make would make that again.
    for name in (".config", ".kernelvariables"):
        shutil.copy2(tree.build / name, objects / name)
    for path in (tree.build / "include/config").glob("[a-z]*.*"):
        shutil.copy(path, config / path.name)
    (config / "auto.conf.cmd").touch()
    for name in ("arch", "tools", "include"):
        _link(tree.build / name, objects / name)
    _link(tree.scripts, objects / "scripts")


def _link(original: Path, folder: Path) -> None:
    """Fills `folder` with links to all that `original` has and `folder` lacks."""
    folder.mkdir(parents=True, exist_ok=True)
    if original.is_dir():
        for path in original.iterdir():
            if not (folder / path.name).exists():
                (folder / path.name).symlink_to(path.resolve())


def jobs() -> int:
    """Returns the number of parallel jobs: `JOBS`, or the number of processors."""
    given = os.environ.get("JOBS", "")
    return int(given) if given.isdigit() and int(given) > 0 else os.cpu_count() or 1


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
