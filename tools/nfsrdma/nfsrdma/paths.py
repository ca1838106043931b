# SPDX-License-Identifier: GPL-2.0
"""The paths of a mount in sysfs: SUNRPC's transports, which ``nfsrdma rails`` adds and removes."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from .errors import UsageError
from .host import Host
from .mounts import Mount

SYSTEMS = "/sys/fs/nfs"

#: Attempts to write to a file of a transport.
_ATTEMPTS = 10

_TRANSPORT = re.compile(r"xprt-(\d+)-rdma\w*$")


@dataclass(frozen=True)
class Path:
    """A transport of a mount."""

    number: int
    folder: str
    server: str


def of(host: Host, mount: Mount) -> list[Path]:
    """Returns the transports of a mount by their numbers.

    # Errors
    `UsageError`: the kernel does not show them.
    """
    root = f"{SYSTEMS}/{mount.number}/nfs_client"
    found = []
    for switch in host.names(root):
        for name in host.names(f"{root}/{switch}"):
            folder, match = f"{root}/{switch}/{name}", _TRANSPORT.match(name)
            if match:
                server = (host.read(f"{folder}/dstaddr") or "?").strip()
                found.append(Path(int(match[1]), folder, server))
    if not found:
        raise UsageError(f"the kernel does not show the transports of {mount.point}: no {root}")
    return sorted(found, key=lambda path: path.number)


def add(host: Host, mount: Mount, address: str) -> Path:
    """Adds a transport to an address of the server.

    # Errors
    `UsageError`: the address does not fit the mount, or the kernel refuses.
    """
    _check(mount, address)
    before = of(host, mount)
    switch = before[0].folder.rpartition("/")[0]
    error = host.write(f"{switch}/add_xprt", "1")
    numbers = {path.number for path in before}
    new = [path for path in of(host, mount) if path.number not in numbers]
    if not new:
        raise UsageError(f"the kernel has added no transport: {error or 'none is new'}")
    if error or len(new) > 1:
        names = " and ".join(f"xprt-{path.number}" for path in new)
        raise UsageError(
            f"{names} appeared, with the address of the mount:"
            f" {error or 'another command may have added a path at the same time'};"
            " nfsrdma rails --remove removes a path"
        )
    # The kernel makes a transport to the address of the mount.
    error = host.write(f"{new[0].folder}/dstaddr", address, _ATTEMPTS)
    if error:
        host.write(f"{new[0].folder}/del_xprt", "1", _ATTEMPTS)
        raise UsageError(f"the kernel does not accept the address {address}: {error}")
    return Path(new[0].number, new[0].folder, address)


def _check(mount: Mount, address: str) -> None:
    try:
        versions = {ipaddress.ip_address(text).version for text in (address, mount.address)}
    except ValueError:
        raise UsageError(f"{address} is no IP address") from None
    if len(versions) > 1:
        raise UsageError(f"{address} and {mount.address}, the server's, are of different families")
    if versions == {6}:
        # rpc_sysfs_xprt_dstaddr_store() tells the parser that it has room for one of IPv4.
        raise UsageError(
            f"{address} is an address of IPv6, and the kernel cannot set one for a path: the path"
            f" would lead to {mount.address}"
        )
    if mount.options.get("nconnect", "1") == "1":
        # SUNRPC takes the first transport for each call unless it has been told to take turns.
        raise UsageError(f"calls of {mount.point} take one path: mount it with nconnect=2 or more")


def remove(host: Host, mount: Mount, number: int) -> Path:
    """Removes a transport.

    # Errors
    `UsageError`: the mount has no such transport, or may need it; or the kernel refuses.
    """
    path = next((path for path in of(host, mount) if path.number == number), None)
    if path is None:
        raise UsageError(f"{mount.point} has no transport {number}")
    info = (host.read(f"{path.folder}/xprt_info") or "").split()
    # The first transport must stay, whatever its address is now. A write to its `del_xprt` fails,
    # and SUNRPC releases the transport's lock without having taken it. Without a connection a
    # transport does not tell whether it is the first one.
    if "main_xprt=1" in info:
        raise UsageError(f"xprt-{number} is the first transport of the mount, which must stay")
    if "main_xprt=0" not in info:
        raise UsageError(
            f"xprt-{number} has no connection, and may be the first transport of the mount,"
            " which must stay"
        )
    error = host.write(f"{path.folder}/del_xprt", "1", _ATTEMPTS)
    if error:
        raise UsageError(f"the kernel does not remove xprt-{number}: {error}")
    return path
