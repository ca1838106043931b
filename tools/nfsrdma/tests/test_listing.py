# SPDX-License-Identifier: GPL-2.0
"""Tests of ``nfsrdma list``, and of the files that it reads."""

from __future__ import annotations

import json

import pytest
from fake import DOWN, MOUNTED, SERVED, UP, FakeHost
from nfsrdma.errors import UsageError
from nfsrdma.table import size, span

from nfsrdma import connections, listing, mounts

CONNECTIONS = "/sys/kernel/debug/rpcrdma/connections"


def test_connection() -> None:
    (conn,) = connections.parse(UP)
    assert (conn.role, conn.peer, conn.address) == ("client", "10.0.0.1:20049", "10.0.0.1")
    assert conn.is_up
    assert conn.device == "rxe0/1"
    assert conn["credits"] == 64
    assert conn.error == ""


def test_transport_without_connection() -> None:
    (conn,) = connections.parse(DOWN)
    assert not conn.is_up
    assert conn.device == ""
    assert conn["credits"] == 0
    assert conn.error == "ECONNREFUSED (Connection refused)"


@pytest.mark.parametrize(
    ("old", "new", "attempts"),
    [
        ("", "", "4 failed in 1m15s, next attempt in 9 s"),
        ("next_attempt_s=9", "next_attempt_s=0", "4 failed in 1m15s, an attempt is due"),
        ("next_attempt_s=9", "next_attempt_s=-1", "4 failed in 1m15s"),
        # A module that does not have these fields.
        (" failing_s=75 next_attempt_s=9", "", "4 failed"),
        ("failures=4", "failures=0", ""),
        ("state=down", "state=up", ""),
    ],
)
def test_attempts(old: str, new: str, attempts: str) -> None:
    (conn,) = connections.parse(DOWN.replace(old, new))
    assert conn.attempts == attempts


def test_unknown_fields_are_kept() -> None:
    (conn,) = connections.parse("id=1 peer=[fd00::1]:20049 new=5 other=some stray\n\n")
    assert conn.address == "fd00::1"
    assert conn["new"] == 5
    assert conn.texts["other"] == "some"


def test_mounts() -> None:
    host = FakeHost()
    ext4 = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    spaces = MOUNTED.replace("/mnt/nfs", r"/mnt/my\040files").replace("rdma", "tcp")
    host.files["/proc/self/mountinfo"] = ext4 + MOUNTED + spaces + "nonsense\n"
    first, second = mounts.mounts(host)
    assert (first.point, first.address, first.version) == ("/mnt/nfs", "10.0.0.1", "4.2")
    assert first.is_rdma
    assert second.point == "/mnt/my files"
    assert not second.is_rdma


def test_text() -> None:
    host = FakeHost()
    host.files[CONNECTIONS] = UP + DOWN + SERVED
    host.files["/proc/fs/nfsd/portlist"] = "rdma 20049\nrdma 20049\ntcp 2049\n"
    assert listing.show(host, as_json=False).splitlines() == [
        "Connections",
        "  ROLE    PEER            DEVICE  VERSION  STATE                                FOR    "
        "CALL/REPLY  CREDITS  IN USE  MADE  LAST LOSS",
        "  client  10.0.0.1:20049  rxe0/1  2        up                                   2m05s  "
        "4096/8192   64/128   5       1     none",
        "  client  10.0.0.3:20049  -       -        down, 4 failed, next attempt in 9 s  30s    "
        "-           -        -       1     peer",
        "  server  10.0.0.9:51     rxe0/1  2        up                                   2m05s  "
        "4096/8192   64/128   5       1     none",
        "Mounts",
        "  /mnt/nfs  10.0.0.1:/export  NFSv4.2  10.0.0.1  rsize=1048576 wsize=1048576",
        "Listeners",
        "  rdma port 20049",
    ]


def test_nothing() -> None:
    host = FakeHost()
    host.files |= {CONNECTIONS: "", "/proc/self/mountinfo": ""}
    told = listing.show(host, as_json=False)
    assert told == "Connections\n  none\nMounts\n  none\nListeners\n  none"


def test_silent_server() -> None:
    host = FakeHost()
    host.connection(silent=3)
    assert "  silent 3  " in listing.show(host, as_json=False)


@pytest.mark.parametrize(
    ("old", "new", "state"),
    [
        ("next_attempt_s=9", "next_attempt_s=-1", "  down, 4 failed  30s"),
        ("failures=4", "failures=0", "  down   30s  "),
    ],
)
def test_transport_that_waits_for_no_attempt(old: str, new: str, state: str) -> None:
    host = FakeHost()
    host.files[CONNECTIONS] = DOWN.replace(old, new)
    assert state in listing.show(host, as_json=False)


def test_json() -> None:
    told = json.loads(listing.show(FakeHost(), as_json=True))
    assert told["connections"][0]["peer"] == "10.0.0.1:20049"
    assert told["connections"][0]["credits"] == 64
    assert told["mounts"][0]["point"] == "/mnt/nfs"
    assert told["listeners"] == []


def test_mounts_are_listed_without_the_module_s_file() -> None:
    host = FakeHost()
    host.denied.add(CONNECTIONS)
    told = listing.show(host, as_json=False)
    assert "  unknown: only root may read the connections" in told
    assert "/mnt/nfs" in told
    assert "only root" in json.loads(listing.show(host, as_json=True))["problem"]


def _without_module(host: FakeHost) -> None:
    host.remove("/sys/module/rpcrdma")


def _stock(host: FakeHost) -> None:
    host.remove("/sys/module/rpcrdma")
    host.files["/sys/module/rpcrdma/taint"] = "\n"


def _without_debugfs(host: FakeHost) -> None:
    host.remove("/sys/kernel/debug")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_without_module, "not loaded: modprobe rpcrdma"),
        (_stock, "the kernel's own"),
        (_without_debugfs, "mount -t debugfs"),
        (lambda _: None, "does not have it"),
    ],
)
def test_why_connections_cannot_be_listed(change: object, text: str) -> None:
    host = FakeHost()
    host.remove(CONNECTIONS)
    host.remove("mountinfo")
    change(host)
    with pytest.raises(UsageError, match=text):
        listing.show(host, as_json=False)


def test_escapes_of_mounts() -> None:
    """The kernel escapes blanks, tabs, line ends, backslashes, and # in the source alone."""
    line = MOUNTED.replace("/mnt/nfs", r"/mnt/a\040b\134043").replace("/export", r"/x\043y")
    host = FakeHost()
    host.files["/proc/self/mountinfo"] = line
    (mount,) = mounts.mounts(host)
    assert (mount.point, mount.source) == (r"/mnt/a b\043", "10.0.0.1:/x#y")


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\r", "\x1c", "\x1f", "\x85", "\xa0", "\u2028"])
def test_names_forge_no_line_and_no_field(odd: str) -> None:
    """A server chooses names; the kernel escapes fewer characters than Python splits at."""
    forged = MOUNTED.replace(" ", odd).replace("/mnt/nfs", "/forged").rstrip("\n")
    host = FakeHost()
    host.files["/proc/self/mountinfo"] = MOUNTED.replace("/mnt/nfs", f"/mnt/x{odd}{forged}")
    (mount,) = mounts.mounts(host)
    assert mount.point == f"/mnt/x{odd}{forged}"
    assert mount.source == "10.0.0.1:/export"


def test_names_do_not_command_the_terminal() -> None:
    host = FakeHost()
    name = "/mnt/\x1b]0;me\x07\nListeners\u202e"
    host.files["/proc/self/mountinfo"] = MOUNTED.replace("/mnt/nfs", name.replace("\n", r"\012"))
    told = listing.show(host, as_json=False).split("\n")
    assert told[4].startswith("  /mnt/?]0;me??Listeners?  10.0.0.1:/export")
    assert json.loads(listing.show(host, as_json=True))["mounts"][0]["point"] == name


@pytest.mark.parametrize(
    ("count", "text"),
    [(512, "512 B"), (1023.7, "1.0 KiB"), (1024, "1.0 KiB"), (1048570, "1.0 MiB"), (0, "0 B")],
)
def test_size(count: float, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("micros", "text"),
    [(87, "87 us"), (999.7, "1.00 ms"), (1250, "1.25 ms"), (999_996, "1.00 s"), (2.1e6, "2.10 s")],
)
def test_span(micros: float, text: str) -> None:
    assert span(micros) == text
