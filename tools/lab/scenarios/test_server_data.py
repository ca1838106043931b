# SPDX-License-Identifier: GPL-2.0
"""Data that a server sends in unusual ways: holes, files that shrink, copied pages."""

from __future__ import annotations

import pytest

from lab import settings
from lab.fixtures import Counters
from lab.pair import MOUNT_POINT, Pair

pytestmark = [pytest.mark.server, pytest.mark.export]

VERIFY = "python3 /lab/verify.py"
DROP_CACHES = "sync; echo 3 > /proc/sys/vm/drop_caches"
LIMIT = 400
full = pytest.mark.full
VERSIONS = ["3", pytest.param("4.0", marks=full), pytest.param("4.1", marks=full), "4.2"]
#: Settings of nfsd: how it reads a file, and how it writes one.
SPLICE = "/sys/kernel/debug/nfsd/disable-splice-read"
HOLES = """
import os
with open("/srv/export/holes", "wb") as file:
    for index in range(0, 64, 3):
        file.seek(index * 10007)
        file.write(bytes([index + 1]) * 5003)
    file.truncate(2 << 20)
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_holes(pair: Pair, version: str) -> None:
    """A file with holes of odd sizes arrives byte for byte, and holes that the client makes."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.server.sh("python3 -", stdin=HOLES.encode())
    pair.mount(version)
    here = pair.client.sh(f"sha256sum < {MOUNT_POINT}/holes")
    assert here == pair.server.sh("sha256sum < /srv/export/holes")
    seek = f"dd if=/dev/urandom of={MOUNT_POINT}/made bs=1000 count=3"
    pair.client.sh(f"{seek} seek=777 2>/dev/null; truncate -s 3000001 {MOUNT_POINT}/made")
    pair.client.sh(f"sync {MOUNT_POINT}/made; {DROP_CACHES}")
    here = pair.client.sh(f"sha256sum < {MOUNT_POINT}/made")
    assert here == pair.server.sh("sha256sum < /srv/export/made")
    assert pair.server.sh("stat -c %s /srv/export/made").strip() == "3000001"
    pair.umount()


#: Shortens a file and writes it again, over and over, until /run/shrink.stop exists; its bytes are
#: never anything else than those of the pattern, or zero where a page has been cut off.
SHRINK = """
import os, random
whole = b"pattern." * (128 * 1024)
file = os.open("/srv/export/shrinking", os.O_RDWR | os.O_CREAT)
os.pwrite(file, whole, 0)
print("ready", flush=True)
chance = random.Random(1)
while not os.path.exists("/run/shrink.stop"):
    at = chance.randrange(0, len(whole))
    os.ftruncate(file, at)
    os.pwrite(file, whole[at:], at)
"""
#: Reads for six seconds, and more than ten times.
READ = f"""
import mmap, os, sys, time
file = os.open("{MOUNT_POINT}/shrinking", os.O_RDONLY | os.O_DIRECT)
buffer = mmap.mmap(-1, 1 << 20)
wrong = reads = short = 0
end = time.monotonic() + 6
while time.monotonic() < end or reads <= 10:
    for at, length in ((0, 1 << 20), (4096, 65536), (524288, 524288), (8, 1000)):
        view = memoryview(buffer)[:length]
        got = os.preadv(file, [view], at)
        found = bytes(view[:got])
        view.release()
        whole = b"pattern." * (length // 8)
        if found != whole[:got]:
            pairs = zip(found, whole)
            wrong += any(a != b and a for a, b in pairs)
        reads, short = reads + 1, short + (got < length)
print(reads, short, wrong)
"""


@pytest.mark.parametrize("copied", [False, pytest.param(True, marks=full)])
@pytest.mark.parametrize("version", [pytest.param("3", marks=full), "4.2"])
def test_truncation(pair: Pair, counters: Counters, version: str, copied: bool) -> None:
    """READs of a shrinking file return its bytes or fewer, on the same connection."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.server.sh(f"echo {int(copied)} > {SPLICE}")
    pair.mount(version, options="noac")
    pair.server.write("/run/shrink.py", SHRINK.encode())
    pair.server.sh("rm -f /run/shrink.log /run/shrink.stop")
    shrinking = pair.server.vm.start("python3 /run/shrink.py > /run/shrink.log")
    try:
        pair.server.sh("until grep -q ready /run/shrink.log; do sleep 0.1; done")
        reads, short, wrong = map(int, pair.client.sh("python3 -", stdin=READ.encode()).split())
    finally:
        pair.server.sh(f"touch /run/shrink.stop; echo 0 > {SPLICE}")
    assert pair.server.vm.agent.wait(shrinking, 60).status == 0
    connects = counters.connects()
    print(f"{reads} READs, {short} short, {wrong} wrong; {connects} connections")
    assert reads > 10
    assert wrong == 0
    if settings.server() == "ours":
        assert connects == 1
    pair.umount()


@full
@pytest.mark.parametrize("version", ["3", "4.2"])
@pytest.mark.parametrize("suite", ["sizes", "direct", "offsets"])
def test_copied_reads(pair: Pair, version: str, suite: str) -> None:
    """Without splicing nfsd reads into pages of its own, and the same bytes arrive."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.server.sh(f"{VERIFY} write {suite} /srv/export/down", timeout=LIMIT)
    pair.server.sh(f"echo 1 > {SPLICE}")
    try:
        pair.mount(version)
        pair.client.sh(f"{VERIFY} check {suite} {MOUNT_POINT}/down", timeout=LIMIT)
        pair.umount()
    finally:
        pair.server.sh(f"echo 0 > {SPLICE}")


@full
@pytest.mark.parametrize("size", [4096, 65536, 4 << 20])
def test_payloads(pair: Pair, size: int) -> None:
    """The server's largest payload may be a page, 64 KiB or 4 MiB."""
    pair.server.sh("rm -rf /srv/export/*")
    payload = "/proc/fs/nfsd/max_block_size"
    pair.stop_nfsd()
    pair.server.sh(f"echo {size} > {payload}")
    pair.start_nfsd()
    try:
        pair.mount("4.2")
        for suite in ("sizes", "direct"):
            pair.client.sh(f"{VERIFY} write {suite} {MOUNT_POINT}/{suite}", timeout=LIMIT)
            pair.client.sh(DROP_CACHES)
            pair.client.sh(f"{VERIFY} check {suite} {MOUNT_POINT}/{suite}", timeout=LIMIT)
            pair.server.sh(f"{VERIFY} check {suite} /srv/export/{suite}", timeout=LIMIT)
        pair.umount()
    finally:
        pair.stop_nfsd()
        pair.server.sh(f"echo {1 << 20} > {payload}")
        pair.start_nfsd()


#: Calls that are longer than an inline threshold of 1 KiB without a user's data.
LONG = f"""
cd {MOUNT_POINT}
for length in 500 1000 1023 2000 4000; do
    target=$(printf %0${{length}}d 0)
    ln -s $target link$length && [ "$(readlink link$length)" = $target ] || exit 1
done
for i in $(seq 20); do name=$(printf %0250d $i); : > $name && [ -e $name ] || exit 1; done
mkdir -p $(printf %0250d 1000)/$(printf %0250d 1000)
"""


@pytest.mark.needs_lists
@pytest.mark.parametrize(
    "version", [pytest.param("3", marks=full), pytest.param("4.2", marks=full)]
)
def test_long_calls(pair: Pair, version: str) -> None:
    """Long links, names and access control lists arrive by Read chunks at position zero."""
    knobs = "/proc/sys/sunrpc/rdma_max_inline"
    pair.server.sh("rm -rf /srv/export/*")
    saved = pair.client.read(f"{knobs}_read").strip(), pair.client.read(f"{knobs}_write").strip()
    pair.client.sh(f"echo 1024 > {knobs}_read; echo 1024 > {knobs}_write")
    try:
        pair.mount(version)
        pair.client.sh(LONG, timeout=LIMIT)
        pair.client.sh(f"{DROP_CACHES}; ls -l {MOUNT_POINT} | md5sum; touch {MOUNT_POINT}/acl")
        pair.client.sh(f"python3 /lab/long_acl.py set {MOUNT_POINT}/acl {version}")
        assert int(pair.server.sh("python3 /lab/long_acl.py count /srv/export/acl")) == 330
        pair.umount()
    finally:
        pair.client.sh(f"echo {saved[0]} > {knobs}_read; echo {saved[1]} > {knobs}_write")
    assert len(pair.server.sh("readlink /srv/export/link4000").strip()) == 4000
