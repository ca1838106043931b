# SPDX-License-Identifier: GPL-2.0
"""A Debian machine whose administrator does what the README says, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from . import debian_root, paths
from .command import logged
from .errors import LabError
from .progress import step

#: The begin of the lines that are run where the module is built. The others need the kernel.
_BUILDS = "apt-get "


def commands(role: str) -> list[str]:
    """Returns the commands of the README that install the module on a `client` or a `server`."""
    text = (paths.ROOT / "README.md").read_text()
    block = re.search(rf"^A {role} with Debian's kernel, as root:\n\n((?:    .*\n)+)", text, re.M)
    if not block:
        raise LabError(f"README.md has no commands for a {role} with Debian's kernel")
    return [line.strip() for line in block[1].splitlines()]


def building(role: str) -> list[str]:
    """Returns the first of them, which build and install."""
    return [line for line in commands(role) if line.startswith(_BUILDS)]


def using(role: str) -> list[str]:
    """Returns the others, which need the kernel."""
    return [line for line in commands(role) if not line.startswith(_BUILDS)]


def install(merged: Path, release: str, log: Path) -> None:
    """Runs the commands of a client in a fresh machine. Those of a server are the same.

    The machine is a chroot, so `uname -r` has to be told which kernel it will boot.
    """
    debian_root.copy_sources(merged / "root/rpcrdma")
    script = f'#!/bin/sh\n[ "$*" != -r ] && exec /usr/bin/uname "$@"\necho {release}\n'
    _write(merged / "usr/local/bin/uname", script)
    yes = merged / "etc/apt/apt.conf.d/99yes"
    yes.write_text('APT::Get::Assume-Yes "true";\n')
    for command in building("client"):
        with step(f"debian machine: {command}", log):
            work = ["sh", "-c", f"cd {debian_root.SOURCES} && {command}"]
            logged([*debian_root.inside(merged), *work], log)
    _write(merged / "usr/local/bin/systemctl", (debian_root.HERE / "systemctl").read_text())


def _write(path: Path, text: str) -> None:
    """Creates an executable file."""
    path.write_text(text)
    path.chmod(0o755)
