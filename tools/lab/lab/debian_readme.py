# SPDX-License-Identifier: GPL-2.0
"""A Debian machine whose administrator does what the README says, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from . import debian_root, paths, settings
from .command import logged
from .errors import LabError
from .progress import step

#: The block of commands, and the comment in it that begins the lines of a role.
_BLOCK = re.compile(r"^With Debian's kernel, as root:\n\n((?:    .*\n)+)", re.MULTILINE)
#: The option of apt-get for a kernel of backports.
_BACKPORTS = "-t trixie-backports "
_ROLE = re.compile(r"# on a (client|server):")


def _sections() -> dict[str, list[str]]:
    """Returns the commands by role; those before the first role have the key ``both``.

    # Errors
    `LabError`: the README has no commands for both roles, or for one of them.
    """
    block = _BLOCK.search((paths.ROOT / "README.md").read_text())
    found: dict[str, list[str]] = {"both": [], "client": [], "server": []}
    role = "both"
    for line in block[1].splitlines() if block else ():
        begun = _ROLE.fullmatch(line.strip())
        role = begun[1] if begun else role
        found[role] += [] if begun else [line.strip()]
    if missing := [role for role, lines in found.items() if not lines]:
        raise LabError(f"README.md has no commands for Debian's kernel: {', '.join(missing)}")
    return found


def building() -> list[str]:
    """Returns the commands that build and install the module, in either role.

    Only a kernel of backports needs the option that names them, which the README explains.
    """
    commands = _sections()["both"]
    if debian_root.kernels() == settings.suite():
        return [command.replace(_BACKPORTS, "") for command in commands]
    return commands


def using(role: str) -> list[str]:
    """Returns the commands of a `client` or a `server`, which need the kernel."""
    return _sections()[role]


def install(merged: Path, release: str, log: Path) -> None:
    """Runs the commands that build and install the module in a fresh machine.

    The machine is a chroot, so `uname -r` must report the kernel that it will boot.
    """
    debian_root.copy_sources(merged / "root/rpcrdma")
    script = f'#!/bin/sh\n[ "$*" != -r ] && exec /usr/bin/uname "$@"\necho {release}\n'
    _write(merged / "usr/local/bin/uname", script)
    yes = merged / "etc/apt/apt.conf.d/99yes"
    yes.write_text('APT::Get::Assume-Yes "true";\n')
    for command in building():
        with step(f"debian machine: {command}", log):
            work = ["sh", "-c", f"cd {debian_root.SOURCES} && {command}"]
            logged([*debian_root.inside(merged), *work], log)
    _write(merged / "usr/local/bin/systemctl", (debian_root.HERE / "systemctl").read_text())


def _write(path: Path, text: str) -> None:
    """Creates an executable file."""
    path.write_text(text)
    path.chmod(0o755)
