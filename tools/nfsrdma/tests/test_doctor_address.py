# SPDX-License-Identifier: GPL-2.0
"""The doctor's finding about ports without an address: what a mount can use is no fault."""

from __future__ import annotations

import pytest
from fake import MOUNTED, FakeHost
from test_doctor import findings, interface, second_port

from nfsrdma import doctor

LINK_LOCAL = {"family": "inet6", "local": "fe80::2", "prefixlen": 64, "scope": "link"}


def test_port_with_link_local_addresses_that_a_mount_uses() -> None:
    host = FakeHost()
    interface(host, ifindex=3, addr_info=[LINK_LOCAL])
    host.files["/proc/self/mountinfo"] = MOUNTED.replace("=10.0.0.1", "=fe80::1%3")
    route = ("ip", "-j", "route", "get", "fe80::1", "dev", "eth0")
    host.json(*route, value=[{"dst": "fe80::1", "dev": "eth0"}])
    assert findings(host) == []
    interface(host, ifindex=3, addr_info=[])
    assert findings(host) == ["no-address"]


@pytest.mark.parametrize(
    ("addresses", "severity"), [([], "warning"), ([LINK_LOCAL], "note")], ids=["none", "link"]
)
def test_only_port_without_an_address(addresses: list[object], severity: str) -> None:
    host = FakeHost()
    interface(host, addr_info=addresses)
    (found,) = doctor.examine(host, None).findings
    assert (found.kind.name, found.as_json()["severity"]) == ("no-address", severity)


@pytest.mark.parametrize("addresses", [[], [LINK_LOCAL]], ids=["none", "link"])
def test_second_port_without_an_address_is_no_fault(addresses: list[object]) -> None:
    host = FakeHost()
    second_port(host, "4: ACTIVE")
    eth1 = host.eth0 | {"ifname": "eth1", "addr_info": addresses}
    host.json("ip", "-j", "address", "show", value=[host.eth0, eth1])
    found = doctor.examine(host, "server")
    assert [finding.kind.name for finding in found.findings] == ["no-address"]
    assert found.status == 0
    assert "\n1. note: the interface eth1 of device rxe1 has no address" in doctor.as_text(found)
