# SPDX-License-Identifier: GPL-2.0
"""Checks whether an RDMA device leads to the server.

The servers are the one that the command line names, or those of mounts by RDMA.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..host import json_of
from ..mounts import Mount
from ..ucm import Answer
from .kinds import KINDS, Finding, finding
from .view import Fact, View

#: The port of NFS over RDMA.
_PORT = 20049

#: Options of NFS that another transport keeps, with the values that are the default.
_KEPT = {"vers": "", "sec": "", "timeo": "600", "retrans": "2", "nconnect": ""}
_KEPT_WORDS = ("soft", "softerr", "nolock")

_PORT_FINDINGS = {
    Answer.REFUSED: "port-refused",
    Answer.SILENT: "port-silent",
    Answer.UNRESOLVED: "port-unresolved",
}


def check(view: View) -> Iterator[Fact | Finding]:
    """Examines the route to each server."""
    if view.server and not view.addresses_of_server:
        yield finding("name-unknown", server=view.server)
    for address in view.targets:
        found = list(_check_address(view, address))
        yield from found
        if view.server and not any(isinstance(entry, Finding) for entry in found):
            yield from _check_port(view, address)
    yield from _mounted_otherwise(view)


def _check_address(view: View, address: str) -> Iterator[Fact | Finding]:
    route = view.route_to(address)
    if not route and not view.has_iproute:
        return
    if not route:
        yield finding("no-route", address=address)
        return
    netdev = str(route.get("dev", "?"))
    via = str(route.get("gateway", address))
    if route.get("type") == "local":
        yield from _check_local(view, address, netdev)
    elif view.ports and netdev not in view.rdma_netdevs:
        yield _route_not_rdma(view, address, netdev)
    else:
        yield from _check_neighbour(view, address, netdev, via)


def _route_not_rdma(view: View, address: str, netdev: str) -> Finding:
    """Returns the finding. A route through an interface elsewhere would cut the server off."""
    active = [name for port in view.ports if port.is_active for name in view.netdevs_of(port)]
    rdma = next((name for name in active if view.is_on_link(name, address)), None)
    if rdma is None:
        return finding("route-not-rdma", address=address, netdev=netdev)
    return finding("route-beside", address=address, netdev=netdev, rdma=rdma)


def _check_local(view: View, address: str, netdev: str) -> Iterator[Fact | Finding]:
    """A server on this host can be reached only through a device with this address."""
    if any(address in view.addresses_of(name) for name in view.rdma_netdevs):
        yield Fact(f"{address} is this host, on an RDMA device")
    else:
        yield finding("address-local", address=address, netdev=netdev)


def _check_neighbour(view: View, address: str, netdev: str, via: str) -> Iterator[Fact | Finding]:
    plain = via.partition("%")[0]
    for entry in json_of(view.host, "ip", "-j", "neighbour", "show", "to", plain, "dev", netdev):
        states = [str(state) for state in entry.get("state", [])]
        if "FAILED" in states or "INCOMPLETE" in states:
            yield finding("neighbour-failed", address=via, netdev=netdev, state="/".join(states))
            return
    device = view.device_of(netdev)
    hop = f" via {via}" if via != address else ""
    yield Fact(f"{address} is reached through {netdev} ({device}){hop}")


def _check_port(view: View, address: str) -> Iterator[Fact | Finding]:
    """Asks the port of the mount, or the usual one."""
    ports = [
        mount.options.get("port", "") for mount in view.mounts if view.address_of(mount) == address
    ]
    port = next((int(text) for text in ports if text.isdigit() and int(text)), _PORT)
    iwarp = _may_be_over_iwarp(view, address)
    answer = Answer.UNASKED if iwarp else view.host.ask_port(address, port)
    if answer == Answer.SILENT and view.host.answers_tcp(address, port):
        yield finding("port-filtered", address=address, port=port)
    elif iwarp and not view.host.answers_tcp(address, port):
        yield finding("port-dropped", address=address, port=port)
    elif answer in _PORT_FINDINGS:
        yield finding(_PORT_FINDINGS[answer], address=address, port=port)
    elif answer == Answer.UNASKED:
        yield Fact(f"RDMA port {port} of {address} cannot be asked without a queue pair (iWARP)")
    elif answer == Answer.UNKNOWN:
        yield finding("port-not-asked", address=address, port=port)
    else:
        yield Fact(f"RDMA port {port} of {address} answers")


def _may_be_over_iwarp(view: View, address: str) -> bool:
    """Whether a request would go to a device of iWARP, or whether that is not known.

    Such a device looks for the queue pair that a request names, which may be somebody else's.
    """
    netdev = view.netdev_to(address)
    return any(
        port.is_iwarp and (netdev is None or netdev in view.netdevs_of(port)) for port in view.ports
    )


def _mounted_otherwise(view: View) -> Iterator[Finding]:
    """Reports the mounts of the server that do not use RDMA.

    All have to go before the first comes back: from version 4 on, mounts of one server with one
    version of NFS share the transport of the first of them.
    """
    found = [
        mount
        for mount in view.mounts
        if view.address_of(mount) in view.addresses_of_server and not mount.is_rdma
    ]
    if not found:
        return
    points = [mount.point for mount in found]
    protos = dict.fromkeys(mount.options.get("proto", "?") for mount in found)
    first, *others = (
        {"options": _rdma_options(mount), "source": mount.source, "point": mount.point}
        for mount in found
    )
    # A mount may be below another one.
    told = {"names": ", ".join(points), "points": points[::-1], "proto": ", ".join(protos)}
    values = {"server": view.server, **told, **first}
    yield Finding(KINDS["mount-not-rdma"], values, tuple(others))


def _rdma_options(mount: Mount) -> str:
    """Returns the options that mount the same by RDMA."""
    told = [f"proto={'rdma6' if ':' in mount.address else 'rdma'}", f"port={_PORT}"]
    told += [
        f"{name}={mount.options[name]}"
        for name, default in _KEPT.items()
        if mount.options.get(name, default) != default
    ]
    told += [name for name in _KEPT_WORDS if name in mount.options]
    return ",".join([*told, *mount.flags, *(["ro"] if mount.is_read_only else [])])
