# SPDX-License-Identifier: GPL-2.0
"""Results that do not fit, and bytes that belong to others.

A reply that cannot be sent leaves the files of the server, the pages of nfsd's threads and the
connection as they were. Each byte that the server stores or answers is one that it was sent, or
that is the requester's to read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from lab import requester
from lab.pair import Pair

SPLICE = "/sys/kernel/debug/nfsd/disable-splice-read"
#: Seconds that a case may take.
LIMIT = 800
OPTIONS = "no_root_squash,insecure,async,no_subtree_check,fsid=1"


@contextlib.contextmanager
def _export(pair: Pair, *, threads: int, splice: bool, read_only: bool) -> Iterator[None]:
    """Makes nfsd serve with this number of threads, with or without splice, perhaps read-only."""

    def apply(threads: int, splice: bool, mode: str) -> None:
        pair.server.sh(f"echo {int(not splice)} > {SPLICE}")
        pair.server.sh(f"exportfs -o {mode},{OPTIONS} '*:/srv/export' && exportfs -f")
        pair.server.sh(f"echo {threads} > /proc/fs/nfsd/threads")

    apply(threads, splice, "ro" if read_only else "rw")
    try:
        yield
    finally:
        apply(pair.setup.threads, True, "rw")


def _sums(pair: Pair) -> str:
    """Returns the checksums of the server's files in its page cache."""
    return pair.server.sh("cd /srv/export && find . -type f | sort | xargs sha256sum", timeout=200)


@pytest.mark.server
@pytest.mark.needs_our_server
@pytest.mark.breaks_rules
@pytest.mark.rxe_only
@pytest.mark.full
@pytest.mark.parametrize(
    ("threads", "splice", "read_only"),
    [(1, True, True), (8, True, False), (1, False, False), (8, False, True)],
)
@pytest.mark.parametrize("name", ["110-small-write-chunks", "111-small-session", "112-no-result"])
def test_files_stay(pair: Pair, name: str, *, threads: int, splice: bool, read_only: bool) -> None:
    """Replies that cannot be sent, and those encoded after them, change no file of the server."""
    requester.prepare(pair)
    before = _sums(pair)
    with _export(pair, threads=threads, splice=splice, read_only=read_only):
        requester.play(pair, name, LIMIT)
        assert _sums(pair) == before
    pair.server.sh("echo 3 > /proc/sys/vm/drop_caches")
    assert _sums(pair) == before


@pytest.mark.server
@pytest.mark.needs_our_server
@pytest.mark.breaks_rules
@pytest.mark.rxe_only
def test_bytes_of_others(pair: Pair) -> None:
    """Nothing that one connection has sent is in what another connection stores or is answered."""
    requester.play(pair, "115-bytes-of-others", LIMIT)
    links = pair.server.sh("find /srv/export/hostile -type l -printf '%l\\n'")
    assert "not yours" not in links
    pair.server.sh("find /srv/export/hostile -type l -delete")


@pytest.mark.server
@pytest.mark.full
@pytest.mark.breaks_rules
@pytest.mark.rxe_only
def test_links(pair: Pair) -> None:
    """READLINK of NFSv4 returns the path by a Write chunk, and the stock server another path."""
    requester.prepare(pair)
    requester.play(pair, "125-links", LIMIT)
    pair.server.sh("find /srv/export/hostile -type l -delete")


@pytest.mark.server
@pytest.mark.full
@pytest.mark.breaks_rules
@pytest.mark.rxe_only
def test_read_plus(pair: Pair) -> None:
    """READ_PLUS returns the bytes of the file, inline and by either kind of chunk."""
    requester.prepare(pair)
    requester.play(pair, "124-read-plus", LIMIT)
