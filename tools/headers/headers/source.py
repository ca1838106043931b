# SPDX-License-Identifier: GPL-2.0
"""Obtains those files of the kernel's source that no header package has.

Of a source package that is known only the needed pieces are fetched. Any other one apt fetches
whole, from the machine's own sources, and verifies it like every package: signed Release file, hash
of the index, hash of the package. The files are kept for other kernels that have the same ones.
"""

from __future__ import annotations

import errno
import lzma
import os
import re
import shutil
import stat
import tarfile
from pathlib import Path

from . import pieces
from .errors import HeadersError, NoRoomError, no_room
from .install import flush
from .progress import say, step
from .run import logged, output, tail
from .tree import Tree

#: The names of the files that are kept: with a digest of the content, or with a package's version.
_KEPT = re.compile(r"source-([0-9a-f]{16}|\d+\.\d[\w.+~]*-\d[\w.+~]*)\.tar\.xz")
#: The largest number of bytes in the work directory: the package, its needed files, and the object
#: tree.
ROOM_TO_WORK = 450 << 20


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

    def address(self, package: str, version: str) -> tuple[str, str]:
        """Returns the address of a package and its SHA-256 in the index; empty if apt has none."""
        args = ["apt-get", *self._options, "-q", "download", "--print-uris"]
        words = (output([*args, f"{package}={version}"]) or "").split()
        digest = words[-1].removeprefix("SHA256:") if len(words) == 4 else ""
        return (words[0].strip("'"), digest) if digest else ("", "")

    def download(self, package: str, version: str) -> Path:
        """Fetches one package into the work directory. Returns its path."""
        args = ["apt-get", *self._options, "-q", "download", f"{package}={version}"]
        logged(args, self._log, f"downloading {package}", cwd=self._work)
        return next(self._work.glob(f"{package}_*.deb"))


def obtain(tree: Tree, target: Path, known: pieces.Package | None, log: Path) -> None:
    """Creates `target` with the needed files of the headers' version: those kept, or fetched ones.

    The folder of `target` is for the other files of this run, and the one above for those to keep.

    # Errors
    `HeadersError`: no network, no such package in apt's sources, or an incomplete download.
    """
    work = target.parent
    kept = work.parent / f"source-{known.content[:16] if known else tree.version}.tar.xz"
    if _is_own(kept):
        if _unpack_kept(kept, target, known, log):
            return
        say("    they are damaged: fetching them again")
        shutil.rmtree(target)
    _fetch(tree, target, known, log)
    if _is_known(target, known):
        _keep(target, kept, log)


def _is_own(kept: Path) -> bool:
    """Returns whether the file exists, and is none that another user has put there."""
    try:
        status = kept.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()


def _unpack_kept(kept: Path, target: Path, known: pieces.Package | None, log: Path) -> bool:
    """Unpacks the kept files. Returns whether they are whole, and those that are known.

    A run for another kernel may remove them meanwhile.
    """
    target.mkdir()
    with step("unpacking the sources that an earlier preparation has kept"):
        try:
            logged(["tar", "-xJf", str(kept), "-C", str(target)], log, "unpacking the sources")
        except NoRoomError:
            raise
        except HeadersError:
            return False
    return _is_known(target, known)


def _is_known(source: Path, known: pieces.Package | None) -> bool:
    """Returns whether the files are those of the known package, or the package is unknown."""
    return not known or pieces.content(source) == known.content


def _keep(source: Path, kept: Path, log: Path) -> None:
    """Keeps the needed files, in place of those of the last version.

    The archive is made in the work directory of this run, which no other run or user changes.
    """
    for old in kept.parent.iterdir():
        if _KEPT.fullmatch(old.name):
            old.unlink(missing_ok=True)
    made = source.with_name(kept.name)
    logged(["tar", "-cJf", str(made), "-C", str(source), "."], log, "keeping the sources")
    flush(made)
    made.rename(kept)


def _fetch(tree: Tree, target: Path, known: pieces.Package | None, log: Path) -> None:
    package, version = f"linux-source-{tree.series}", tree.version
    apt = Apt(target.parent, log)
    if not apt.lists(package, version):
        _refresh(apt, log)
    if not apt.lists(package, version):
        raise HeadersError(_unknown(package, version, tail(log)), tail(log, 6))
    if not known:
        say(f"this program does not know {package} {version}, and fetches all of it")
    elif _fetch_pieces(apt, package, version, known, target):
        return
    with step(f"downloading {package} {version}"):
        try:
            deb = apt.download(package, version)
        except HeadersError as error:
            raise _broken_off(package, error) from error
    unpack(deb, target, log)


def _fetch_pieces(
    apt: Apt, package: str, version: str, known: pieces.Package, target: Path
) -> bool:
    """Fetches only what is needed of the package; returns whether that was possible."""
    uri, digest = apt.address(package, version)
    if digest != known.sha256:
        say(f"apt has another {package} {version} than this program knows: fetching all of it")
        return False
    with step(f"fetching {known.length / 1e6:.1f} MB of {package} {version}"):
        try:
            pieces.fetch(uri, known, target)
        except (OSError, ValueError, EOFError, lzma.LZMAError, tarfile.TarError) as error:
            shutil.rmtree(target, ignore_errors=True)
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise no_room(target) from error
            say(f"    not possible ({error}): fetching all of it")
            return False
    return True


def _refresh(apt: Apt, log: Path) -> None:
    with step("fetching fresh package lists"):
        try:
            apt.use_private_lists()
        except HeadersError as error:
            say(f"    some package lists could not be fetched; see {log}")
            if isinstance(error, NoRoomError):
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
    if isinstance(error, NoRoomError):
        return error
    return HeadersError(
        f"{package} could not be downloaded whole: check the network and run this again",
        error.details,
    )


def unpack(deb: Path, target: Path, log: Path) -> None:
    """Unpacks the needed files of the tarball inside the package.

    # Errors
    `HeadersError`: no kernel source package, a damaged package, or a full disk.
    """
    target.mkdir()
    # xz decompresses with all processors. The first folder is that of the tarball.
    names = " ".join(f"'linux-source-*/{name}'" for name in pieces.NEEDED)
    pipe = (
        'dpkg-deb --fsys-tarfile "$0" | tar -xO --wildcards "./usr/src/linux-source-*.tar.xz"'
        " | xz -dc -T0 | tar -x --strip-components=1 --wildcards --no-wildcards-match-slash"
        f' -C "$1" {names}'
    )
    args = ["bash", "-o", "pipefail", "-c", pipe, str(deb), str(target)]
    with step("unpacking the needed part of the source"):
        logged(args, log, "unpacking the source")
    for path in list(target.rglob("*")):
        if not path.is_dir() and not pieces.needed(path.relative_to(target)):
            path.unlink()
