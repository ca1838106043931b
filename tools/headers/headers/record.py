# SPDX-License-Identifier: GPL-2.0
"""Records the places of the needed files in a source package, for `pieces`.

For maintainers, after apt has fetched and verified the package::

    cd tools/headers && python3 -m headers.record linux-source-*.deb
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import BinaryIO

from .pieces import KNOWN, STREAM, Piece, content, extract, needed

_FOOTER = 12
#: The length of a member's header in an `ar` archive, which a package is.
_HEADER = 60
_TAR_BLOCK = 512


@dataclass(frozen=True)
class Block:
    """A block of an xz stream: its place and length, before and after decompression."""

    at: int
    length: int
    plain_at: int
    plain: int


def blocks(file: BinaryIO, start: int, size: int) -> list[Block]:
    """Returns the blocks of the stream of `size` bytes at `start`, from its index.

    # Errors
    `ValueError`: no single stream whose blocks have a CRC64.
    """
    file.seek(start)
    if file.read(len(STREAM)) != STREAM:
        raise ValueError("the stream has another check than CRC64")
    file.seek(start + size - _FOOTER)
    footer = file.read(_FOOTER)
    length = (int.from_bytes(footer[4:8], "little") + 1) * 4
    if footer[-2:] != b"YZ":
        raise ValueError("the stream has no end")
    file.seek(start + size - _FOOTER - length)
    return list(_indexed(file.read(length)))


def _indexed(index: bytes) -> Iterator[Block]:
    numbers = _numbers(index[1:])
    at, plain_at = len(STREAM), 0
    for _ in range(next(numbers)):
        length, plain = (next(numbers) + 3) // 4 * 4, next(numbers)
        yield Block(at, length, plain_at, plain)
        at, plain_at = at + length, plain_at + plain


def _numbers(data: bytes) -> Iterator[int]:
    """Returns the numbers of variable length: seven bits in each byte, the lowest first."""
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0


def member(file: BinaryIO, name: str) -> tuple[int, int]:
    """Returns place and length of a member of an `ar` archive.

    # Errors
    `ValueError`: no such member.
    """
    file.seek(8)
    while header := file.read(_HEADER):
        at, length = file.tell(), int(header[48:58])
        if header[:16].decode().rstrip(" /") == name:
            return at, length
        file.seek(at + length + length % 2)
    raise ValueError(f"the package has no {name}")


def record(deb: Path) -> list[Piece]:
    """Returns the pieces of a package.

    # Errors
    `ValueError`: the package, or the tarball in it, is not compressed as a stream of blocks.
    """
    with deb.open("rb") as file, NamedTemporaryFile() as unpacked:
        start, size = member(file, "data.tar.xz")
        outer = blocks(file, start, size)
        subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], stdout=unpacked, check=True)
        with tarfile.open(unpacked.name) as tar:
            tarball = next(m for m in tar if m.name.endswith(".tar.xz"))
        inner = blocks(unpacked.file, tarball.offset_data, tarball.size)
        unpacked.file.seek(tarball.offset_data)
        with tarfile.open(fileobj=unpacked.file, mode="r|xz") as tar:
            spans = list(_spans(tar))
        places = [_place(run, spans) for run in _runs(spans, inner)]
        return [_piece(file, start, outer, tarball.offset_data, *place) for place in places]


def _spans(tar: tarfile.TarFile) -> Iterator[tuple[int, int]]:
    """Returns begin and end of each needed file in the tarball."""
    for entry in tar:
        if entry.isfile() and needed(Path(*Path(entry.name).parts[1:])):
            yield entry.offset, entry.offset_data + -(-entry.size // _TAR_BLOCK) * _TAR_BLOCK


def _covering(found: list[Block], begin: int, end: int) -> list[Block]:
    """Returns the blocks that hold the bytes from `begin` to `end` after decompression."""
    return [b for b in found if b.plain_at < end and begin < b.plain_at + b.plain]


def _runs(spans: list[tuple[int, int]], inner: list[Block]) -> list[list[Block]]:
    """Returns the blocks with needed files, in runs of neighbours."""
    wanted = {block for span in spans for block in _covering(inner, *span)}
    runs: list[list[Block]] = []
    for block in sorted(wanted, key=lambda b: b.at):
        if runs and runs[-1][-1].at + runs[-1][-1].length == block.at:
            runs[-1].append(block)
        else:
            runs.append([block])
    return runs


def _place(run: list[Block], spans: list[tuple[int, int]]) -> tuple[int, int, int, int]:
    """Returns begin and length of the run, and of its needed part after decompression."""
    first, last = run[0].plain_at, run[-1].plain_at + run[-1].plain
    inside = [span for span in spans if first <= span[0] and span[1] <= last]
    begin, end = min(s[0] for s in inside), max(s[1] for s in inside)
    return run[0].at, run[-1].at + run[-1].length - run[0].at, begin - first, end - begin


def _piece(file: BinaryIO, start: int, outer: list[Block], tarball: int, *place: int) -> Piece:
    at, length, inner, part = place
    run = _covering(outer, tarball + at, tarball + at + length)
    begin, end = start + run[0].at, start + run[-1].at + run[-1].length
    file.seek(begin)
    digest = hashlib.sha256(file.read(end - begin)).hexdigest()
    skipped = tarball + at - run[0].plain_at
    return Piece(begin, end - begin, digest, skipped, length, inner, part)


def _content(deb: Path, pieces: list[Piece]) -> str:
    with deb.open("rb") as file, TemporaryDirectory() as target:
        for piece in pieces:
            file.seek(piece.start)
            extract(piece.unpacked(file.read(piece.length)), Path(target))
        return content(Path(target))


def main(names: list[str], known: Path = KNOWN) -> None:
    """Adds the packages to `known.json`, or to another file."""
    entries = json.loads(known.read_text()) if known.exists() else {}
    for name in map(Path, names):
        fields = ["dpkg-deb", "-f", name, "Version"]
        version = subprocess.run(fields, check=True, capture_output=True, text=True).stdout.strip()
        with name.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        pieces = record(name)
        entries[version] = {
            "sha256": digest,
            "content": _content(name, pieces),
            "pieces": [astuple(piece) for piece in pieces],
        }
        print(f"{version}: {sum(p.length for p in pieces):,} bytes in {len(pieces)} pieces")
    known.write_text(json.dumps(dict(sorted(entries.items())), indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
