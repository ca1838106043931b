# SPDX-License-Identifier: GPL-2.0
"""Operations of NFSv4.2 on an export that is a disk."""

from __future__ import annotations

import pytest

from lab.fixtures import Counters
from lab.harness import Options
from lab.pair import MOUNT_POINT, Pair

pytestmark = [pytest.mark.server, pytest.mark.full]

DISK = pytest.mark.parametrize("pair", [Options(disk=True)], indirect=True)
LIMIT = 400
#: Copies, clones, holes and attributes, each compared with what it must be.
OPERATIONS = f"""
import errno, fcntl, os, random, sys
here = "{MOUNT_POINT}/"
whole = bytearray(random.Random(1).randbytes((3 << 20) + 17))
source = os.open(here + "source", os.O_RDWR | os.O_CREAT)
os.write(source, whole)
os.fsync(source)

def same(name, wanted):
    with open(here + name, "rb") as file:
        found = file.read()
    if found != wanted:
        sys.exit(f"{{name}}: {{len(found)}} bytes, wanted {{len(wanted)}}")

def copy(name, begin, length, at):
    target = os.open(here + name, os.O_RDWR | os.O_CREAT)
    done = 0
    while done < length:
        done += os.copy_file_range(source, target, length - done, begin + done, at + done)
    os.close(target)
    same(name, bytes(at) + whole[begin : begin + length])

copy("copy", 0, len(whole), 0)
copy("part", 4096, 1 << 20, 8192)
copy("odd", 10007, 500009, 70001)

clone = os.open(here + "clone", os.O_RDWR | os.O_CREAT)
cloned = 1
try:
    fcntl.ioctl(clone, 0x40049409, source)
    same("clone", whole)
except OSError as err:
    cloned = 0
    if err.errno != errno.EOPNOTSUPP:
        raise

holes = os.open(here + "holes", os.O_RDWR | os.O_CREAT)
for at in (0, 200001, 1 << 20, (2 << 20) + 4095):
    os.pwrite(holes, whole[at : at + 30011], at)
os.ftruncate(holes, 3 << 20)
os.posix_fallocate(holes, 4 << 20, 12345)
os.fsync(holes)
seen, at = [], 0
while True:
    try:
        begin = os.lseek(holes, at, os.SEEK_DATA)
    except OSError:
        break
    at = os.lseek(holes, begin, os.SEEK_HOLE)
    seen.append((begin, at))
# Each thing that was written is in data.
for begin in (0, 200001, 1 << 20, (2 << 20) + 4095):
    if not any(first <= begin and begin + 30011 <= last for first, last in seen):
        sys.exit(f"SEEK: {{seen}}")

os.setxattr(here + "copy", "user.one", b"x" * 1000)
os.setxattr(here + "copy", "user.empty", b"")
if os.getxattr(here + "copy", "user.one") != b"x" * 1000:
    sys.exit("xattr")
print(cloned, len(seen))
"""
#: The file with holes as the server must have it, and what its file system knows of them.
HOLES = """
import os, random, sys
whole = random.Random(1).randbytes((3 << 20) + 17)
wanted = bytearray((4 << 20) + 12345)
for at in (0, 200001, 1 << 20, (2 << 20) + 4095):
    wanted[at : at + 30011] = whole[at : at + 30011]
for begin, end in eval(sys.argv[2]):
    wanted[begin:end] = bytes(end - begin)
with open(sys.argv[1], "rb") as file:
    if file.read() != wanted:
        sys.exit("the holes differ")
"""


@DISK
def test_operations(pair: Pair, counters: Counters) -> None:
    """COPY, CLONE, SEEK, ALLOCATE, DEALLOCATE and attributes do what they must."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount("4.2")
    said = pair.client.sh("python3 -", stdin=OPERATIONS.encode(), timeout=LIMIT)
    cloned, parts = map(int, said.split())
    print(f"{parts} parts of data; {'a' if cloned else 'no'} clone")
    assert bool(cloned) == (pair.setup.export in ("xfs", "btrfs"))
    assert parts > 1
    punched = "[(1048600, 1060001)]"
    pair.client.sh(f"fallocate -p -o 1048600 -l {1060001 - 1048600} {MOUNT_POINT}/holes")
    pair.client.sh(f"sync {MOUNT_POINT}/holes; echo 3 > /proc/sys/vm/drop_caches")
    for guest, where in ((pair.server, "/srv/export"), (pair.client, MOUNT_POINT)):
        guest.sh(f"python3 - {where}/holes '{punched}'", stdin=HOLES.encode())
        assert guest.sh(f"cmp {where}/source {where}/copy") == ""
    done = counters.operations()
    # Linux does not send READ_PLUS over RDMA.
    for name in ("COPY", "SEEK", "ALLOCATE", "DEALLOCATE", "READ", "SETXATTR"):
        assert done[name] > 0, name
    pair.umount()
