# SPDX-License-Identifier: GPL-2.0
"""The command line."""

from __future__ import annotations

import argparse
import functools
import io
import math
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from types import FrameType
from typing import TypeVar

from . import doctor, listing, mounts, rails
from .errors import UsageError
from .export import command as exporting
from .host import Host
from .report import command as reporting
from .table import printable
from .top import command as watching
from .top import served
from .top.frame import Look
from .top.latencies import EVENTS
from .top.sample import Sampler
from .top.terminal import Terminal
from .trace import command as tracing
from .trace.tracefs import Recording

_Value = TypeVar("_Value")

DESCRIPTION = "Shows connections of NFS over RDMA, and diagnoses their problems."


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    top = argparse.ArgumentParser(prog="nfsrdma", description=DESCRIPTION)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    one = commands.add_parser("list", help="connections, mounts and listeners, one line each")
    one.add_argument("--json", action="store_true", help="print JSON")
    one.set_defaults(run=_list)
    one = commands.add_parser("doctor", help="diagnose problems, and name the fix of each")
    one.add_argument("server", nargs="?", help="name or address of a server to be reached")
    one.add_argument("--json", action="store_true", help="print JSON")
    one.set_defaults(run=_doctor)
    _add_top(commands.add_parser("top", help="operations, latencies and connections, live"))
    does = "the way of each RPC that is made or served, in words"
    _add_trace(commands.add_parser("trace", help=does))
    _add_report(commands.add_parser("report", help="a recording as one HTML page"))
    _add_export(commands.add_parser("export", help="metrics for Prometheus"))
    _add_rails(commands.add_parser("rails", help="the connections of a mount by port"))
    return top


def _add_top(one: argparse.ArgumentParser) -> None:
    one.add_argument("--interval", type=_interval, default=2.0, help="seconds; default: 2")
    one.add_argument("--count", type=_count, metavar="N", help="print N intervals, without screen")
    one.add_argument("--no-trace", action="store_true", help="no trace events: no latencies")
    one.add_argument("--json", action="store_true", help="print JSON, one interval on each line")
    one.set_defaults(run=_top)


def _add_trace(one: argparse.ArgumentParser) -> None:
    one.add_argument("--xid", type=_xid, help="only the RPC with this XID")
    one.add_argument("--all", action="store_true", help="also connections, and tasks without RDMA")
    one.add_argument("--json", action="store_true", help="print JSON, one RPC on each line")
    one.add_argument("argv", nargs=argparse.REMAINDER, metavar="COMMAND ...")
    one.set_defaults(run=_trace)


def _add_report(one: argparse.ArgumentParser) -> None:
    one.add_argument("--output", "-o", required=True, metavar="FILE", help="the page to be written")
    one.add_argument("--seconds", type=_seconds, default=30.0, help="time to record; default: 30")
    one.add_argument("--mask", action="store_true", help="replace addresses and names")
    one.add_argument("--json", action="store_true", help="write the recording as JSON")
    one.add_argument("argv", nargs=argparse.REMAINDER, metavar="COMMAND ...")
    one.set_defaults(run=_report)


def _add_export(one: argparse.ArgumentParser) -> None:
    to = one.add_mutually_exclusive_group()
    to.add_argument("--listen", type=_listen, metavar="[ADDRESS:]PORT", help="serve them by HTTP")
    to.add_argument("--textfile", default="", metavar="FILE", help="write them to a file")
    one.add_argument("--latency", action="store_true", help="also histograms, from trace events")
    one.set_defaults(run=_export)


def _add_rails(one: argparse.ArgumentParser) -> None:
    one.add_argument("mount", nargs="?", default="", help="a mount point; default: all mounts")
    one.add_argument("--seconds", type=_seconds, default=2.0, help="time to count; default: 2")
    path = one.add_mutually_exclusive_group()
    path.add_argument("--add", default="", metavar="ADDRESS", help="add a path to the server")
    path.add_argument("--remove", type=_transport, metavar="xprt-N", help="remove a path")
    one.add_argument("--json", action="store_true", help="print JSON")
    one.set_defaults(run=_rails)


def _list(host: Host, chosen: argparse.Namespace) -> int:
    print(listing.show(host, chosen.json))
    return 0


def _doctor(host: Host, chosen: argparse.Namespace) -> int:
    result = doctor.examine(host, chosen.server)
    print(doctor.as_json(result) if chosen.json else doctor.as_text(result))
    return result.status


def _limited(
    read: Callable[[str], _Value], allows: Callable[[_Value], bool], rule: str
) -> Callable[[str], _Value]:
    """Returns a function that reads a value of an option, or says which values there are."""

    def limited(text: str) -> _Value:
        try:
            value = read(text)
        except ValueError:
            raise argparse.ArgumentTypeError(rule) from None
        if not allows(value):
            raise argparse.ArgumentTypeError(rule)
        return value

    return limited


_interval = _limited(
    float,
    lambda seconds: watching.SHORTEST <= seconds <= watching.LONGEST,
    f"an interval has {watching.SHORTEST:g} to {watching.LONGEST:g} seconds",
)
_count = _limited(int, lambda count: count >= 1, "at least 1")
_seconds = _limited(float, lambda seconds: 0 < seconds < math.inf, "more than 0")
_xid = _limited(
    lambda text: int(text, 0),
    lambda xid: 0 <= xid < 1 << 32,
    "an XID is a number such as 0x996e5448",
)


_transport = _limited(
    lambda text: int(text.removeprefix("xprt-")),
    lambda number: number >= 0,
    "a transport is named like xprt-3",
)


_listen = _limited(
    exporting.address,
    lambda _: True,
    "an address and a port such as 127.0.0.1:10049 or [::1]:10049, or a port of 127.0.0.1",
)


def _top(host: Host, chosen: argparse.Namespace) -> int:
    with ExitStack() as stack:
        serves = bool(mounts.listeners(host)) and not chosen.no_trace
        names = EVENTS + served.EVENTS if serves else EVENTS
        source = None if chosen.no_trace else stack.enter_context(Recording(names))
        sampler = Sampler(host, source, serves=serves)
        look = Look(interval=chosen.interval)
        with suppress(KeyboardInterrupt):
            if chosen.count or chosen.json or not sys.stdout.isatty():
                show = functools.partial(print, flush=True)
                watching.batch(sampler, look, chosen.count or sys.maxsize, chosen.json, show)
            else:
                watching.interactive(sampler, stack.enter_context(Terminal()), look)
    return 0


def _trace(host: Host, chosen: argparse.Namespace) -> int:
    serves = bool(mounts.listeners(host))
    wish = tracing.Wish(_argv(chosen.argv), chosen.xid, chosen.all, chosen.json, serves)
    with Recording(wish.events) as recording:
        return tracing.trace(wish, recording, tracing.running)


def _report(host: Host, chosen: argparse.Namespace) -> int:
    serves = bool(mounts.listeners(host))
    wish = reporting.Wish(
        chosen.output, chosen.seconds, _argv(chosen.argv), chosen.mask, chosen.json, serves
    )
    with Recording(wish.events) as recording:
        return reporting.report(host, recording, wish)


def _export(host: Host, chosen: argparse.Namespace) -> int:
    if chosen.latency and not chosen.listen:
        raise UsageError("latencies need a recording that goes on: add --listen [ADDRESS:]PORT")
    wish = exporting.Wish(chosen.listen, chosen.textfile, chosen.latency)
    return exporting.export(host, wish, serves=bool(mounts.listeners(host)))


def _rails(host: Host, chosen: argparse.Namespace) -> int:
    if chosen.add or chosen.remove is not None:
        print(rails.change(host, chosen.mount, chosen.add, chosen.remove))
    else:
        print(rails.show(host, chosen.mount, chosen.seconds, chosen.json))
    return 0


def _argv(words: list[str]) -> list[str]:
    """Returns a command without the dashes that may be before it."""
    return words[1:] if words[:1] == ["--"] else words


def _end(number: int, _frame: FrameType | None) -> None:
    """Ends the command, but first its trace instance, and the screen that it has taken."""
    sys.exit(128 + number)


def main(arguments: Sequence[str], host: Host | None = None) -> int:
    """Runs one command. Returns the exit status."""
    chosen = parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        # The encoding of the locale may lack letters of a name.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    for number in (signal.SIGTERM, signal.SIGHUP):
        # nohup(1) has the command ignore SIGHUP.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)
    try:
        status: int = chosen.run(host or Host(), chosen)
        sys.stdout.flush()
    except UsageError as error:
        print(f"nfsrdma: {printable(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader, such as head(1), has ended. Python must not flush at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status
