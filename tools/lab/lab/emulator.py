# SPDX-License-Identifier: GPL-2.0
"""The QEMU that runs the guests.

QEMU 10 emulates the guests in some three quarters of the time that QEMU 7.2 takes, which Debian 12
has. There the lab unpacks the QEMU of Debian's backports into its cache, and installs nothing. The
libraries that it needs are those of the installed one. Other releases of Debian have QEMU 10.
"""

from __future__ import annotations

from pathlib import Path

from . import aptstate, debian, paths
from .command import logged
from .errors import LabError
from .progress import step

#: The releases of Debian whose own QEMU is older.
OLD = ("bookworm",)
#: QEMU, and the files that it loads at its start.
PACKAGES = ("qemu-system-x86", "qemu-system-data", "seabios")
PROGRAM = "qemu-system-x86_64"


def _home() -> Path:
    return paths.sub("qemu") / f"{debian.codename()}-backports"


def ensure() -> None:
    """Unpacks the QEMU of the backports where it is needed, unless it is there.

    # Errors
    `LabError` if apt does not find it.
    """
    home = _home()
    if debian.codename() not in OLD or home.exists():
        return
    partial, log = home.with_name(home.name + ".partial"), paths.log_file("qemu")
    log.unlink(missing_ok=True)
    with step(f"QEMU of {home.name}: unpacking into the cache", log):
        suite = aptstate.open_suite(debian.mirror(), home.name, log)
        found = dict(suite.versions("|".join(PACKAGES)))
        if absent := set(PACKAGES) - found.keys():
            raise LabError(f"{home.name} has no {', '.join(sorted(absent))}")
        for name in PACKAGES:
            file = suite.download(name, found[name], partial / "debs", log)
            logged(["dpkg-deb", "-x", file, partial], log)
        partial.rename(home)


def command(*, plugins: bool = False) -> list[str]:
    """Returns the beginning of QEMU's command line.

    `plugins`: whether it loads a TCG plugin. Ours is for the interface of the machine's own QEMU.
    """
    root = _home() / "usr"
    if plugins or not root.exists():
        return [PROGRAM]
    data = [root / "share" / name for name in ("qemu", "seabios")]
    return [str(root / "bin" / PROGRAM), *(word for path in data for word in ("-L", str(path)))]
