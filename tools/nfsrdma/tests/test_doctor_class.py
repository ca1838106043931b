# SPDX-License-Identifier: GPL-2.0
"""The doctor's finding about connections without a traffic class on a lossless port."""

from __future__ import annotations

import pytest
from fake import FakeHost
from test_doctor import SERVING, SYSCTL, findings, fix, lossless

CLASS = f"{SYSCTL}/rdma_traffic_class"
DEFAULT = "/sys/kernel/config/rdma_cm/rxe0/ports/1/default_roce_tos"


@pytest.mark.parametrize(
    ("mapped", "value"),
    [((), 96), (("26:3",), 104), (("10:1", "34:4"), 96), (("8:1", "46:3"), 184)],
)
def test_class_follows_from_the_table_of_the_port(mapped: tuple[str, ...], value: int) -> None:
    host = FakeHost()
    lossless(host, *mapped)
    assert findings(host) == ["class-missing"]
    assert fix(host, "class-missing").startswith(f"sysctl sunrpc.rdma_traffic_class={value} ")


def test_connections_with_a_class() -> None:
    host = FakeHost()
    lossless(host)
    host.files[CLASS] = "0\n"
    assert findings(host) == []
    host.files |= {CLASS: "-1\n", DEFAULT: "106\n"}
    assert findings(host) == []
    host.files[DEFAULT] = "0\n"
    assert findings(host) == ["class-missing"]


def test_port_that_loses_packets_of_all_priorities() -> None:
    host = FakeHost()
    lossless(host)
    show = ("dcb", "pfc", "show", "dev", "eth0", "prio-pfc")
    host.program(*show, out="prio-pfc 0:off 1:off 3:off \n")
    assert findings(host) == []
    host.program(*show, status=1)
    assert findings(host) == []


def test_the_client_chooses_the_class_of_a_server() -> None:
    host = FakeHost()
    host.files |= SERVING
    lossless(host)
    assert findings(host) == ["class-missing"]
    host.files["/proc/self/mountinfo"] = ""
    assert "class-missing" not in findings(host)
