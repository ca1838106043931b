# SPDX-License-Identifier: GPL-2.0
"""The command line of prepare-headers."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from . import build, install, source, toolcheck, tree
from .errors import HeadersError, Interrupted
from .lock import locked
from .progress import say, step

WORK = Path("/var/cache/rust-headers")
TREES = Path("/usr/src")

_EPILOG = """
Debian's kernels are built with CONFIG_RUST=y, but their header packages hold
nothing of rust/. This builds it again from the same source with the same
compilers, proves that it fits (unchanged .config; every exported symbol is one
of the image's), and installs the metadata into the header tree. Once per
kernel version: 170 MB of download, two minutes, 190 MB that stay.
RUSTC=, BINDGEN=, RUSTFMT= and JOBS= in the environment override what is found.
"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    parse = argparse.ArgumentParser(
        prog="prepare-headers",
        description="Make installed Debian kernel headers fit for Rust modules.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parse.add_argument("release", nargs="?", help="kernel release (default: the running one)")
    parse.add_argument("--check", action="store_true", help="look at the tools, change nothing")
    parse.add_argument("--remove", action="store_true", help="take everything out again")
    parse.add_argument("--all", action="store_true", help="with --remove: of every kernel")
    parse.add_argument("--source", type=Path, metavar="DEB", help="a linux-source package at hand")
    parse.add_argument("--work", type=Path, default=WORK, help="directory to work in (%(default)s)")
    parse.add_argument("--modules", type=Path, default=tree.MODULES, help=argparse.SUPPRESS)
    return parse


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status: 0, 1 after an error, 130 after an interruption."""
    args = parser().parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        _dispatch(args)
    except HeadersError as error:
        print(f"prepare-headers: {error}", file=sys.stderr)
        if error.details:
            print("\n".join(f"    {line}" for line in error.details.splitlines()), file=sys.stderr)
        return 1
    except Interrupted:
        print("prepare-headers: interrupted; nothing was installed, run it again", file=sys.stderr)
        return 130
    except PermissionError as error:
        print(
            f"prepare-headers: {error.filename}: no permission: run this as root", file=sys.stderr
        )
        return 1
    return 0


def _interrupt(number: int, _: object) -> None:
    _ignore_signals()
    raise Interrupted(number)


def _ignore_signals() -> None:
    """From here on a signal would only cut the clean-up short."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _dispatch(args: argparse.Namespace) -> None:
    release = args.release or os.uname().release
    if args.remove:
        _remove(args, release)
        return
    found = tree.find(release, args.modules)
    if args.check:
        toolcheck.check(found)
        say(f"{release}: the tools are those that built it")
        return
    if install.is_prepared(found):
        say(f"{release}: already prepared ({found.build})")
        return
    if not os.access(found.build, os.W_OK):
        raise HeadersError(f"cannot write to {found.build}: run this as root")
    with locked(found.scripts):
        install.remove_orphans(found.build)
        _prepare(found, args)


def _remove(args: argparse.Namespace, release: str) -> None:
    if args.all:
        say(f"{install.remove_all(TREES)} files removed")
        return
    target = args.modules / release / "build"
    if not target.is_dir():
        raise HeadersError(f"no headers of kernel {release} here: nothing to remove")
    target = target.resolve()
    with locked((target / "scripts").resolve()):
        say(f"{release}: {install.remove(target)} files removed")


def _prepare(found: tree.Tree, args: argparse.Namespace) -> None:
    """Everything from the check of the tools to the installed files."""
    say(f"preparing {found.build} (version {found.version})")
    tools = toolcheck.check(found)
    with _work_directory(args.work, found.release) as work:
        source.require_room(work, source.ROOM_TO_WORK)
        source.require_room(found.build, install.ROOM_TO_INSTALL)
        log = work / "log"
        deb = args.source.resolve() if args.source else source.fetch(found, work, log)
        source.unpack(deb, found, work / "source", log)
        build.build(found, tools, work / "source", work / "objects", log)
        with step("installing"):
            size = install.install(found, work / "source", work / "objects")
    say(f"{found.release}: prepared, {size >> 20} MB in {found.build}")


@contextmanager
def _work_directory(parent: Path, release: str) -> Iterator[Path]:
    """A directory for the run, empty at the start and gone at the end."""
    work = parent / release
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(mode=0o700, parents=True)
    try:
        yield work
    except BaseException:
        _ignore_signals()
        _keep_log(work, parent / f"{release}.log")
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _keep_log(work: Path, target: Path) -> None:
    """What a failed run said, beside the work directory; the next failure overwrites it."""
    with suppress(OSError):
        shutil.copyfile(work / "log", target)
        say(f"its output is in {target}")
