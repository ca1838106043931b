# SPDX-License-Identifier: GPL-2.0
"""The disk forgets what was not flushed, and nothing else; its protocol is that of NBD."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import harness, nbd
from lab.disk import BLOCK, Cache
from lab.errors import LabError

#: Seeds of a loss of everything that was not flushed, and of nothing.
ALL, NOTHING = 0, 2


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """A disk of eight blocks."""
    path = tmp_path / "disk"
    path.write_bytes(bytes(8 * BLOCK))
    return Cache(path)


def _cut(cache: Cache, seed: int) -> None:
    cache.cut(seed)
    cache.power()


def test_unflushed_writes_are_lost(cache: Cache) -> None:
    cache.write(0, b"a" * BLOCK, durable=False)
    cache.flush()
    cache.write(0, b"b" * 512, durable=False)
    cache.write(BLOCK, b"c" * 2 * BLOCK, durable=False)
    assert cache.read(0, 512) == b"b" * 512
    _cut(cache, ALL)
    assert cache.read(0, 4 * BLOCK) == b"a" * BLOCK + bytes(3 * BLOCK)
    assert cache.tally["lost"] == cache.tally["unflushed"] == 3


def test_flushed_and_durable_writes_survive(cache: Cache) -> None:
    cache.write(0, b"a" * BLOCK, durable=False)
    cache.write(512, b"b" * BLOCK, durable=True)
    _cut(cache, ALL)
    assert cache.read(0, 512) == bytes(512)
    assert cache.read(512, BLOCK) == b"b" * BLOCK
    cache.write(0, b"c" * 512, durable=False)
    cache.flush()
    _cut(cache, ALL)
    assert cache.read(0, 512) == b"c" * 512


def test_a_cut_may_lose_nothing_or_a_part(cache: Cache) -> None:
    lost = set()
    for seed in range(40):
        before = cache.tally["lost"]
        cache.write(0, bytes([seed + 1]) * 8 * BLOCK, durable=False)
        _cut(cache, seed)
        lost.add(cache.tally["lost"] - before)
    assert {0, 8} < lost


def test_requests_fail_without_power_and_on_request(cache: Cache) -> None:
    cache.cut(NOTHING)
    with pytest.raises(OSError):
        cache.read(0, 512)
    cache.power()
    cache.fail("write", errno.ENOSPC, 1.0)
    with pytest.raises(OSError, match=r"\[Errno 28\]"):
        cache.write(0, b"a", durable=False)
    assert cache.read(0, 1) == b"\0"
    assert cache.tally["failed"] == 2


def test_a_flush_is_held_until_the_cut(cache: Cache) -> None:
    cache.trap()
    cache.flush()
    cache.write(0, b"a", durable=False)
    assert not cache.held()
    failures = []

    def flush() -> None:
        try:
            cache.flush()
        except OSError as err:
            failures.append(err.errno)

    flushing = threading.Thread(target=flush)
    flushing.start()
    flushing.join(0.1)
    assert flushing.is_alive() and cache.held()
    _cut(cache, ALL)
    flushing.join(5)
    assert failures == [errno.EIO]
    assert not cache.held()
    assert cache.read(0, 1) == b"\0"


@contextlib.contextmanager
def _client(cache: Cache) -> Iterator[socket.socket]:
    """A client that has negotiated as QEMU does."""
    here, there = socket.socketpair()
    serving = threading.Thread(target=nbd.serve, args=(there, cache))
    serving.start()
    with here, there:
        here.settimeout(5)
        assert here.recv(18, socket.MSG_WAITALL)[:8] == b"NBDMAGIC"
        here.sendall(struct.pack(">I", 3))
        here.sendall(b"IHAVEOPT" + struct.pack(">II", 8, 0))
        assert struct.unpack(">QIII", here.recv(20, socket.MSG_WAITALL))[2] == 0x80000001
        here.sendall(b"IHAVEOPT" + struct.pack(">II6x", 7, 6))
        here.recv(20, socket.MSG_WAITALL)
        assert struct.unpack(">HQH", here.recv(12, socket.MSG_WAITALL))[1] == cache.size
        assert struct.unpack(">QIII", here.recv(20, socket.MSG_WAITALL))[2] == 1
        yield here
        here.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 2, 0, 0, 0))
        serving.join(5)
        assert not serving.is_alive()


def _ask(client: socket.socket, kind: int, at: int, length: int, data: bytes = b"") -> int:
    client.sendall(struct.pack(">IHHQQI", 0x25609513, 1, kind, 7, at, length) + data)
    _, error, cookie = struct.unpack(">IIQ", client.recv(16, socket.MSG_WAITALL))
    assert cookie == 7
    return int(error)


def test_a_client_reads_and_writes(cache: Cache) -> None:
    with _client(cache) as client:
        assert _ask(client, nbd.WRITE, 100, 5, b"hello") == 0
        assert _ask(client, nbd.FLUSH, 0, 0) == 0
        assert _ask(client, nbd.READ, 99, 7) == 0
        assert client.recv(7, socket.MSG_WAITALL) == b"\0hello\0"
        assert _ask(client, 4, 0, 512) == errno.EINVAL
        cache.fail("flush", errno.EIO, 1.0)
        assert _ask(client, nbd.FLUSH, 0, 0) == errno.EIO
    assert cache.tally["durable"] == 1


def test_the_export(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair that needs a disk gets ext4, unless `EXPORT` names another file system."""
    for name in ("EXPORT", "KERNEL"):
        monkeypatch.delenv(name, raising=False)
    assert harness.export(harness.Options()) == "tmpfs"
    assert harness.export(harness.Options(disk=True)) == "ext4"
    monkeypatch.setenv("EXPORT", "xfs")
    with pytest.raises(LabError, match="KERNEL=debian"):
        harness.export(harness.Options(disk=True))
    monkeypatch.setenv("KERNEL", "debian")
    assert harness.export(harness.Options()) == "xfs"
