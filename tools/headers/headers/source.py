# SPDX-License-Identifier: GPL-2.0
"""Fetches and unpacks the kernel source that the headers were built from.

apt fetches it from the machine's own sources, and verifies it like every package: signed Release
file, hash of the index, hash of the package.
"""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from .errors import HeadersError, no_room
from .progress import say, step
from .run import logged, output, tail
from .tree import Tree

#: Files that are not unpacked, to save time: a fifth of the tree is enough to build `rust/`. The
#: patterns are tar's, where `*` also matches slashes. The crates' bindings include headers of
#: drivers/base and drivers/android.
_UNNEEDED = (
    *(f"{folder}/*.c" for folder in ("drivers", "fs", "net", "sound")),
    "drivers/[!ab]*.h",
    "sound/*.h",
    "Documentation/*/*",
    "tools/testing/*",
    "tools/perf/*",
)
#: The largest number of bytes in the work directory: the package, its unpacked part, and the
#: object tree.
ROOM_TO_WORK = 900 << 20


def require_room(directory: Path, needed: int) -> None:
    """Verifies that a disk has room, before the download begins.

    # Errors
    `HeadersError` if the file system of `directory` has less than `needed` free.
    """
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise HeadersError(
            f"no room on the disk of {directory}: {free >> 20} MB free, {needed >> 20} MB needed;"
            " free some, or give another directory with --work"
        )


class Apt:
    """apt with the machine's own sources. `use_private_lists` gives it its own package lists.

    This class only reads the machine's lists. If they lack the version, it fetches lists of its
    own, so that the machine's `apt upgrade` does not change.
    """

    def __init__(self, work: Path, log: Path) -> None:
        """Stores the paths, and fetches nothing yet."""
        self._work, self._log = work, log
        self._options = ["-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=2"]
        self._options += ["-o", "Acquire::Languages=none", "-o", "Acquire::http::Timeout=30"]

    def lists(self, package: str, version: str) -> bool:
        """Returns whether apt knows a source of this version."""
        shown = output(["apt-cache", *self._options, "madison", package]) or ""
        rows = [line.split("|") for line in shown.splitlines()]
        return any(len(row) > 2 and row[1].strip() == version for row in rows)

    def use_private_lists(self) -> None:
        """Fetches package lists into the work directory, and uses only those from now on."""
        home = self._work / "apt"
        for part in ("lists/partial", "cache/archives/partial"):
            (home / part).mkdir(parents=True, exist_ok=True)
        self._options += ["-o", f"Dir::State::lists={home}/lists", "-o", f"Dir::Cache={home}/cache"]
        # One unreachable source of many is no error yet: the caller asks `lists` again.
        logged(["apt-get", *self._options, "-q", "update"], self._log, "apt-get update")

    def download(self, package: str, version: str) -> Path:
        """Fetches one package into the work directory. Returns its path."""
        args = ["apt-get", *self._options, "-q", "download", f"{package}={version}"]
        logged(args, self._log, f"downloading {package}", cwd=self._work)
        return next(self._work.glob(f"{package}_*.deb"))


def fetch(tree: Tree, work: Path, log: Path) -> Path:
    """Downloads the source package of exactly the headers' version.

    # Errors
    `HeadersError`: no network, no such package in apt's sources, or an incomplete download.
    """
    package, version = f"linux-source-{tree.series}", tree.version
    apt = Apt(work, log)
    fresh = not apt.lists(package, version)
    if fresh:
        _refresh(apt, log)
    if not apt.lists(package, version):
        raise HeadersError(_unknown(package, version, tail(log)), tail(log, 6))
    with step(f"downloading {package} {version}"):
        try:
            return apt.download(package, version)
        except HeadersError as error:
            raise _broken_off(package, error) from error


def _refresh(apt: Apt, log: Path) -> None:
    with step("fetching fresh package lists"):
        try:
            apt.use_private_lists()
        except HeadersError as error:
            say(f"    some package lists could not be fetched; see {log}")
            if "room" in str(error):
                raise


def _unknown(package: str, version: str, log: str) -> str:
    unreachable = (
        "Could not resolve",
        "Temporary failure",
        "Could not connect",
        "Unable to connect",
    )
    if any(words in log for words in unreachable):
        return f"no network: apt cannot reach its sources to fetch {package} {version}"
    return (
        f"apt's sources have no {package} {version}: add the suite that the headers came from,"
        " or upgrade the kernel if that version is gone"
    )


def _broken_off(package: str, error: HeadersError) -> HeadersError:
    if "room" in str(error):
        return error
    return HeadersError(
        f"{package} could not be downloaded whole: check the network and run this again",
        error.details,
    )


def unneeded(tree: Tree) -> list[str]:
    """Returns the patterns of files to leave out, with the code of most other architectures.

    Their Kconfig files stay, because crypto/Kconfig includes them on every architecture.
    """
    own = next((path.name for path in (tree.build / "arch").glob("*")), "x86")
    others = (f"arch/[!{own[0]}]*/*.{kind}" for kind in ("[chS]", "dts", "dtsi"))
    patterns = (*_UNNEEDED, *others)
    # Anchored with the archive's own root: rust/helpers/net/*.c is not net/*.c.
    return [f"linux-source-{tree.series}/{pattern}" for pattern in patterns]


def unpack(deb: Path, tree: Tree, target: Path, log: Path) -> None:
    """Unpacks the tarball inside the package, without the files that `unneeded` matches.

    # Errors
    `HeadersError`: no kernel source package, a damaged package, or a full disk.
    """
    target.mkdir()
    excluded = " ".join(f"--exclude='{pattern}'" for pattern in unneeded(tree))
    pipe = (
        'dpkg-deb --fsys-tarfile "$0" | tar -xO --wildcards "./usr/src/linux-source-*.tar.xz"'
        f' | tar -xJ --strip-components=1 --anchored {excluded} -C "$1"'
    )
    args = ["bash", "-o", "pipefail", "-c", pipe, str(deb), str(target)]
    with step("unpacking the source"):
        try:
            logged(args, log, "unpacking the source")
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise no_room(target) from error
            raise
    if not (target / "Makefile").is_file():
        raise HeadersError(f"{deb} is not a kernel source package")
