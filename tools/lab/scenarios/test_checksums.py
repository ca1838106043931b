# SPDX-License-Identifier: GPL-2.0
"""Files, names and attributes, byte for byte, in both directions.

Each suite of guest/verify.py is written on the client and checked on the
server's own file system, then written on the server and checked on the client
with nothing cached. Between them the suites use inline calls and replies, Read
chunks, Write chunks, Reply chunks and position-zero calls.
"""

from __future__ import annotations

import pytest

from lab.pair import MOUNT_POINT, Pair

SUITES = ("sizes", "direct", "mmap", "append", "offsets", "names", "xattrs", "big")
VERIFY = "python3 /lab/verify.py"
DROP_CACHES = "sync; echo 3 > /proc/sys/vm/drop_caches"
VERSIONS = [
    pytest.param("3", marks=pytest.mark.full),
    pytest.param("4.2", marks=pytest.mark.debug_kernel),
]
#: Seconds; the debug kernel takes eight times as long as the plain one.
LIMIT = 400


#: What the short run leaves out of versions 3 and 4.2: 4.2 stands for all that both have.
LONG = {("3", suite) for suite in SUITES[2:]} | {("4.2", "names"), ("4.2", "big")}
#: The short run's on the debug kernel, ten times as slow: a call and a reply of each kind.
DEBUG = ("sizes", "direct", "xattrs")


def _cases() -> list[object]:
    """Every suite with every version."""
    cases = []
    for version in ("3", "4.0", "4.1", "4.2"):
        for suite in SUITES:
            if suite == "xattrs" and version != "4.2":
                continue
            short = version in ("3", "4.2") and (version, suite) not in LONG
            marks = [] if short else [pytest.mark.full]
            if version == "4.2" and suite in DEBUG:
                marks.append(pytest.mark.debug_kernel)
            cases.append(pytest.param(version, suite, marks=marks))
    return cases


@pytest.mark.parametrize(("version", "suite"), _cases())
def test_both_ways(pair: Pair, version: str, suite: str) -> None:
    """What one side writes the other reads, whichever side it is."""
    pair.server.sh("rm -rf /srv/export/*", timeout=LIMIT)
    pair.mount(version)
    pair.client.sh(f"{VERIFY} write {suite} {MOUNT_POINT}/up", timeout=LIMIT)
    pair.client.sh(f"sync -f {MOUNT_POINT}/up", timeout=LIMIT)
    pair.server.sh(f"{VERIFY} check {suite} /srv/export/up", timeout=LIMIT)
    pair.client.sh(f"{DROP_CACHES}; {VERIFY} check {suite} {MOUNT_POINT}/up", timeout=LIMIT)
    pair.server.sh(f"{VERIFY} write {suite} /srv/export/down", timeout=LIMIT)
    pair.client.sh(f"{DROP_CACHES}; {VERIFY} check {suite} {MOUNT_POINT}/down", timeout=LIMIT)
    pair.client.sh(f"rm -r {MOUNT_POINT}/up", timeout=LIMIT)
    assert pair.server.sh("ls -A /srv/export").split() == ["down"]
    pair.umount()


@pytest.mark.parametrize("version", VERSIONS)
def test_large_directory(pair: Pair, version: str) -> None:
    """A directory of 5,000 entries, names up to 255 bytes, as the client lists it."""
    pair.server.sh("rm -rf /srv/export/*", timeout=LIMIT)
    pair.server.sh(f"{VERIFY} write many /srv/export/many", timeout=LIMIT)
    pair.mount(version)
    pair.client.sh(f"{VERIFY} check many {MOUNT_POINT}/many", timeout=LIMIT)
    pair.umount()


@pytest.mark.parametrize("version", VERSIONS)
def test_small_inline_thresholds(pair: Pair, version: str) -> None:
    """Names and small files with 1 KiB inline thresholds: more of everything is chunked."""
    knobs = "/proc/sys/sunrpc/rdma_max_inline"
    if pair.client.sh("ls /proc/sys/sunrpc").count("rdma_max_inline") != 2:
        pytest.skip("the client's module has no such sysctl")
    pair.server.sh("rm -rf /srv/export/*", timeout=LIMIT)
    saved = pair.client.read(f"{knobs}_read").strip(), pair.client.read(f"{knobs}_write").strip()
    pair.client.sh(f"echo 1024 > {knobs}_read; echo 1024 > {knobs}_write")
    try:
        pair.mount(version)
        for suite in ("sizes", "names"):
            pair.client.sh(f"{VERIFY} write {suite} {MOUNT_POINT}/{suite}", timeout=LIMIT)
            pair.client.sh(
                f"{DROP_CACHES}; {VERIFY} check {suite} {MOUNT_POINT}/{suite}", timeout=LIMIT
            )
            pair.server.sh(f"{VERIFY} check {suite} /srv/export/{suite}", timeout=LIMIT)
        pair.umount()
    finally:
        pair.client.sh(f"echo {saved[0]} > {knobs}_read; echo {saved[1]} > {knobs}_write")
