# SPDX-License-Identifier: GPL-2.0
"""Tests of ``nfsrdma rails``."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from fake import MOUNTED, UP, FakeHost
from nfsrdma.errors import UsageError

from nfsrdma import rails

CONNECTIONS = "/sys/kernel/debug/rpcrdma/connections"
SWITCH = "/sys/fs/nfs/0:31/nfs_client/switch-1"
ETH = "/sys/class/net/eth{}/statistics/{}_bytes"


def lines(*transports: tuple[int, str, int]) -> str:
    """Returns the file of connections: number of each transport, its device, and its calls."""
    return "".join(
        UP.replace("device=rxe0", f"device={device}").rstrip("\n") + f" xprt={xprt} calls={calls}\n"
        for xprt, device, calls in transports
    )


def two_ports() -> FakeHost:
    """Returns a client with three transports over two ports; transport 7 has no connection."""
    host = FakeHost()
    for xprt in (3, 4, 7):
        host.files[f"{SWITCH}/xprt-{xprt}-rdma/dstaddr"] = "10.0.0.1\n"
    # Another mount has this transport, over TCP.
    host.files["/sys/fs/nfs/0:32/nfs_client/switch-2/xprt-5-tcp/dstaddr"] = "10.0.0.1\n"
    for port in (0, 1):
        folder = f"/sys/class/infiniband/rxe{port}/ports/1"
        host.files[f"{folder}/state"] = "4: ACTIVE\n"
        host.files[f"{folder}/gid_attrs/ndevs/0"] = f"eth{port}\n"
    meter(host, 1000, 1000)
    # Transport 9 is that of another mount.
    host.files[CONNECTIONS] = lines((3, "rxe0", 10), (4, "rxe1", 20), (9, "rxe1", 5))

    def later() -> None:
        host.files[CONNECTIONS] = lines((3, "rxe0", 40), (4, "rxe1", 30), (9, "rxe1", 500))
        meter(host, 4000, 2000)

    host.meanwhile = later
    return host


def meter(host: FakeHost, first: int, second: int) -> None:
    """Sets the bytes that the interfaces have sent; they have received half of that."""
    for port, count in enumerate((first, second)):
        host.files[ETH.format(port, "tx")] = f"{count}\n"
        host.files[ETH.format(port, "rx")] = f"{count // 2}\n"


def test_text() -> None:
    text = rails.show(two_ports(), "/mnt/nfs/", 2.0, as_json=False)
    assert text.splitlines() == [
        "/mnt/nfs (NFSv4.2, 10.0.0.1:/export), 2 s",
        "  TRANSPORT  PORT    SERVER    STATE  FOR    CALLS  SHARE",
        "  xprt-3     rxe0/1  10.0.0.1  up     2m05s  30     75 %",
        "  xprt-4     rxe1/1  10.0.0.1  up     2m05s  10     25 %",
        "  xprt-7     -       10.0.0.1  down   -      0      0 %",
        "Ports (bytes of all their users)",
        "  PORT    INTERFACE  STATE   CONNECTIONS  BYTES    SHARE",
        "  rxe0/1  eth0       ACTIVE  1            4.4 KiB  75 %",
        "  rxe1/1  eth1       ACTIVE  1            1.5 KiB  25 %",
    ]


def test_name_that_a_terminal_would_obey() -> None:
    """It can still be given as argument."""
    host = two_ports()
    host.files["/proc/self/mountinfo"] = MOUNTED.replace("/mnt/nfs", r"/mnt/\012\033[2J")
    text = rails.show(host, "/mnt/\n\x1b[2J", 2.0, as_json=False)
    assert text.startswith("/mnt/??[2J (NFSv4.2, ")


def test_json() -> None:
    told = json.loads(rails.show(two_ports(), "", 2.0, as_json=True))
    (mount,) = told["mounts"]
    assert mount["point"] == "/mnt/nfs"
    assert [entry["transport"] for entry in mount["transports"]] == [3, 4, 7]
    assert mount["transports"][0] == {
        "transport": 3, "port": "rxe0/1", "server": "10.0.0.1", "state": "up", "calls": 30,
    }  # fmt: skip
    assert [(port["port"], port["bytes"]) for port in told["ports"]] == [
        ("rxe0/1", 4500),
        ("rxe1/1", 1500),
    ]


def test_counters_of_a_port() -> None:
    host = two_ports()
    folder = "/sys/class/infiniband/rxe0/ports/1/counters"
    host.files |= {f"{folder}/port_xmit_data": "10\n", f"{folder}/port_rcv_data": "20\n"}

    def later() -> None:
        host.files[f"{folder}/port_rcv_data"] = "120\n"

    host.meanwhile = later
    told = json.loads(rails.show(host, "", 2.0, as_json=True))
    assert told["ports"][0]["bytes"] == 400


def test_transport_that_moves_during_the_interval() -> None:
    host = two_ports()
    down = "/sys/class/infiniband/rxe1/ports/1/state"

    def later() -> None:
        host.files[CONNECTIONS] = lines((3, "rxe0", 10), (4, "rxe0", 25), (8, "rxe0", 2))
        host.files[down] = "1: DOWN\n"

    host.meanwhile = later
    text = rails.show(host, "", 2.0, as_json=False)
    assert "  xprt-4     rxe0/1  10.0.0.1  up     2m05s  5      100 %" in text
    assert "  rxe1/1  eth1       DOWN    0            0 B    -" in text


@pytest.mark.parametrize(
    ("point", "change", "said"),
    [
        ("/mnt/other", lambda host: host, "nothing is mounted by RDMA at /mnt/other"),
        ("", lambda host: host.connection(), "does not show the numbers of transports"),
        ("", lambda host: host.files.update({"/proc/self/mountinfo": ""}), "no file system is"),
        ("", lambda host: host.remove("/sys/fs/nfs"), "does not show the transports of /mnt/nfs"),
        ("", lambda host: host.remove(CONNECTIONS), "no /sys/kernel/debug/rpcrdma/connections"),
    ],
)
def test_nothing_to_show(point: str, change: Callable[[FakeHost], object], said: str) -> None:
    host = two_ports()
    change(host)
    with pytest.raises(UsageError, match=said):
        rails.show(host, point, 2.0, as_json=False)


def test_mount_that_covers_another() -> None:
    host = two_ports()
    host.files["/proc/self/mountinfo"] = MOUNTED.replace("0:31", "0:30") + MOUNTED
    told = json.loads(rails.show(host, "/mnt/nfs", 2.0, as_json=True))
    assert len(told["mounts"][0]["transports"]) == 3


def kernel(host: FakeHost, refuses: str = "") -> list[tuple[str, str]]:
    """Lets the kernel act on writes, but refuse the file of this name. Returns the writes."""
    writes: list[tuple[str, str]] = []

    def written(path: str, text: str) -> str:
        folder, _, name = path.rpartition("/")
        writes.append((path.removeprefix(SWITCH), text))
        if name == refuses:
            return "Invalid argument"
        if name == "add_xprt":
            host.files[f"{SWITCH}/xprt-12-rdma/dstaddr"] = "10.0.0.1\n"
        elif name == "dstaddr":
            host.files[path] = text
        elif name == "del_xprt":
            host.remove(folder)
        return ""

    host.written = written
    host.files["/proc/self/mountinfo"] = MOUNTED.replace("proto=", "nconnect=2,proto=")
    for xprt in (3, 4):
        host.files[f"{SWITCH}/xprt-{xprt}-rdma/xprt_info"] = f"cur_cong=0\nmain_xprt={4 - xprt}\n"
    host.files[f"{SWITCH}/xprt-7-rdma/xprt_info"] = "<closed>\n"
    return writes


def test_add() -> None:
    host = two_ports()
    writes = kernel(host)
    assert rails.change(host, "/mnt/nfs", "10.0.0.101", None) == "xprt-12 leads to 10.0.0.101"
    assert writes == [("/add_xprt", "1"), ("/xprt-12-rdma/dstaddr", "10.0.0.101")]
    assert "xprt-12" in rails.show(host, "/mnt/nfs", 2.0, as_json=False)


@pytest.mark.parametrize(
    ("refuses", "address", "said"),
    [
        ("add_xprt", "10.0.0.101", "has added no transport: Invalid argument"),
        ("dstaddr", "10.0.0.101", "does not accept the address"),
        ("", "server", "server is no IP address"),
        ("", "fd00::1", "of different families"),
    ],
)
def test_add_fails(refuses: str, address: str, said: str) -> None:
    host = two_ports()
    kernel(host, refuses)
    with pytest.raises(UsageError, match=said):
        rails.change(host, "/mnt/nfs", address, None)
    assert not host.exists(f"{SWITCH}/xprt-12-rdma")


def test_no_path_to_an_address_of_ipv6_is_added() -> None:
    """The kernel would report success, and leave the path at the address of the mount."""
    host = two_ports()
    writes = kernel(host)
    text = host.files["/proc/self/mountinfo"]
    host.files["/proc/self/mountinfo"] = text.replace("addr=10.0.0.1", "addr=fd00::1")
    with pytest.raises(UsageError, match=r"fd00::2 is an address of IPv6, .* lead to fd00::1$"):
        rails.change(host, "/mnt/nfs", "fd00::2", None)
    assert writes == []


@pytest.mark.parametrize(
    ("error", "numbers", "said"),
    [
        ("the kernel takes too long", [12], "^xprt-12 appeared, .*: the kernel takes too long;"),
        ("", [12, 13], "^xprt-12 and xprt-13 appeared, .*: another command may"),
    ],
)
def test_transport_that_appears_and_may_be_of_others(
    error: str, numbers: list[int], said: str
) -> None:
    """It gets no other address, and the message names it."""
    host = two_ports()
    kernel(host)

    def written(_path: str, _text: str) -> str:
        for number in numbers:
            host.files[f"{SWITCH}/xprt-{number}-rdma/dstaddr"] = "10.0.0.1\n"
        return error

    host.written = written
    with pytest.raises(UsageError, match=said):
        rails.change(host, "/mnt/nfs", "10.0.0.101", None)
    assert host.files[f"{SWITCH}/xprt-12-rdma/dstaddr"] == "10.0.0.1\n"


def test_add_to_a_mount_with_one_path() -> None:
    host = two_ports()
    kernel(host)
    host.files["/proc/self/mountinfo"] = MOUNTED
    with pytest.raises(UsageError, match="mount it with nconnect=2"):
        rails.change(host, "/mnt/nfs", "10.0.0.101", None)


def test_remove() -> None:
    host = two_ports()
    writes = kernel(host)
    assert rails.change(host, "/mnt/nfs", "", 4) == "xprt-4 was removed"
    assert writes == [("/xprt-4-rdma/del_xprt", "1")]


def test_remove_a_transport_without_connection_to_another_address() -> None:
    """It may be the first one, which can also be sent to another address."""
    host = two_ports()
    writes = kernel(host)
    host.files[f"{SWITCH}/xprt-7-rdma/dstaddr"] = "10.0.0.101\n"
    with pytest.raises(UsageError, match="has no connection"):
        rails.change(host, "/mnt/nfs", "", 7)
    assert not writes


@pytest.mark.parametrize(
    ("refuses", "point", "transport", "said"),
    [
        ("", "/mnt/nfs", 3, "xprt-3 is the first transport"),
        ("", "/mnt/nfs", 7, "xprt-7 has no connection, and may be the first"),
        ("", "/mnt/nfs", 5, "has no transport 5"),
        ("", "", 4, "which mount"),
        ("del_xprt", "/mnt/nfs", 4, "does not remove xprt-4: Invalid argument"),
    ],
)
def test_remove_fails(refuses: str, point: str, transport: int, said: str) -> None:
    host = two_ports()
    kernel(host, refuses)
    with pytest.raises(UsageError, match=said):
        rails.change(host, point, "", transport)
