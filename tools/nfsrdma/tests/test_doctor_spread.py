# SPDX-License-Identifier: GPL-2.0
"""The doctor's finding about connections that the ports of this host do not share evenly."""

from __future__ import annotations

import pytest
from fake import UP, FakeHost
from test_doctor import CONNECTIONS, findings, fix, spread


@pytest.mark.parametrize(
    ("first", "second", "is_uneven"),
    [(2, 2, False), (3, 2, False), (1, 0, False), (3, 1, True), (0, 2, True), (0, 0, False)],
)
def test_numbers_of_connections(first: int, second: int, is_uneven: bool) -> None:
    host = FakeHost()
    spread(host, first, second)
    assert ("ports-uneven" in findings(host)) == is_uneven


def test_ports_that_cannot_be_used() -> None:
    host = FakeHost()
    spread(host, 4, 0)
    assert fix(host, "ports-uneven").startswith("nfsrdma rails ")
    host.files["/sys/class/infiniband/rxe1/ports/1/state"] = "1: DOWN\n"
    assert "ports-uneven" not in findings(host)


@pytest.mark.parametrize("value", ["", "10.0.0.2", "10.0.0.2,10.0.0.77", "fd00::2,fd00::102"])
def test_fewer_ports_in_the_list(value: str) -> None:
    host = FakeHost()
    spread(host, 4, 0)
    host.files["/proc/sys/sunrpc/rdma_local_addrs"] = f"{value}\n"
    assert "ports-uneven" not in findings(host)


def test_each_server_counts_for_itself() -> None:
    host = FakeHost()
    spread(host, 1, 0)
    other = UP.replace("10.0.0.1:", "10.0.0.9:").replace("device=rxe0", "device=rxe1")
    host.files[CONNECTIONS] += other + UP.replace("10.0.0.1:20049", "[fd00::1]:20049") * 3
    assert "ports-uneven" not in findings(host)
    host.files[CONNECTIONS] += other
    assert "ports-uneven" in findings(host)
