# SPDX-License-Identifier: GPL-2.0
"""Boots both guests, loads any rpcrdma.ko, and runs one command on the client.

It is the shortest way to try a changed module: it prints the command's output, and all that the
kernels print meanwhile.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import device, kernel, paths, settings
from .pair import Pair, Setup
from .progress import say


def parser() -> argparse.ArgumentParser:
    """Returns the parser for the command line of `vm-run`."""
    parse = argparse.ArgumentParser(prog="lab vm-run", description=__doc__)
    parse.add_argument("--client-ko", type=Path, help="module for the client (default: stock)")
    parse.add_argument("--server-ko", type=Path, help="module for the server (default: stock)")
    parse.add_argument("--kernel", default=settings.flavour(), choices=("plain", "debug"))
    parse.add_argument("--link", default=settings.link(), choices=("rxe", "siw"))
    parse.add_argument("--mount", default="4.2", metavar="VERS", help="3, 4.0 … or none")
    parse.add_argument("--options", default="", help="further mount options")
    parse.add_argument("--no-load", action="store_true", help="leave the insmod to the command")
    parse.add_argument("--cpus", type=int, help="processors of each guest")
    parse.add_argument("--cmdline", default="", help="further kernel command line words")
    parse.add_argument("--pcap", type=Path, help="capture the cable into this file")
    parse.add_argument("--timeout", type=float, default=300, help="seconds for the command")
    parse.add_argument("--quiet", action="store_true", help="do not print the consoles")
    parse.add_argument("command", nargs="*", help="shell command for the client")
    return parse


def main(arguments: Sequence[str]) -> int:
    """Returns the command's exit status."""
    args = parser().parse_args(arguments)
    built, server = (kernel.ensure(args.kernel, side) for side in ("client", "server"))
    setup = Setup(
        built,
        args.client_ko or built.stock_module,
        args.server_ko or server.stock_module,
        server,
        link=args.link,
        dma=settings.dma(),
        files=device.files(built, args.link, settings.dma()),
        server_files=device.files(server, args.link, settings.dma()),
        cpus=args.cpus or settings.cpus(args.kernel),
        cmdline=args.cmdline,
        gdb=settings.gdb(),
    )
    directory = paths.run_directory("vm-run")
    say(f"logs in {directory}")
    with Pair(setup, directory) as pair:
        say(f"both guests up after {pair.boot_seconds:.1f} s of booting")
        booted = {guest.name: len(guest.console()) for guest in (pair.server, pair.client)}
        try:
            return _session(pair, args)
        finally:
            if not args.quiet:
                for guest in (pair.server, pair.client):
                    _show(guest.name, guest.console()[booted[guest.name] :])


def _session(pair: Pair, args: argparse.Namespace) -> int:
    """Loads the module, mounts and runs the command, with its output on our own streams."""
    if args.pcap:
        pair.capture(args.pcap.resolve())
    if not args.no_load:
        pair.load()
        say("client module loaded")
        if args.mount != "none":
            pair.mount(args.mount, options=args.options)
            say("mounted at /mnt/nfs")
    if not args.command:
        return 0
    done = pair.client.run(" ".join(args.command), timeout=args.timeout)
    sys.stdout.buffer.write(done.stdout)
    sys.stdout.flush()
    sys.stderr.buffer.write(done.stderr)
    say(f"command ended {done.status}")
    if args.pcap:
        pair.end_capture()
    return done.status


def _show(name: str, text: str) -> None:
    print(f"--- console of the {name} since boot", flush=True)
    sys.stdout.write(text)
    sys.stdout.flush()
