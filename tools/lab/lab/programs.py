# SPDX-License-Identifier: GPL-2.0
"""The guests' programs in C: the part of the hostile peer that uses verbs, and the crowd.

The guests run the host's release of Debian, so its libraries fit if the architecture is the host's.
For another architecture a cross compiler links against the libraries of that architecture, which
are unpacked into the cache.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from . import arch, debian, paths
from .command import capture, logged
from .progress import step

#: Programs, and the folders of their sources.
PROGRAMS = ("hostile", "crowd")
_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror")
_LIBRARIES = ("-libverbs", "-lrdmacm")
_PACKAGES = ("libibverbs-dev", "librdmacm-dev")


def build(machine: arch.Machine) -> dict[str, Path]:
    """Returns the programs of a machine's guests by name, which the first use compiles."""
    with paths.locked("programs"):
        return {name: _compiled(name, machine) for name in PROGRAMS}


def _compiled(name: str, machine: arch.Machine) -> Path:
    """Compiles a program into the cache, unless it is newer than its sources."""
    directory = paths.LAB / name
    target = paths.sub("tools") / (name if machine.native else f"{name}-{machine.arch}")
    changed = max(path.stat().st_mtime for path in directory.iterdir())
    if not target.exists() or target.stat().st_mtime < changed:
        folders = [] if machine.native else _foreign(machine)
        sources = sorted(directory.glob("*.c"))
        compiler = f"{machine.tools}gcc"
        capture([compiler, *folders, *_FLAGS, "-o", target, *sources, *_LIBRARIES])
    return target


def _foreign(machine: arch.Machine) -> list[str | Path]:
    """Returns the compiler's options for the libraries of another architecture."""
    root = _libraries(machine)
    folders = [root / top / machine.libraries for top in ("usr/lib", "lib")]
    found = [word for path in folders for word in (f"-L{path}", f"-Wl,-rpath-link,{path}")]
    return ["-idirafter", root / "usr/include", *found]


def _libraries(machine: arch.Machine) -> Path:
    """Returns a folder with the libraries of another architecture, which the first use unpacks."""
    mirror, log = debian.mirror(), paths.log_file("libs")
    root = paths.sub("libs") / f"{mirror.codename}-{machine.debian}"
    if root.exists():
        return root
    log.unlink(missing_ok=True)
    partial = root.with_name(root.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    args = ["mmdebstrap", "--format=directory", "--variant=extract"]
    args += [f"--architectures={machine.debian}", f"--include={','.join(_PACKAGES)}"]
    args += [mirror.codename, str(partial), mirror.source_line(mirror.codename).strip()]
    with step(f"libraries of {root.name}: unpacking into the cache", log):
        logged(args, log)
    partial.rename(root)
    return root
