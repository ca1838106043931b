# SPDX-License-Identifier: GPL-2.0
"""The GIDs of RoCE ports: a connection uses the GID that carries its address."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..host import Host
from .view import INFINIBAND, Port, gid_of

#: The type of GID that the connection manager prefers.
_PREFERRED = "RoCE v2"


@dataclass(frozen=True)
class Gid:
    """An entry of a port's table."""

    index: int
    kind: str
    netdev: str

    def __str__(self) -> str:
        """Returns the GID in the doctor's words."""
        return f"GID {self.index}, {self.kind}"


@dataclass(frozen=True)
class Table:
    """The GIDs of some addresses of a port."""

    #: The GID of each address; None if it has none.
    by_address: dict[str, Gid | None]
    #: How many entries the table has, and whether all are taken. It is not counted if each address
    #: has a GID.
    size: int = 0
    is_full: bool = False

    @property
    def missing(self) -> list[str]:
        """The addresses that have none."""
        return [address for address, gid in self.by_address.items() if gid is None]


def has_gids(host: Host, port: Port) -> bool:
    """Whether GIDs carry the addresses of a port: it is one of RoCE."""
    link = (host.read(f"{_folder(port)}/link_layer") or "").strip()
    return link == "Ethernet" and not port.is_iwarp


def look_up(host: Host, port: Port, netdevs: Iterable[str], addresses: Iterable[str]) -> Table:
    """Finds the GIDs of addresses that the interfaces of a port have."""
    wanted = {gid_of(address): address for address in addresses}
    found: dict[str, Gid | None] = dict.fromkeys(wanted.values())
    behind, folder = set(netdevs), _folder(port)
    size = free = 0
    for name in sorted(host.names(f"{folder}/gids"), key=int):
        if all(gid and gid.kind == _PREFERRED for gid in found.values()):
            return Table(found)
        size += 1
        value = gid_of((host.read(f"{folder}/gids/{name}") or "").strip())
        free += not any(value)
        gid = _read(host, folder, name) if value in wanted else None
        if gid and gid.netdev in behind:
            known = found[wanted[value]]
            found[wanted[value]] = gid if not known or gid.kind == _PREFERRED else known
    return Table(found, size, is_full=size > 0 and not free)


def _read(host: Host, folder: str, name: str) -> Gid:
    kind, netdev = (
        (host.read(f"{folder}/gid_attrs/{attribute}/{name}") or "?").strip()
        for attribute in ("types", "ndevs")
    )
    return Gid(int(name), kind, netdev)


def _folder(port: Port) -> str:
    return f"{INFINIBAND}/{port.device}/ports/{port.port}"


def told(addresses: Iterable[str], table: Table) -> Iterator[str]:
    """Returns each address with its GID."""
    for address in addresses:
        gid = table.by_address.get(address)
        yield f"{address} ({gid})" if gid else f"{address} (no GID)"
