# SPDX-License-Identifier: GPL-2.0
"""A user over its quota on the server's file system gets EDQUOT, and nobody else does.

The lab's own kernels have no quotas: `KERNEL=debian EXPORT=xfs`, or `EXPORT=ext4`.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.fixtures import Counters
from lab.pair import MOUNT_POINT, Pair

pytestmark = [pytest.mark.server, pytest.mark.full, pytest.mark.needs_quotas]

VERSIONS = pytest.mark.parametrize("version", ["3", "4.2"])
FILL, LIMIT = "python3 /lab/fill.py", 400
#: Users, and the quota of the first one in MiB and files.
LIMITED, OTHER = 1001, 1002
MOST_MIB, MOST_FILES = 8, 6
#: The MiB that each user writes.
WHOLE = 24


def _limit(pair: Pair, mebibytes: int, files: int) -> list[int]:
    """Sets the quota of `LIMITED`, 0 for none; returns the bytes and files that the user has."""
    words = f"/dev/vdc {LIMITED} {mebibytes << 10} {files}"
    return [int(word) for word in pair.server.sh(f"python3 /lab/quota.py {words}").split()]


def _await_use(pair: Pair, used: int, files: int) -> None:
    """Waits until the user has no more than this; xfs frees what is removed in the background."""
    deadline = time.monotonic() + 30 * pair.patience
    while (found := _limit(pair, MOST_MIB, MOST_FILES)) != [used, files]:
        assert time.monotonic() < deadline, f"bytes and files: {found}, not {[used, files]}"
        time.sleep(0.2)


@contextmanager
def _limited(pair: Pair, version: str) -> Iterator[None]:
    """Mounts the empty export, where a user has a quota for the block."""
    pair.server.sh("rm -rf /srv/export/*; sync")
    _await_use(pair, 0, 0)
    pair.mount(version)
    try:
        yield
    finally:
        _limit(pair, 0, 0)
    pair.umount()


def _write(pair: Pair, name: str, how: str, user: int) -> int:
    """Starts to write a file as a user; returns the process."""
    return pair.client.vm.start(f"exec {FILL} write {MOUNT_POINT}/{name} {WHOLE} {how} {user}")


def _wrote(pair: Pair, process: int) -> tuple[int, int, int]:
    """Returns whole MiB, and the errors of a write and at the end, when a process has ended."""
    done = pair.client.vm.agent.wait(process, LIMIT)
    assert done.status == 0, done
    whole, error, last = map(int, done.stdout.split())
    return whole, error, last


@VERSIONS
@pytest.mark.parametrize("how", ["direct", "cached"])
def test_space(pair: Pair, counters: Counters, version: str, how: str) -> None:
    """A writer over its quota learns of it, keeps what fits, and disturbs no other user."""
    with _limited(pair, version):
        limited, other = (_write(pair, f"of-{user}", how, user) for user in (LIMITED, OTHER))
        whole, error, last = _wrote(pair, limited)
        print(f"{whole} MiB, error {error} of a write, {last} at the end")
        assert errno.EDQUOT in (error, last)
        assert {error, last} <= {0, errno.EDQUOT}
        assert _wrote(pair, other) == (WHOLE, 0, 0)
        pair.server.sh(f"{FILL} check /srv/export/of-{OTHER} {WHOLE}", timeout=LIMIT)
        right, empty = map(
            int, pair.server.sh(f"{FILL} pages /srv/export/of-{LIMITED}", timeout=LIMIT).split()
        )
        used, files = _limit(pair, MOST_MIB, MOST_FILES)
        print(f"{right} pages are right, {empty} are empty; the user has {used} bytes")
        assert used <= MOST_MIB << 20
        # A whole WRITE that does not fit is not carried out in part.
        assert right * 4096 > (MOST_MIB - 3) << 20
        assert files == 1
        if how == "direct":
            assert error == errno.EDQUOT
            assert 0 < whole < MOST_MIB + 1
            pair.server.sh(f"{FILL} check /srv/export/of-{LIMITED} {whole}", timeout=LIMIT)
        # With a larger quota the same user writes the same file.
        _limit(pair, 2 * WHOLE, MOST_FILES)
        assert _wrote(pair, _write(pair, f"of-{LIMITED}", how, LIMITED)) == (WHOLE, 0, 0)
        for place in (pair.server, "/srv/export"), (pair.client, MOUNT_POINT):
            place[0].sh(f"{FILL} check {place[1]}/of-{LIMITED} {WHOLE}", timeout=LIMIT)
        assert counters.connects() == 1


#: Makes files as a user until an error; prints how many, and the error.
MAKE = f"""
import os, sys
os.setuid(int(sys.argv[1]))
error = made = 0
try:
    for made in range({MOST_FILES + 4}):
        os.close(os.open("{MOUNT_POINT}/" + f"{{sys.argv[1]}}-{{made}}", os.O_CREAT | os.O_EXCL))
    made += 1
except OSError as err:
    error = err.errno
print(made, error)
"""


@VERSIONS
def test_files(pair: Pair, counters: Counters, version: str) -> None:
    """A user with too many files gets EDQUOT for the next one; other users make theirs."""
    with _limited(pair, version):
        for user, wanted in (
            (LIMITED, [MOST_FILES, errno.EDQUOT]),
            (OTHER, [MOST_FILES + 4, 0]),
        ):
            said = pair.client.sh(f"python3 - {user}", stdin=MAKE.encode())
            assert [int(word) for word in said.split()] == wanted
        pair.client.sh(f"rm {MOUNT_POINT}/{LIMITED}-0")
        _await_use(pair, 0, MOST_FILES - 1)
        assert counters.connects() == 1
