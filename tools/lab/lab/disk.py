# SPDX-License-Identifier: GPL-2.0
"""A disk of a guest with a volatile write cache, which may lose power and may fail.

QEMU's own disks keep what the guest has written in the host's page cache, also when QEMU is killed,
so a lost flush would go unnoticed there. This disk forgets at a loss of power what was neither
flushed nor written with FUA, or a random part of that, as hardware does.

It runs as a process of its own (`python3 -m lab.disk`), which QEMU reaches by NBD. It takes one
command a line on standard input and answers each with a line: ``trap`` delays the next flush and
all requests after it, ``held`` tells whether there was one, ``hold`` delays all from now on, ``cut
SEED`` takes the power away, ``power`` gives it back, ``fail write 5 0.3`` fails such a share of
such requests with that errno, ``tally`` prints counters.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import socket
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from . import nbd, settings
from .command import capture
from .told import Told

#: A block is the smallest part of the disk that is lost or kept as a whole.
BLOCK = 4096
SIZE = 1 << 30
#: How each file system is made. mkfs writes all that the kernel would write in its first minutes.
#: Kernels without quotas mount no ext4 that has them.
MAKERS = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
}


class Cache:
    """The disk's contents in a file, and what is written there but would not survive."""

    def __init__(self, path: Path) -> None:
        """`path`: the file, of the disk's size."""
        self._file = os.open(path, os.O_RDWR)
        self.size = os.fstat(self._file).st_size
        #: The contents, at the last flush, of the blocks that have been written since.
        self._flushed: dict[int, bytes] = {}
        #: Whether the next flush waits, whether all requests do, and whether they fail.
        self._trap = self._held = self._dead = False
        self._cuts = 0
        #: Errno and share of each kind of request that fails.
        self._failures: dict[str, tuple[int, float]] = {}
        self._chance = random.Random(1)
        self.tally: Counter[str] = Counter()
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def _request(self, kind: str):  # noqa: ANN202
        """Waits while requests are held, and fails the request if it must fail."""
        with self._changed:
            self._held |= self._trap and kind == "flush" and bool(self._flushed)
            cuts = self._cuts
            self._changed.wait_for(lambda: not self._held)
            lost = self._dead or cuts != self._cuts
            self.tally[kind] += 1
            error, share = (errno.EIO, 1.0) if lost else self._failures.get(kind, (0, 0.0))
            if self._chance.random() < share:
                self.tally["failed"] += 1
                raise OSError(error, os.strerror(error))
            yield

    def read(self, offset: int, length: int) -> bytes:
        """Returns bytes of the disk."""
        with self._request("read"):
            return os.pread(self._file, length, offset)

    def write(self, offset: int, data: bytes, *, durable: bool) -> None:
        """Writes bytes; those of a `durable` write survive whatever was written before them."""
        with self._request("write"):
            self.tally["durable"] += durable
            end = offset + len(data)
            for block in range(offset // BLOCK, -(-end // BLOCK)):
                start = block * BLOCK
                if durable and block in self._flushed:
                    old = bytearray(self._flushed[block])
                    first, last = max(offset, start), min(end, start + BLOCK)
                    old[first - start : last - start] = data[first - offset : last - offset]
                    self._flushed[block] = bytes(old)
                elif not durable and block not in self._flushed:
                    self._flushed[block] = os.pread(self._file, BLOCK, start)
            os.pwrite(self._file, data, offset)

    def flush(self) -> None:
        """Makes all earlier writes survive a loss of power."""
        with self._request("flush"):
            self._flushed.clear()

    def trap(self) -> None:
        """Delays all requests from the next flush on that has something to flush."""
        with self._changed:
            self._trap = True

    def hold(self) -> None:
        """Delays all requests from now on."""
        with self._changed:
            self._held = True

    def held(self) -> bool:
        """Whether requests are delayed."""
        return self._held

    def cut(self, seed: int) -> None:
        """Takes the power away: unflushed blocks are lost, kept, or some of both.

        Requests fail until `power`, those that were delayed too.
        """
        with self._changed:
            chance = random.Random(seed)
            share = chance.choice((0.0, 0.5, 0.9, 1.0))
            self.tally["unflushed"] += len(self._flushed)
            for block, old in self._flushed.items():
                if chance.random() < share:
                    os.pwrite(self._file, old, block * BLOCK)
                    self.tally["lost"] += 1
            self._flushed.clear()
            self._trap, self._held, self._dead = False, False, True
            self._cuts += 1
            self._changed.notify_all()

    def power(self) -> None:
        """Gives the power back."""
        with self._changed:
            self._dead = False

    def fail(self, kind: str, error: int, share: float) -> None:
        """Fails a share of the requests of a kind, ``read``, ``write`` or ``flush``."""
        with self._changed:
            self._failures[kind] = error, share


def _obey(cache: Cache, line: str) -> str:
    """Carries one command out; returns the answer."""
    name, *words = line.split()
    if name == "tally":
        return json.dumps(cache.tally)
    if name == "fail":
        cache.fail(words[0], int(words[1]), float(words[2]))
    elif name == "held":
        return str(int(cache.held()))
    elif name == "cut":
        cache.cut(int(words[0]))
    else:
        {"trap": cache.trap, "hold": cache.hold, "power": cache.power}[name]()
    return name


def _accept(listener: socket.socket, cache: Cache) -> None:
    while True:
        client = listener.accept()[0]
        with client, contextlib.suppress(EOFError, OSError):
            nbd.serve(client, cache)


def _main(path: str, image: str) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)
    cache = Cache(Path(image))
    threading.Thread(target=_accept, args=(listener, cache), daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        print(_obey(cache, line), flush=True)


class Disk(Told):
    """The disk's process, seen from the lab.

    `tally` has the requests by kind; those that failed; blocks unflushed and lost at a cut.
    """

    def __init__(self, file_system: str, directory: Path, socket_path: Path) -> None:
        """Makes the file system in a sparse file, and starts the process.

        # Errors
        `LabError` if the file system cannot be made, or the process does not start.
        """
        self.socket = socket_path
        self.image = directory / "server-disk"
        self.image.unlink(missing_ok=True)
        with self.image.open("wb") as file:
            file.truncate(SIZE)
        quotas = ("-O", "quota") if (file_system, settings.flavour()) == ("ext4", "debian") else ()
        capture([*MAKERS[file_system], *quotas, self.image])
        super().__init__("disk", socket_path, self.image)

    @property
    def arguments(self) -> list[str]:
        """QEMU's arguments for the disk. A guest sees a failure; it does not stop at one."""
        node = f"driver=nbd,node-name=export,server.type=unix,server.path={self.socket}"
        device = "virtio-blk-pci,drive=export,write-cache=on,werror=report,rerror=report"
        return ["-blockdev", node, "-device", device]

    def hold(self, patience: float) -> None:
        """Delays all requests from the next flush on, the moment at which most can be lost.

        Without a flush for `patience` seconds it delays all requests then.
        """
        self.tell("trap")
        end = time.monotonic() + patience
        while self.tell("held") != "1" and time.monotonic() < end:
            time.sleep(0.005)
        self.tell("hold")

    def cut(self, seed: int) -> None:
        """Takes the power away; all requests fail, those that were held too."""
        self.tell(f"cut {seed}")

    def power(self) -> None:
        """Gives the power back."""
        self.tell("power")

    def fail(self, kind: str, error: int, share: float = 1.0) -> None:
        """Fails a share of the requests of a kind (``read``, ``write``, ``flush``)."""
        self.tell(f"fail {kind} {error} {share}")

    def heal(self) -> None:
        """Ends all failures."""
        for kind in ("read", "write", "flush"):
            self.fail(kind, 0, 0.0)

    def stop(self) -> None:
        """Ends the process and removes the file."""
        super().stop()
        self.image.unlink(missing_ok=True)


if __name__ == "__main__":
    _main(*sys.argv[1:3])
