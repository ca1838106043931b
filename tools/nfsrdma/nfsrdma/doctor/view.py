# SPDX-License-Identifier: GPL-2.0
"""The state that the steps of the doctor examine. Each part is read once."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .. import connections, mounts
from ..connections import Connection
from ..errors import UsageError
from ..host import MISSING, Host, Ran, json_of, number
from ..mounts import Listener, Mount

INFINIBAND = "/sys/class/infiniband"

#: Seconds until connections are read again.
_MOMENT = 1

#: The state of a port that can be used, in the file `state`.
ACTIVE = "ACTIVE"


@dataclass(frozen=True)
class Fact:
    """Something that is as it should be."""

    text: str


@dataclass(frozen=True)
class Port:
    """A port of an RDMA device."""

    device: str
    port: int
    state: str
    #: The network interface; empty if there is none.
    netdev: str
    is_iwarp: bool = False
    #: Further interfaces of the port, such as those of the partitions of an InfiniBand network.
    further: tuple[str, ...] = ()

    @property
    def netdevs(self) -> tuple[str, ...]:
        """All interfaces of the port."""
        return (self.netdev, *self.further) if self.netdev else ()

    @property
    def is_active(self) -> bool:
        """Whether messages can go through."""
        return self.state == ACTIVE


def gid_of(address: str) -> bytes:
    """Returns the bytes of a GID, or of the GID of an address; zeros if it is none."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return bytes(16)
    mapped = bytes(10) + b"\xff\xff"
    return parsed.packed if parsed.version == 6 else mapped + parsed.packed


class View:
    """The machine as one walk sees it."""

    def __init__(self, host: Host, server: str | None) -> None:
        """Initially empty."""
        self.host = host
        self.server = server
        self._routes: dict[str, dict[str, Any] | None] = {}

    @cached_property
    def ports(self) -> list[Port]:
        """The ports of all RDMA devices."""
        found = []
        for device in self.host.names(INFINIBAND):
            folder = f"{INFINIBAND}/{device}/ports"
            for port in self.host.names(folder):
                if port.isdigit():
                    found.append(self._port(device, int(port), f"{folder}/{port}"))
        return found

    def _port(self, device: str, port: int, folder: str) -> Port:
        # As in `4: ACTIVE`.
        state = (self.host.read(f"{folder}/state") or "?").strip().rpartition(" ")[2]
        # As in `4: RNIC`.
        is_iwarp = "RNIC" in (self.host.read(f"{INFINIBAND}/{device}/node_type") or "")
        shown = self._netdevs.get((device, port)) or self._netdevs_of_gids(folder)
        netdev, *further = shown or [""]
        return Port(device, port, state, netdev, is_iwarp, tuple(further))

    @cached_property
    def _netdevs(self) -> Mapping[tuple[str, int], list[str]]:
        """The interfaces of ports as rdma(8) shows them; else (InfiniBand) those of sysfs."""
        links = json_of(self.host, "rdma", "-j", "link", "show")
        shown = {
            (str(link.get("ifname")), int(link.get("port", 1))): [str(link["netdev"])]
            for link in links
            if link.get("netdev")
        }
        behind: dict[tuple[str, int], list[str]] = {}
        for device in self.host.names(INFINIBAND):
            for netdev in self.host.names(f"{INFINIBAND}/{device}/device/net"):
                # It counts ports from 0.
                port = number(self.host.read(f"/sys/class/net/{netdev}/dev_port")) or 0
                behind.setdefault((device, port + 1), []).append(netdev)
        return behind | shown

    def _netdevs_of_gids(self, folder: str) -> list[str]:
        """Returns the interfaces of a port that have given it GIDs.

        A container may share a device whose interface is elsewhere: rdma(8) does not show it, and
        the container has an interface above it. Such a name may also be of another container.
        """
        found: dict[str, None] = {}
        for index in self.host.names(f"{folder}/gid_attrs/ndevs"):
            name = (self.host.read(f"{folder}/gid_attrs/ndevs/{index}") or "").strip()
            value = gid_of((self.host.read(f"{folder}/gids/{index}") or "").strip())
            entries = self.interfaces.get(name, {}).get("addr_info", [])
            if any(value) and value in {gid_of(str(entry.get("local"))) for entry in entries}:
                found[name] = None
        return list(found)

    @cached_property
    def rdma_netdevs(self) -> list[str]:
        """The interfaces that belong to RDMA devices, and the VLANs and bonds above these."""
        return list(dict.fromkeys(name for port in self.ports for name in self.netdevs_of(port)))

    def netdevs_of(self, port: Port) -> list[str]:
        """Returns the interfaces of a port, and the VLANs and bonds above these."""
        above = [upper for netdev in port.netdevs for upper in self.uppers_of(netdev)]
        return list(dict.fromkeys([*port.netdevs, *above]))

    def uppers_of(self, netdev: str) -> list[str]:
        """Returns the interfaces above another one, such as VLANs and bonds, and those above them.

        A RoCE device uses the addresses of all of these.
        """
        found: list[str] = []
        for name in self.host.names(f"/sys/class/net/{netdev}"):
            upper = name.removeprefix("upper_")
            if upper != name and upper not in found:
                found += [upper, *self.uppers_of(upper)]
        return list(dict.fromkeys(found))

    def device_of(self, netdev: str) -> str:
        """Returns the RDMA device through which an interface reaches others; else its own name."""
        return next((port.device for port in self.ports if netdev in self.netdevs_of(port)), netdev)

    @cached_property
    def interfaces(self) -> dict[str, dict[str, Any]]:
        """The network interfaces by name, with their addresses."""
        found = json_of(self.host, "ip", "-j", "address", "show")
        return {str(entry.get("ifname")): entry for entry in found}

    @cached_property
    def has_iproute(self) -> bool:
        """Whether iproute2 can be asked for routes. Without it nothing is known of them."""
        return self.host.run("ip", "-V").status != MISSING

    @cached_property
    def addresses_of_server(self) -> list[str]:
        """All addresses of the server that the command line names; none if it names none."""
        return self.host.addresses(self.server) if self.server else []

    @cached_property
    def targets(self) -> list[str]:
        """The addresses to walk to: those that mounts by RDMA use, or that a mount would use.

        A mount with proto=rdma takes the first IPv4 address of a name, and tries another one only
        after that has failed. proto=rdma6, which takes IPv6, has to be asked for.
        """
        mounted = dict.fromkeys(self.address_of(mount) for mount in self.mounts if mount.is_rdma)
        if not self.server:
            return [address for address in mounted if address]
        used = [address for address in self.addresses_of_server if address in mounted]
        first = [address for address in self.addresses_of_server if ":" not in address]
        return used or (first or self.addresses_of_server)[:1]

    def address_of(self, mount: Mount) -> str:
        """Returns the server's address. Its scope is the interface's name, not its number."""
        address, _, scope = mount.address.partition("%")
        for name, interface in self.interfaces.items():
            if scope and scope == str(interface.get("ifindex")):
                return f"{address}%{name}"
        return mount.address

    def route_to(self, address: str) -> dict[str, Any] | None:
        """Returns what ip(8) shows of the route to an address; None if there is no route."""
        if address not in self._routes:
            plain, _, scope = address.partition("%")
            where = ("dev", scope) if scope else ()
            found = json_of(self.host, "ip", "-j", "route", "get", plain, *where)
            self._routes[address] = found[0] if found else None
        return self._routes[address]

    @cached_property
    def misses_ports(self) -> bool:
        """Whether ports that are not active may be why something fails.

        That is so if no port is active, or if the way to a server leads through no active port: an
        interface that is down has lost its routes, so the way may lead anywhere else.
        """
        active = [port for port in self.ports if port.is_active]
        carried = [None, *(name for port in active for name in self.netdevs_of(port))]
        return not active or any(self.netdev_to(to) not in carried for to in self.targets)

    def netdev_to(self, address: str) -> str | None:
        """Returns the interface that leads to a server; empty without a route, None if unknown."""
        route = self.route_to(address)
        if not route:
            return "" if self.has_iproute else None
        if route.get("type") == "local":
            return next((n for n in self.rdma_netdevs if address in self.addresses_of(n)), None)
        return str(route.get("dev", ""))

    def addresses_of(self, netdev: str) -> list[str]:
        """Returns the addresses of an interface, without those of the link alone."""
        entries = self.interfaces.get(netdev, {}).get("addr_info", [])
        return [str(entry.get("local")) for entry in entries if entry.get("scope") != "link"]

    def is_on_link(self, netdev: str, address: str) -> bool:
        """Whether the network of an address of an interface holds another address."""
        wanted = ipaddress.ip_address(address.partition("%")[0])
        networks = (
            ipaddress.ip_interface(f"{entry['local']}/{entry['prefixlen']}").network
            for entry in self.interfaces.get(netdev, {}).get("addr_info", [])
            if entry.get("scope") != "link" and {"local", "prefixlen"} <= entry.keys()
        )
        return any(wanted in network for network in networks)

    @cached_property
    def log(self) -> Ran:
        """The kernel's log, which dmesg(1) may have been denied."""
        return self.host.run("dmesg")

    @cached_property
    def module_is_loaded(self) -> bool:
        """Whether a module rpcrdma is loaded."""
        return self.host.exists("/sys/module/rpcrdma")

    @cached_property
    def module_is_ours(self) -> bool:
        """Whether the loaded module has connections to show."""
        return self.module_is_loaded and self.host.exists("/sys/module/rpcrdma/version")

    @cached_property
    def connections(self) -> list[Connection]:
        """The connections; none if they cannot be seen."""
        try:
            return connections.read(self.host)
        except UsageError:
            return []

    @cached_property
    def later_connections(self) -> list[Connection]:
        """The connections a moment after the first look."""
        self.host.pause(_MOMENT)
        try:
            return connections.read(self.host)
        except UsageError:
            return []

    @cached_property
    def mounts(self) -> list[Mount]:
        """The mounts of NFS."""
        return mounts.mounts(self.host)

    @cached_property
    def listeners(self) -> list[Listener]:
        """The ports at which nfsd listens for RDMA."""
        return mounts.listeners(self.host)
