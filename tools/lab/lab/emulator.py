# SPDX-License-Identifier: GPL-2.0
"""The QEMU that runs the guests.

QEMU 10 emulates the guests in some three quarters of the time that QEMU 7.2 takes, which Debian 12
has. There the lab unpacks the QEMU of Debian's backports into its cache, and installs nothing. The
libraries that it needs are those of the installed one. Other releases of Debian have QEMU 10.
"""

from __future__ import annotations

from pathlib import Path

from . import aptstate, arch, debian, paths
from .command import logged
from .errors import LabError
from .progress import step

#: The releases of Debian whose own QEMU is older.
OLD = ("bookworm",)


def _home(machine: arch.Machine) -> Path:
    suffix = "" if machine == arch.X86 else f"-{machine.arch}"
    return paths.sub("qemu") / f"{debian.codename()}-backports{suffix}"


def ensure(machine: arch.Machine) -> None:
    """Unpacks the backports' QEMU for a machine where it is needed, unless it is there.

    # Errors
    `LabError` if apt does not find it.
    """
    home = _home(machine)
    if debian.codename() not in OLD or home.exists():
        return
    partial, log = home.with_name(home.name + ".partial"), paths.log_file("qemu")
    log.unlink(missing_ok=True)
    with step(f"QEMU of {home.name}: unpacking into the cache", log):
        backports = f"{debian.codename()}-backports"
        suite = aptstate.open_suite(debian.mirror(), backports, log)
        found = dict(suite.versions("|".join(machine.packages)))
        if absent := set(machine.packages) - found.keys():
            raise LabError(f"{backports} has no {', '.join(sorted(absent))}")
        for name in machine.packages:
            file = suite.download(name, found[name], partial / "debs", log)
            logged(["dpkg-deb", "-x", file, partial], log)
        partial.rename(home)


def command(machine: arch.Machine, extra: str = "") -> list[str]:
    """Returns the beginning of QEMU's command line for a machine, whose end is `extra`.

    The plugin ``insncount`` is for the interface of the machine's own QEMU.
    """
    root = _home(machine) / "usr"
    if "insncount" in extra or not root.exists():
        return [machine.program]
    data = [str(root / "share" / name) for name in ("qemu", "seabios")]
    return [str(root / "bin" / machine.program), "-L", data[0], "-L", data[1]]
