# SPDX-License-Identifier: GPL-2.0
"""An initial RAM disk of a shell and a few modules, for a distribution's kernel."""

from __future__ import annotations

import lzma
import stat
from collections.abc import Iterator
from pathlib import Path

from .command import capture
from .errors import LabError

#: The drivers for the guest's disks, console and link, which are modules of such a kernel.
DRIVERS = ("virtio_pci", "virtio_blk", "virtio_net", "virtio_console", "squashfs", "overlay")
DRIVERS += ("virtio_rng", "ext4")


def archive(entries: dict[str, tuple[int, bytes]]) -> bytes:
    """Returns a cpio archive ("newc") of `entries`, which are mode and contents by name."""
    out = bytearray()
    for number, (name, (mode, data)) in enumerate([*entries.items(), ("TRAILER!!!", (0, b""))]):
        path = name.encode() + b"\0"
        fields = (number + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
        out += b"070701" + b"".join(b"%08x" % value for value in fields) + path
        out += bytes(-len(out) % 4)
        out += data
        out += bytes(-len(out) % 4)
    return bytes(out)


def load_order(root: Path, release: str) -> Iterator[Path]:
    """Returns the module files that `DRIVERS` need, each after its dependencies."""
    seen: set[str] = set()
    for driver in DRIVERS:
        text = capture(["modprobe", "-d", root, "-S", release, "--show-depends", driver])
        for line in text.splitlines():
            action, _, path = line.partition(" ")
            path = path.split(" ")[0]
            if action == "insmod" and path not in seen:
                seen.add(path)
                yield Path(path)


def plain(module: Path) -> bytes:
    """Returns the contents of a module, decompressed if the distribution compresses them.

    # Errors
    `LabError` for a compression other than xz.
    """
    data = module.read_bytes()
    if module.suffix == ".xz":
        return lzma.decompress(data)
    if module.suffix != ".ko":
        raise LabError(f"{module}: packed in a way the lab does not know")
    return data


def build(root: Path, release: str, init: Path, target: Path) -> None:
    """Writes the RAM disk for the kernel `release` installed in `root`."""
    entries: dict[str, tuple[int, bytes]] = {}
    for name in ("bin", "dev", "lib", "root"):
        entries[name] = (stat.S_IFDIR | 0o755, b"")
    order = []
    for module in load_order(root, release):
        name = module.name.removesuffix(".xz")
        entries[f"lib/{name}"] = (stat.S_IFREG | 0o644, plain(module))
        order.append(name)
    entries["modules"] = (stat.S_IFREG | 0o644, "".join(f"{n}\n" for n in order).encode())
    entries["bin/busybox"] = (stat.S_IFREG | 0o755, (root / "usr/bin/busybox").read_bytes())
    entries["init"] = (stat.S_IFREG | 0o755, init.read_bytes())
    target.write_bytes(archive(entries))
