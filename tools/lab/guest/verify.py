#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Write known contents, or check them: the same program runs in both guests.

Contents depend on the file's name alone, so that the reader can compare byte
for byte without a message from the writer.

usage: verify.py (write|check) (sizes|direct|mmap|append|offsets|big|names|many|xattrs) DIRECTORY
"""

import mmap
import os
import random
import sys

MIB = 1 << 20
SIZES = (
    [0, 1, 2, 3, 4, 5, 511, 512, 513, 1023, 1024, 1025, 2047, 3071, 3500, 3600, 3700]
    + [3800, 3900, 4000, 4095, 4096, 4097, 8191, 8192, 8193, 12345, 65535, 65536, 65537]
    + [131071, 262143, 262145, 524289, MIB - 1, MIB, MIB + 1, MIB + 4097, 3 * MIB + 17]
)
ENTRIES = 300
MANY = 5000


def contents(name: str, size: int) -> bytes:
    """Returns the contents of the file `name` of `size` bytes."""
    return random.Random(name).randbytes(size)


def same(what: str, found: bytes, wanted: bytes) -> None:
    """Compares, and ends the program with the place of the first difference."""
    if found == wanted:
        return
    at = next((i for i, (a, b) in enumerate(zip(found, wanted)) if a != b), None)
    sys.exit(f"{what}: {len(found)} bytes, wanted {len(wanted)}; first difference at {at}")


def pieces(name: str, size: int, align: int = 1):
    """Returns a random partition of [0, size) into (offset, length), in random order."""
    rng, offset, out = random.Random("pieces" + name), 0, []
    while offset < size:
        length = min(rng.choice([1, 7, 100, 512, 4096, 5000, 65536, 100000, 262144]), size - offset)
        if align > 1 and offset + length < size:
            length = min(-(-length // align) * align, size - offset)
        out.append((offset, length))
        offset += length
    rng.shuffle(out)
    return out


def aligned(data: bytes) -> mmap.mmap:
    """Returns a page-aligned buffer, which O_DIRECT needs on most file systems."""
    buffer = mmap.mmap(-1, max(len(data), 1))
    buffer[: len(data)] = data
    return buffer


def read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def write_sizes(directory: str) -> None:
    for size in SIZES:
        with open(f"{directory}/s{size}", "wb") as file:
            file.write(contents(f"s{size}", size))


def check_sizes(directory: str) -> None:
    for size in SIZES:
        same(f"s{size}", read_file(f"{directory}/s{size}"), contents(f"s{size}", size))


DIRECT = [(f"d{size}", size) for size in (4096, 8192, 65536, MIB, MIB + 8192, 3 * MIB)]
DIRECT_ODD = [(f"o{size}", size) for size in (1, 100, 4097, 70001, MIB + 3)]


def direct() -> int:
    """Returns O_DIRECT on the client. On the server files are local, and need an alignment."""
    return os.O_DIRECT if os.path.ismount("/mnt/nfs") else 0


def write_direct(directory: str) -> None:
    for name, size in DIRECT + DIRECT_ODD:
        align = 4096 if name[0] == "d" else 1
        data = contents(name, size)
        fd = os.open(f"{directory}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | direct())
        for offset, length in pieces(name, size, align):
            with aligned(data[offset : offset + length]) as buffer:
                view = memoryview(buffer)[:length]
                wrote = os.pwrite(fd, view, offset)
                view.release()
            if wrote != length:
                sys.exit(f"{name}: short direct write at {offset}: {wrote} of {length}")
        os.close(fd)


def check_direct(directory: str) -> None:
    flags = os.O_RDONLY | direct()
    for name, size in DIRECT + DIRECT_ODD:
        align = 4096 if name[0] == "d" else 1
        data, fd = contents(name, size), os.open(f"{directory}/{name}", flags)
        for offset, length in pieces(name + "read", size, align):
            with aligned(bytes(-(-length // 4096) * 4096)) as buffer:
                view = memoryview(buffer)[:length]
                got = os.preadv(fd, [view], offset)
                found = bytes(view[:got])
                view.release()
            same(f"{name} at {offset}", found, data[offset : offset + length])
        os.close(fd)


MAPPED = [(f"m{size}", size) for size in (1, 4095, 4097, 300001, 2 * MIB + 5)]


def write_mmap(directory: str) -> None:
    for name, size in MAPPED:
        data = contents(name, size)
        with open(f"{directory}/{name}", "w+b") as file:
            file.truncate(size)
            with mmap.mmap(file.fileno(), size) as area:
                for offset, length in pieces(name, size):
                    area[offset : offset + length] = data[offset : offset + length]
                area.flush()


def check_mmap(directory: str) -> None:
    for name, size in MAPPED:
        data = contents(name, size)
        with open(f"{directory}/{name}", "rb") as file:
            with mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as area:
                for offset, length in pieces(name + "read", size):
                    found = area[offset : offset + length]
                    same(f"{name} at {offset}", found, data[offset : offset + length])


def write_append(directory: str) -> None:
    data = contents("append", 500_003)
    fd = os.open(f"{directory}/append", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    for offset, length in sorted(pieces("append", len(data))):
        os.write(fd, data[offset : offset + length])
        if offset % 3 == 0:
            os.fsync(fd)
    os.close(fd)


def check_append(directory: str) -> None:
    same("append", read_file(f"{directory}/append"), contents("append", 500_003))


OFFSETS = [("random", 2 * MIB + 777)]


def write_offsets(directory: str) -> None:
    for name, size in OFFSETS:
        data = contents(name, size)
        fd = os.open(f"{directory}/{name}", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        for offset, length in pieces(name, size):
            os.pwrite(fd, data[offset : offset + length], offset)
        os.fsync(fd)
        os.close(fd)


def check_offsets(directory: str) -> None:
    for name, size in OFFSETS:
        data, fd = contents(name, size), os.open(f"{directory}/{name}", os.O_RDONLY)
        for offset, length in pieces(name + "read", size):
            same(
                f"{name} at {offset}", os.pread(fd, length, offset), data[offset : offset + length]
            )
        os.close(fd)


def big_blocks(directory: str):
    """Yields blocks that differ from those of any other directory."""
    name = os.path.basename(directory)
    for index in range(64):
        yield index, contents(f"{name}/big{index}", MIB)


def write_big(directory: str) -> None:
    with open(f"{directory}/big", "wb") as file:
        for _, block in big_blocks(directory):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())


def check_big(directory: str) -> None:
    with open(f"{directory}/big", "rb") as file:
        for index, block in big_blocks(directory):
            same(f"big, MiB {index}", file.read(MIB), block)
        same("big, end", file.read(1), b"")


def entry_names(count: int):
    rng = random.Random("names")
    for index in range(count):
        length = rng.choice([1, 10, 20, 40, 80, 200, 255])
        yield f"{index:05d}{'n' * length}"[: max(5, length)]


def link_targets():
    for length in (1, 40, 500, 1000, 2000, 4000):
        yield f"link{length}", "t" * length


def make_entries(directory: str, count: int) -> None:
    os.makedirs(directory, exist_ok=True)
    for name in entry_names(count):
        os.close(os.open(f"{directory}/{name}", os.O_WRONLY | os.O_CREAT))


def check_entries(directory: str, count: int) -> None:
    found, wanted = sorted(os.listdir(directory)), sorted(entry_names(count))
    if found != wanted:
        sys.exit(f"{len(found)} entries, wanted {len(wanted)}")


def write_many(directory: str) -> None:
    make_entries(directory, MANY)


def check_many(directory: str) -> None:
    check_entries(directory, MANY)


def write_names(directory: str) -> None:
    make_entries(f"{directory}/entries", ENTRIES)
    for name, target in link_targets():
        os.symlink(target, f"{directory}/{name}")
    os.rename(f"{directory}/link1", f"{directory}/renamed")
    os.link(f"{directory}/entries/{next(entry_names(1))}", f"{directory}/hard")


def check_names(directory: str) -> None:
    check_entries(f"{directory}/entries", ENTRIES)
    for name, target in link_targets():
        path = f"{directory}/" + ("renamed" if name == "link1" else name)
        same(name, os.readlink(path).encode(), target.encode())
    if os.stat(f"{directory}/hard").st_nlink != 2:
        sys.exit("hard link lost")


# At most a page: os.getxattr() asks with a small buffer first, for which the NFS client offers
# one page, and Linux's server answers a larger value with ERR_CHUNK; the stock client fails alike.
XATTRS = [(f"user.x{size}", size) for size in (0, 1, 100, 127, 1000, 3000, 4000)]


def write_xattrs(directory: str) -> None:
    for name, size in XATTRS:
        path = f"{directory}/{name}"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
        os.setxattr(path, name, contents(name, size))
    os.close(os.open(f"{directory}/listed", os.O_WRONLY | os.O_CREAT))
    for index in range(200):
        os.setxattr(f"{directory}/listed", f"user.number{index:03d}", b"%d" % index)


def check_xattrs(directory: str) -> None:
    for name, size in XATTRS:
        same(name, os.getxattr(f"{directory}/{name}", name), contents(name, size))
    # An NFSv4 mount lists its ACL as well.
    found = sorted(n for n in os.listxattr(f"{directory}/listed") if n.startswith("user."))
    if found != [f"user.number{index:03d}" for index in range(200)]:
        sys.exit(f"listxattr: {len(found)} names")


def main() -> None:
    action, suite, directory = sys.argv[1:]
    if action == "write":
        os.makedirs(directory, exist_ok=True)
    globals()[f"{action}_{suite}"](directory)


main()
