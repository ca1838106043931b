# SPDX-License-Identifier: GPL-2.0
"""A third guest: an honest client whose processor and cable no other client uses.

Its cable ends at a second network card of the server, which has an RDMA device of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .vm import CARD

if TYPE_CHECKING:
    from .pair import Guest, Pair

NAME = "bystander"
ADDRESS = "10.0.2.3"
SERVER_ADDRESS = "10.0.2.1"
MOUNT_POINT = "/mnt/nfs"
#: Megabytes of the guest's memory.
MEMORY = 512
#: The niceness of the other client, so that the host runs the server and the bystander first.
NICE = 10


def link_end(sockets: Path, *, server: bool) -> str:
    """Returns QEMU's end of the bystander's cable."""
    state = "on" if server else "off"
    return f"server={state},addr.type=unix,addr.path={sockets}/{NAME}-link.sock"


def server_card(sockets: Path) -> tuple[str, ...]:
    """Returns QEMU's arguments for the server's second network card."""
    netdev = f"stream,id={NAME},{link_end(sockets, server=True)}"
    device = f"virtio-net-pci,netdev={NAME},mac=52:54:00:01:00:01,{CARD}"
    return "-netdev", netdev, "-device", device


def connect(server: Guest, link: str) -> None:
    """Gives the server's second network card its address and its RDMA device."""
    server.sh(
        f"ip link set eth1 mtu 9000 up && ip addr add {SERVER_ADDRESS}/24 dev eth1 &&"
        f" rdma link add {link}1 type {link} netdev eth1"
    )


@contextmanager
def mounted(pair: Pair, version: str, proto: str = "rdma") -> Iterator[Guest]:
    """Mounts the server's export inside the block; each look at attributes is a call.

    `proto`: ``rdma`` or ``tcp``. Yields the bystander.
    """
    guest = pair.bystander
    assert guest is not None, "nobody has asked for a bystander"
    if guest.run("grep -q ^rpcrdma /proc/modules").status:
        guest.sh("insmod /lab/rpcrdma.ko")
    port = 20049 if proto == "rdma" else 2049
    words = f"vers={version},proto={proto},port={port},actimeo=0"
    words += ",nolock" if version == "3" else ""
    guest.sh(f"mount -t nfs -o {words} {SERVER_ADDRESS}:/export {MOUNT_POINT}", timeout=120)
    yield guest
    guest.sh(f"umount {MOUNT_POINT}", timeout=120)
