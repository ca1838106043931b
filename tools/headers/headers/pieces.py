# SPDX-License-Identifier: GPL-2.0
"""Fetches only those bytes of a source package that hold the needed files.

A source package is a stream of xz blocks, which holds a tarball, which is a stream of xz blocks
again. A block can be decompressed alone. For the packages that this project knows, `known.json` has
the places of the blocks with the needed files, and the SHA-256 of these bytes, which must match
before anything reads them. apt's signed index must name the same package.

For any other package apt fetches the whole, and verifies it.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import json
import lzma
import tarfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from .run import output

KNOWN = Path(__file__).with_name("known.json")
#: The first bytes of a stream whose blocks have a CRC64, as xz and dpkg-deb write them.
STREAM = bytes.fromhex("fd377a585a000004e6d6b446")
_TIMEOUT = 30.0


@dataclass(frozen=True)
class Piece:
    """A run of bytes of a package, and the way from them to a part of the tarball."""

    start: int
    length: int
    sha256: str
    #: In the decompressed bytes: the place and the length of whole blocks of the tarball's stream.
    outer: int
    blocks: int
    #: In these blocks, decompressed: the place and the length of the part of the tarball.
    inner: int
    part: int

    def unpacked(self, data: bytes) -> bytes:
        """Returns the part of the tarball.

        # Errors
        `ValueError`: these are other bytes than those that are known.
        """
        if len(data) != self.length or hashlib.sha256(data).hexdigest() != self.sha256:
            raise ValueError("the bytes differ from those that are known")
        stream = _decompressed(data)[self.outer : self.outer + self.blocks]
        return _decompressed(stream)[self.inner : self.inner + self.part]


def _decompressed(blocks: bytes) -> bytes:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(STREAM + blocks)


@dataclass(frozen=True)
class Package:
    """The digests and the pieces of one version of a source package."""

    sha256: str
    #: The digest of the needed files, which many versions of a series have in common.
    content: str
    pieces: tuple[Piece, ...]

    @property
    def length(self) -> int:
        """The number of bytes to fetch."""
        return sum(piece.length for piece in self.pieces)


def known(version: str, file: Path = KNOWN) -> Package | None:
    """Returns the source package of this version, or None."""
    entry = json.loads(file.read_text()).get(version)
    if not entry:
        return None
    found = tuple(Piece(*piece) for piece in entry["pieces"])
    return Package(entry["sha256"], entry["content"], found)


def content(source: Path) -> str:
    """Returns the digest of all files below a folder, with their names.

    The content of a link or a special file does not count, but its presence does.
    """
    digest = hashlib.sha256()
    found = (path for path in source.rglob("*") if path.is_symlink() or not path.is_dir())
    for path in sorted(found):
        plain = path.is_file() and not path.is_symlink()
        one = hashlib.sha256(path.read_bytes()).hexdigest() if plain else "special"
        digest.update(f"{path.relative_to(source)} {one}\n".encode())
    return digest.hexdigest()


def fetch(uri: str, package: Package, target: Path) -> None:
    """Fetches the pieces and extracts their files to `target`.

    # Errors
    `ValueError`, `OSError`: the server sends other bytes, or no part of a file, or nothing.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(_proxies()))
    for piece in package.pieces:
        extract(piece.unpacked(_fetched(opener, uri, piece)), target)


def _fetched(opener: urllib.request.OpenerDirector, uri: str, piece: Piece) -> bytes:
    if not uri.startswith(("http:", "https:")):
        raise ValueError("the package has no address of HTTP")
    span = f"bytes={piece.start}-{piece.start + piece.length - 1}"
    request = urllib.request.Request(uri, headers={"Range": span})
    try:
        with opener.open(request, timeout=_TIMEOUT) as answer:
            if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
                raise ValueError("the server sends whole files only")
            return answer.read(piece.length + 1)
    except http.client.HTTPException as error:
        raise ValueError(f"no valid answer ({type(error).__name__})") from error


def _proxies() -> dict[str, str]:
    """Returns apt's proxies, or else those of the environment."""
    named = urllib.request.getproxies()
    for scheme in ("http", "https"):
        shown = output(["apt-config", "shell", "PROXY", f"Acquire::{scheme}::Proxy"]) or ""
        value = shown.strip().removeprefix("PROXY=").strip("'")
        if value.lower() in ("direct", "false"):
            named.pop(scheme, None)
        elif value:
            named[scheme] = value
    return named


def extract(part: bytes, target: Path) -> None:
    """Extracts the needed files of a part of the tarball, without the first folder of their names.

    # Errors
    `TarError`: no tarball.
    """
    with tarfile.open(fileobj=io.BytesIO(part), mode="r:") as tar:
        for member in tar:
            name = Path(*Path(member.name).parts[1:])
            found = tar.extractfile(member) if needed(name) else None
            if found:
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                (target / name).write_bytes(found.read())
                (target / name).chmod(member.mode & 0o755)


#: File names and folders that the build of the crates needs, and no header package has.
NEEDED = (
    "rust",
    "drivers/base/base.h",
    "drivers/android/binder",
    "scripts/Makefile",
    "scripts/generate_rust_target.rs",
    "scripts/min-tool-version.sh",
    "scripts/rust_is_available_bindgen_libclang.h",
)


def needed(name: Path) -> bool:
    """Returns whether the file of this name in the source is needed."""
    if ".." in name.parts or (name.parts[:1] == ("drivers",) and name.suffix != ".h"):
        return False
    return any(name.is_relative_to(path) for path in NEEDED)
