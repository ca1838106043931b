# SPDX-License-Identifier: GPL-2.0
"""The doctor tells the GID of each address of a RoCE port."""

from __future__ import annotations

import pytest
from fake import GIDS, FakeHost
from test_doctor import FOREIGN, findings, interface

from nfsrdma import doctor

PORT = "/sys/class/infiniband/rxe0/ports/1"


def _device(host: FakeHost) -> str:
    told = doctor.as_text(doctor.examine(host, None)).splitlines()
    (line,) = (line for line in told if line.startswith("ok   device"))
    return line.partition(" is active")[2]


def test_address_of_ipv6() -> None:
    host = FakeHost()
    address = {"family": "inet6", "local": "fd00::2", "scope": "global"}
    interface(host, addr_info=[*host.eth0["addr_info"], address])
    host.gid(2, "fd00:0000:0000:0000:0000:0000:0000:0002")
    assert _device(host) == ": 10.0.0.2 (GID 1, RoCE v2), fd00::2 (GID 2, RoCE v2)"


@pytest.mark.parametrize("first", [1, 2])
def test_version_two_is_preferred(first: int) -> None:
    """Adapters have a GID of each version for each address."""
    host = FakeHost()
    host.gid(first, GIDS[1], kind="IB/RoCE v1")
    host.gid(3 - first, GIDS[1])
    assert _device(host) == f": 10.0.0.2 (GID {3 - first}, RoCE v2)"


def test_version_one_alone() -> None:
    host = FakeHost()
    host.gid(1, GIDS[1], kind="IB/RoCE v1")
    assert _device(host) == ": 10.0.0.2 (GID 1, IB/RoCE v1)"


def test_order_of_the_table_is_that_of_numbers() -> None:
    host = FakeHost()
    host.gid(1, FOREIGN)
    host.gid(10, GIDS[1])
    host.gid(9, GIDS[1])
    assert _device(host) == ": 10.0.0.2 (GID 9, RoCE v2)"


def test_inactive_half_of_a_bond() -> None:
    """Its table has room, and nothing is wrong with it."""
    host = FakeHost()
    host.gid(1, GIDS[1], netdev="eth9")
    assert _device(host) == ": 10.0.0.2 (no GID)"
    assert findings(host) == []


def test_shared_device_in_a_container() -> None:
    """rdma(8) does not show the interface of the host; a GID names the container's own."""
    host = FakeHost()
    host.json("rdma", "-j", "link", "show", value=[{"ifname": "rxe0", "port": 1}])
    assert findings(host) == []
    assert "rxe0/1 on eth0 is active: 10.0" in doctor.as_text(doctor.examine(host, None))


def test_gid_of_another_container() -> None:
    """Its interface has the name of one that is here."""
    host = FakeHost()
    host.json("rdma", "-j", "link", "show", value=[{"ifname": "rxe0", "port": 1}])
    host.gid(1, FOREIGN)
    assert findings(host) == ["route-not-rdma"]


def test_full_table() -> None:
    host = FakeHost()
    host.gid(1, FOREIGN)
    host.gid(2, FOREIGN)
    interface(host, addr_info=[host.eth0["addr_info"][0] | {"prefixlen": 24}])
    (finding,) = doctor.examine(host, None).findings
    assert finding.text == (
        "all 3 GIDs of port 1 of device rxe0 are in use: 10.0.0.2 has none (addresses without: 1)"
    )
    again = "10.0.0.2/24 dev eth0"
    assert "console because routes" in finding.fix
    assert finding.fix.endswith(f"\nip address del {again} && ip address add {again}")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("ports/1/link_layer", "InfiniBand"),
        ("node_type", "4: RNIC"),
    ],
)
def test_links_whose_addresses_have_no_gids(file: str, text: str) -> None:
    host = FakeHost()
    host.files[f"/sys/class/infiniband/rxe0/{file}"] = f"{text}\n"
    assert _device(host) == ": 10.0.0.2"
