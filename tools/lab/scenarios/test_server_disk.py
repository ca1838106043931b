# SPDX-License-Identifier: GPL-2.0
"""A server that exports a disk: how nfsd reads and writes it, and disks that are full or fail."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.fixtures import Counters
from lab.harness import Options
from lab.pair import MOUNT_POINT, Pair
from lab.records import Records
from lab.worker import Worker

pytestmark = [pytest.mark.server, pytest.mark.full]

DISK = pytest.mark.parametrize("pair", [Options(disk=True)], indirect=True)
VERSIONS = pytest.mark.parametrize("version", ["3", "4.2"])
VERIFY, LIMIT = "python3 /lab/verify.py", 400
FORGET = "sync; echo 3 > /proc/sys/vm/drop_caches"
#: How nfsd reads and writes a file, by the values of its files in debugfs.
NFSD, TRACES = "/sys/kernel/debug/nfsd", "/sys/kernel/tracing"
BUFFERED, DONTCACHE, DIRECT = range(3)
#: The MiB of a file that does not fit on the disk, which has room for 10.
WHOLE = 24
#: A size of blocks that fits neither sectors nor pages.
ODD = 69001


@contextmanager
def _io(pair: Pair, read: int, write: int) -> Iterator[None]:
    """Sets how nfsd reads and writes for the block, and traces its direct I/O."""
    events = "events/nfsd/nfsd_read_direct events/nfsd/nfsd_write_direct"
    enable = f"cd {TRACES} && echo > trace && for e in {events}; do echo %d > $e/enable; done"
    pair.server.sh(f"echo {read} > {NFSD}/io_cache_read; echo {write} > {NFSD}/io_cache_write")
    pair.server.sh(enable % 1)
    try:
        yield
    finally:
        pair.server.sh(enable % 0)
        pair.server.sh(f"echo 0 > {NFSD}/disable-splice-read; echo 0 > {NFSD}/io_cache_write")


def _direct(pair: Pair, kind: str) -> int:
    """Returns how many READs or WRITEs nfsd has carried out by direct I/O, as far as traced."""
    return int(pair.server.run(f"grep -c nfsd_{kind}_direct: {TRACES}/trace").stdout or 0)


#: Writes and reads the longest payload past the cache at places that fit no sector and no page.
LONG = f"""
import mmap, os, random, sys
file = os.open("{MOUNT_POINT}/long", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
whole = bytearray(4 << 20)
length = 1 << 20
with mmap.mmap(-1, length) as buffer:
    for at in (0, 1, 511, 513, 4095, 4097, (1 << 20) + 100, (2 << 20) - 3):
        buffer[:] = whole[at : at + length] = random.Random(at).randbytes(length)
        done = 0
        while done < length:
            with memoryview(buffer)[done:] as view:
                done += os.pwrite(file, view, at + done)
    for at in (0, 1, 511, 513, 4095, 4097, (1 << 20) + 100, (2 << 20) - 3):
        got = os.preadv(file, [buffer], at)
        if buffer[:got] != whole[at : at + got] or got < length:
            sys.exit(f"{{got}} bytes at {{at}} differ")
"""


@DISK
@VERSIONS
@pytest.mark.parametrize(
    ("read", "write"),
    [(DIRECT, DIRECT), (DONTCACHE, DONTCACHE), (BUFFERED, DIRECT), (DIRECT, DONTCACHE)],
)
def test_cache_modes(pair: Pair, counters: Counters, version: str, read: int, write: int) -> None:
    """READs and WRITEs of odd places and sizes are right however nfsd uses its page cache."""
    pair.server.sh("rm -rf /srv/export/*")
    with _io(pair, read, write):
        pair.mount(version)
        worker = Worker(pair, block=ODD)
        for suite in ("direct", "offsets", "sizes"):
            pair.client.sh(f"{VERIFY} write {suite} {MOUNT_POINT}/{suite}", timeout=LIMIT)
            pair.client.sh(FORGET)
            pair.server.sh(FORGET)
            pair.client.sh(f"{VERIFY} check {suite} {MOUNT_POINT}/{suite}", timeout=LIMIT)
            pair.server.sh(f"{VERIFY} check {suite} /srv/export/{suite}", timeout=LIMIT)
        # nfsd of Linux 7.2 does not use direct I/O on a file that an open of NFSv4 has created.
        pair.server.sh(": > /srv/export/long; chmod 666 /srv/export/long")
        pair.client.sh("python3 -", stdin=LONG.encode(), timeout=LIMIT)
        worker.await_progress(60, 120)
        said = worker.finish()
        made = {kind: _direct(pair, kind) for kind in ("read", "write")}
    print(said, made)
    assert "errors=0" in said
    # btrfs does not tell the alignment that its direct I/O needs.
    able = pair.setup.export != "btrfs"
    for kind, mode in (("read", read), ("write", write)):
        assert (made[kind] > 0) == (mode == DIRECT and able)
    assert counters.connects() == 1
    pair.umount()


def _fill(pair: Pair, how: str) -> tuple[int, int, int]:
    """Writes a file until an error; returns whole MiB, the error of a write, and that of fsync.

    `how`: ``direct`` or ``cached``, which is also the name of the file.
    """
    words = f"write {MOUNT_POINT}/{how} {WHOLE} {how}"
    said = pair.client.sh(f"python3 /lab/fill.py {words}", timeout=LIMIT)
    done, error, last = map(int, said.split())
    return done, error, last


def _filled(pair: Pair, name: str, count: int) -> None:
    """Checks on the server the blocks that `_fill` has written."""
    pair.server.sh(f"python3 /lab/fill.py check /srv/export/{name} {count}", timeout=LIMIT)


@DISK
@VERSIONS
def test_full_disk(pair: Pair, counters: Counters, version: str) -> None:
    """A writer learns that the disk is full, by write() or fsync(), and has lost nothing else."""
    pair.server.sh("rm -rf /srv/export/*; sync")
    pair.server.sh(
        "free=$(df --output=avail -k /srv/export | tail -1);"
        " fallocate -l $((free - 10240))K /srv/export/ballast"
    )
    pair.mount(version)
    done, error, _ = _fill(pair, "direct")
    print(f"past the cache: {done} MiB, errno {error}")
    assert 0 < done < WHOLE
    assert error == errno.ENOSPC
    _filled(pair, "direct", done)
    pair.client.sh(f"rm {MOUNT_POINT}/direct; sync")
    done, error, last = _fill(pair, "cached")
    print(f"through the cache: {done} MiB, errno {error}, at the end {last}")
    assert errno.ENOSPC in (error, last)
    pair.server.sh("rm /srv/export/ballast; sync")
    assert _fill(pair, "cached") == (WHOLE, 0, 0)
    _filled(pair, "cached", WHOLE)
    assert _fill(pair, "direct") == (WHOLE, 0, 0)
    _filled(pair, "direct", WHOLE)
    assert counters.connects() == 1
    pair.umount()


#: Reads a file past the cache; prints how many READs were whole, short, and failed.
READ = f"""
import mmap, os, random, sys
file = os.open("{MOUNT_POINT}/data", os.O_RDONLY | os.O_DIRECT)
whole = random.Random(1).randbytes(16 << 20)
right = short = failed = 0
for length in (1 << 20, 131072, 4096, 70001):
    for at in range(0, len(whole) - length, 2 << 20):
        with mmap.mmap(-1, length) as buffer:
            try:
                got = os.preadv(file, [buffer], at)
            except OSError as err:
                failed += 1
                continue
            if buffer[:got] != whole[at : at + got] or not got:
                sys.exit(f"{{got}} bytes at {{at}} differ")
            right += got == length
            short += got < length
print(right, short, failed)
"""
WRITE = 'import random; open("/srv/export/data", "wb").write(random.Random(1).randbytes(16 << 20))'


@DISK
@VERSIONS
@pytest.mark.parametrize("read", [BUFFERED, DIRECT])
def test_failing_reads(pair: Pair, counters: Counters, version: str, read: int) -> None:
    """While the disk fails reads, READs fail or return what there is; then all bytes are right."""
    assert pair.disk is not None
    pair.server.sh("rm -rf /srv/export/*")
    pair.server.sh(f"python3 -c '{WRITE}'")
    pair.mount(version)
    forget = "sync; echo 1 > /proc/sys/vm/drop_caches"
    with _io(pair, read, BUFFERED):
        outcomes = {}
        for share in (1.0, 0.3, 0.0):
            pair.server.sh(forget)
            pair.disk.fail("read", errno.EIO, share)
            outcomes[share] = pair.client.sh("python3 -", stdin=READ.encode()).split()
            pair.disk.heal()
    print(f"right, short and failed READs: {outcomes}; {pair.disk.tally()['failed']} requests")
    assert outcomes[1.0][:2] == ["0", "0"]
    assert outcomes[0.3] not in (outcomes[1.0], outcomes[0.0])
    assert outcomes[0.0][1:] == ["0", "0"]
    assert counters.connects() == 1
    pair.umount()


# After a boot the numbers of queue pairs repeat.
@pytest.mark.breaks_rules
@DISK
@VERSIONS
def test_failing_writes(pair: Pair, counters: Counters, version: str) -> None:
    """The disk fails amid writes: each writer learns of it, and what was stable is there.

    A file system whose journal fails becomes read-only, so later writes fail too.
    """
    assert pair.disk is not None
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount(version)
    records = Records(pair, f"v{version}", MOUNT_POINT)
    records.await_stable(20, LIMIT)
    pair.disk.fail("write", errno.EIO)
    errors = records.await_failures(LIMIT)
    print(errors)
    assert pair.disk.tally()["failed"] > 0
    pair.disk.heal()
    assert len(errors) == Records.WRITERS
    known = [f"OSError({error}," for error in (errno.EIO, errno.ENOSPC, errno.EROFS)]
    assert all(any(error in text for error in known) for text in errors)
    assert counters.connects() == 1
    # The server could not even unmount such a file system; it recovers by a boot.
    pair.crash_server(2)
    records.check_server()
    pair.start_server()
    pair.client.sh(f"ls {MOUNT_POINT}", timeout=LIMIT)
    pair.umount()


#: Writes a file past the cache, and prints the number of the error or 0.
PUT = f"""
import mmap, os
try:
    file = os.open("{MOUNT_POINT}/put", os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    with mmap.mmap(-1, 1 << 20) as buffer:
        os.pwrite(file, buffer, 0)
    os.fsync(file)
    print(0)
except OSError as err:
    print(err.errno)
"""


@DISK
@VERSIONS
def test_read_only(pair: Pair, counters: Counters, version: str) -> None:
    """A file system becomes read-only under the mount, and writable again."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount(version)
    pair.client.sh(f"{VERIFY} write sizes {MOUNT_POINT}/sizes", timeout=LIMIT)
    pair.client.sh(FORGET)
    # Files that are open would keep an ordinary remount from becoming read-only.
    read_only = "until grep -q '/srv/.disk [^ ]* ro' /proc/mounts; do sleep 0.1; done"
    pair.server.sh(f"echo u > /proc/sysrq-trigger; {read_only}")
    assert pair.client.sh("python3 -", stdin=PUT.encode()).strip() == str(errno.EROFS)
    pair.client.sh(f"{VERIFY} check sizes {MOUNT_POINT}/sizes", timeout=LIMIT)
    pair.server.sh("mount -o remount,rw /srv/.disk")
    assert pair.client.sh("python3 -", stdin=PUT.encode()).strip() == "0"
    assert counters.connects() == 1
    pair.umount()
