# SPDX-License-Identifier: GPL-2.0
"""Installs the results into the header tree, and removes them.

The record, a JSON file in the tree, lists the installed files. It is written before the first file.
Files get temporary names first, and are renamed at the end. So after any interruption the next run
finds in the record all files that it must remove. A file is on the disk before it is renamed, so a
power failure leaves no file cut short under its own name.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .errors import HeadersError, no_room
from .progress import say
from .tree import Tree

RECORD = ".rust-headers.json"
#: The number of bytes that the installed files need.
ROOM_TO_INSTALL = 200 << 20
_NEW = ".rust-headers-new"

#: Built files for the flavour's own tree: crates, macros, generated code.
_BUILT = (
    "rust/*.rmeta",
    "rust/*.so",
    "rust/kernel/generated_*.rs",
    "rust/bindings/bindings_generated.rs",
)
#: Source files that module builds with their own bindings read.
_SOURCES = ("rust/Makefile", "rust/bindgen_parameters")
_SCRIPTS = ("min-tool-version.sh", "rust_is_available_bindgen_libclang.h")


@dataclass(frozen=True)
class Record:
    """The files that were installed into a tree, and their origin."""

    complete: bool
    version: str
    rustc: str
    files: dict[str, str]

    @staticmethod
    def load(build: Path) -> Record | None:
        """Returns the record of a tree, or None. An unreadable record counts as incomplete."""
        path = build / RECORD
        try:
            fields = json.loads(path.read_text())
            return Record(**fields)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            return Record(False, "", "", {})

    def store(self, build: Path) -> None:
        """Writes the record atomically."""
        temporary = build / (RECORD + _NEW)
        with temporary.open("w") as file:
            json.dump(self.__dict__, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(build / RECORD)


def is_prepared(tree: Tree) -> bool:
    """Returns whether all files of an earlier run exist, unchanged and of this version."""
    record = Record.load(tree.build)
    if not record or not record.complete or record.version != tree.version:
        return False
    rustc = tree.config.get("CONFIG_RUSTC_VERSION_TEXT", "")
    if record.rustc != rustc:
        return False
    return all(Path(p).is_file() and digest(Path(p)) == d for p, d in record.files.items())


def digest(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def plan(tree: Tree, source: Path, objects: Path) -> Iterator[tuple[Path, Path]]:
    """Yields pairs: a built file, and its place in the installed tree."""
    for pattern in _BUILT:
        found = sorted(objects.glob(pattern))
        if not found:
            raise HeadersError(f"the build left no {pattern}: see kernel-range.rst")
        for path in found:
            yield path, tree.build / path.relative_to(objects)
    for name in _SOURCES:
        yield source / name, tree.source / name
    for name in _SCRIPTS:
        yield source / "scripts" / name, tree.scripts / name
    target = objects / "scripts/target.json"
    if target.exists():
        yield target, tree.scripts / "target.json"


def install(tree: Tree, source: Path, objects: Path) -> int:
    """Installs all files, or none. Returns the number of installed bytes.

    # Errors
    `HeadersError`: another file has the name of one of them, or the disk is full.
    """
    remove(tree.build)
    ours = _recorded(tree)
    pairs = [pair for pair in plan(tree, source, objects) if _needed(*pair, ours)]
    files = {str(target): digest(path) for path, target in pairs}
    rustc = tree.config.get("CONFIG_RUSTC_VERSION_TEXT", "")
    try:
        Record(False, tree.version, rustc, files).store(tree.build)
        for path, target in pairs:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, _temporary(target))
            shutil.copymode(path, _temporary(target))
            flush(_temporary(target))
        for _, target in pairs:
            _temporary(target).rename(target)
        Record(True, tree.version, rustc, files).store(tree.build)
    except BaseException as error:
        remove(tree.build)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise no_room(tree.build) from error
        raise
    return sum(path.stat().st_size for path, _ in pairs)


def flush(path: Path) -> None:
    """Writes the content of a file to the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _temporary(target: Path) -> Path:
    return target.with_name(target.name + _NEW)


def _needed(path: Path, target: Path, ours: set[str]) -> bool:
    """Returns whether a file must be installed: not if the package has the same file."""
    if not target.exists() or str(target) in ours:
        return True
    if digest(path) == digest(target):
        return False
    raise HeadersError(f"{target} is in the way and not ours: move it away and run this again")


def _recorded(tree: Tree) -> set[str]:
    """Returns every file in the record of a prepared tree on this machine."""
    return _files_of(_prepared_beside(tree.build))


def _prepared_beside(build: Path) -> list[Path]:
    """Returns all trees with a record: the flavours of one kernel share some files."""
    return [path.parent for path in sorted(build.parent.glob(f"*/{RECORD}"))]


def _files_of(builds: list[Path]) -> set[str]:
    records = [Record.load(build) for build in builds]
    return {name for record in records if record for name in record.files}


def remove(build: Path) -> int:
    """Removes the installed files of a tree. Returns their number.

    A file that another flavour shares stays until that flavour is removed. A shared file that has
    changed since its installation also stays.
    """
    record = Record.load(build)
    if record is None:
        return 0
    others = _files_of([other for other in _prepared_beside(build) if other != build])
    gone = 0
    for name, wanted in record.files.items():
        target = Path(name)
        _temporary(target).unlink(missing_ok=True)
        if name in others or not target.is_file():
            continue
        if target.is_relative_to(build) or digest(target) == wanted:
            target.unlink()
            gone += 1
    for directory in sorted({Path(name).parent for name in record.files}, reverse=True):
        _prune(directory)
    (build / (RECORD + _NEW)).unlink(missing_ok=True)
    (build / RECORD).unlink()
    return gone


def _prune(directory: Path) -> None:
    """Removes `rust/` and the folders directly below it if they are empty.

    No header package has such a folder, so the installation has created it.
    """
    while "rust" in (directory.name, directory.parent.name):
        with suppress(OSError):
            directory.rmdir()
        directory = directory.parent


def remove_all(trees: Path) -> int:
    """Removes the installed files of every tree below `trees`. Returns their number."""
    return sum(_clear(path.parent) for path in sorted(trees.glob(f"*/{RECORD}")))


def _clear(build: Path) -> int:
    """Removes the installed files of a tree, and the tree if it is empty then."""
    count = remove(build)
    with suppress(OSError):
        build.rmdir()
    return count


def remove_orphans(build: Path) -> None:
    """Removes the installed files of trees whose header package has been removed."""
    for other in _prepared_beside(build):
        if not (other / ".config").exists():
            count = _clear(other)
            say(f"removed {count} files of {other.name}, whose package has been removed")
