# SPDX-License-Identifier: GPL-2.0
"""The command line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from . import doctor, listing
from .errors import UsageError
from .host import Host

DESCRIPTION = "Shows connections of NFS over RDMA, and finds what is wrong with them."


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    top = argparse.ArgumentParser(prog="nfsrdma", description=DESCRIPTION)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    one = commands.add_parser("list", help="connections, mounts and listeners, one line each")
    one.add_argument("--json", action="store_true", help="print JSON")
    one.set_defaults(run=_list)

    one = commands.add_parser("doctor", help="find what is wrong, and the command that mends it")
    one.add_argument("server", nargs="?", help="name or address of a server to be reached")
    one.add_argument("--json", action="store_true", help="print JSON")
    one.set_defaults(run=_doctor)
    return top


def _list(host: Host, chosen: argparse.Namespace) -> int:
    print(listing.show(host, chosen.json))
    return 0


def _doctor(host: Host, chosen: argparse.Namespace) -> int:
    result = doctor.examine(host, chosen.server)
    print(doctor.as_json(result) if chosen.json else doctor.as_text(result))
    return result.status


def main(arguments: Sequence[str], host: Host | None = None) -> int:
    """Runs one command. Returns the exit status."""
    chosen = parser().parse_args(arguments)
    try:
        status: int = chosen.run(host or Host(), chosen)
        sys.stdout.flush()
    except UsageError as error:
        print(f"nfsrdma: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader, such as head(1), has ended. Python must not flush at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status
