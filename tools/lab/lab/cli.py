# SPDX-License-Identifier: GPL-2.0
"""The commands of the lab. A command's module is imported only when the command is called.

`deps` must run on a machine where nothing is installed, so it may import nothing outside the
standard library.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from .errors import LabError

#: Command name, module with its `main`, help line.
COMMANDS = (
    ("deps", "deps", "install what the lab needs (Debian packages, bindgen, a venv with ruff)"),
    ("prepare", "prepare", "build kernel and guest image into the cache"),
    ("kdir", "kdir", "print the build tree of a lab kernel"),
    ("foreign", "foreign", "build our modules for the machines that are not this host"),
    ("run", "demo", "everything up to a mount, shown step by step"),
    ("shell", "shell", "an interactive shell on a guest with the mount in place"),
    ("picture", "picture", "the pictures of the README: text of nfsrdma top, page of its report"),
    ("check", "check", "the scenarios on the plain kernel; FULL=1: all, debug kernel and siw too"),
    ("other-release", "other_release", "checks and a scenario on the other release of Debian"),
    ("build", "debian_build", "build the modules for Debian's own kernel of a series"),
    ("soak", "soak", "verified work under random faults, for SOAK_TIME seconds"),
    ("bench", "bench", "our module against the stock one, as ratios"),
    ("devices", "devices", "write Documentation/devices.rst from profiles.toml"),
    ("lint", "lint", "ruff and the lab's own host tests"),
    ("vm-run", "vmrun", "boot both guests and run one command on the client"),
)

#: The options that choose the module of a guest, as the variables of the same names do, and the
#: commands that have them.
MODULES = ("CLIENT", "SERVER")
WITH_GUESTS = ("run", "shell", "check", "soak")


def main(arguments: Sequence[str]) -> int:
    """Calls a command; turns a `LabError` into one message and exit status 1."""
    parser = argparse.ArgumentParser(prog="lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, _, text in COMMANDS:
        command = commands.add_parser(name, help=text, add_help=False, allow_abbrev=False)
        for variable in MODULES if name in WITH_GUESTS else ():
            command.add_argument(f"--{variable.lower()}", choices=("ours", "stock"))
    known, rest = parser.parse_known_args(arguments)
    for variable in MODULES:
        if whose := getattr(known, variable.lower(), None):
            os.environ[variable] = whose
    module = next(module for name, module, _ in COMMANDS if name == known.command)
    try:
        return int(importlib.import_module(f".{module}", __package__).main(rest))
    except LabError as err:
        print(f"lab: {err}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return 130
