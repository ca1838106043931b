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

from . import build, install, pieces, source, toolcheck, tree
from .errors import HeadersError, Interrupted
from .lock import locked
from .progress import say, step

WORK = Path("/var/cache/rust-headers")
TREES = Path("/usr/src")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_EPILOG = """
Debian's kernels are built with CONFIG_RUST=y, but their header packages contain
nothing of rust/. This program builds rust/ again from the same source with the
same compilers. It verifies the result: the image has every exported symbol.
Then it installs the metadata into the header tree. Each kernel version needs one
run: a download of about 10 MB (of 165 MB for a version that this program does
not know), some minutes, and 190 MB in the header tree. RUSTC=, BINDGEN=,
RUSTFMT= and JOBS= in the environment select the tools and the number of jobs.
"""


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parse = argparse.ArgumentParser(
        prog="prepare-headers",
        description="Prepare installed Debian kernel headers for Rust modules.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parse.add_argument("release", nargs="?", help="kernel release (default: the running one)")
    parse.add_argument("--check", action="store_true", help="check the tools, change nothing")
    parse.add_argument("--remove", action="store_true", help="remove all installed files")
    parse.add_argument("--all", action="store_true", help="with --remove: for every kernel")
    parse.add_argument("--source", type=Path, metavar="DEB", help="use this linux-source package")
    parse.add_argument("--work", type=Path, default=WORK, help="directory to work in (%(default)s)")
    parse.add_argument("--modules", type=Path, default=tree.MODULES, help=argparse.SUPPRESS)
    parse.add_argument("--known", type=Path, default=pieces.KNOWN, help=argparse.SUPPRESS)
    return parse


def main(arguments: Sequence[str]) -> int:
    """Runs the program. Returns 0, 1 after an error, 130 after an interruption."""
    args = parser().parse_args(arguments)
    # Builds of all users read the header tree.
    os.umask(0o022)
    for number in _SIGNALS:
        # nohup and shells ignore signals for programs in the background.
        if signal.getsignal(number) != signal.SIG_IGN:
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
    """Ignores signals from now on, so that they do not interrupt the clean-up."""
    for number in _SIGNALS:
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
    """Runs all steps from the check of the tools to the installation."""
    say(f"preparing {found.build} (version {found.version})")
    tools = toolcheck.check(found)
    with _work_directory(args.work, found.release) as work:
        source.require_room(work, source.ROOM_TO_WORK)
        source.require_room(found.build, install.ROOM_TO_INSTALL)
        log = work / "log"
        if args.source:
            source.unpack(args.source.resolve(), work / "source", log)
        else:
            known = pieces.known(found.version, args.known)
            source.obtain(found, work / "source", known, log)
        build.build(found, tools, work / "source", work / "objects", log)
        with step("installing"):
            size = install.install(found, work / "source", work / "objects")
    say(f"{found.release}: prepared, {size >> 20} MB in {found.build}")


@contextmanager
def _work_directory(parent: Path, release: str) -> Iterator[Path]:
    """Creates an empty directory for the run, and removes it at the end."""
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
    """Keeps the output of a failed run. The next failure overwrites it."""
    with suppress(OSError):
        shutil.copyfile(work / "log", target)
        say(f"its output is in {target}")
