# SPDX-License-Identifier: GPL-2.0
"""The doctor's findings about sizes, queues, ports of nfs.conf, and the way to memory."""

from __future__ import annotations

import socket

import pytest
from fake import UP, FakeHost
from nfsrdma.host import Host
from test_doctor import (
    CONNECTIONS,
    IOMMU,
    SYSCTL,
    conf_names_port,
    findings,
    fix,
    interface,
    iwarp,
    served,
    settings,
)

from nfsrdma import doctor


def _text(host: FakeHost) -> str:
    (finding,) = doctor.examine(host, None).findings
    return finding.text


@pytest.mark.parametrize("setting", ["rdma_max_inline_read", "rdma_max_inline_write"])
def test_server_that_takes_less(setting: str) -> None:
    """The smaller size of both ends is effective, so a larger setting tells who limits it."""
    host = FakeHost()
    settings(host, **{setting: 9000})
    host.connection(call_bytes=4096, reply_bytes=4096)
    assert _text(host) == (
        "messages to or from 10.0.0.1:20049 have at most 4096 bytes inline, although this host"
        " would take 8192: the server takes less"
    )
    assert "sysctl sunrpc.svc_rdma.max_req_size=8192 " in fix(host, "server-limits")
    # A setting of the default asks for no more.
    settings(host, **{setting: 4097})
    assert findings(host) == []


def test_transports_of_one_server_are_one_finding() -> None:
    host = FakeHost()
    settings(host, rdma_max_inline_read=16384)
    host.files[CONNECTIONS] = UP + UP.replace("id=1", "id=2")
    assert findings(host) == ["server-limits"]


def test_clients_that_take_less() -> None:
    host = FakeHost()
    served(host, 3, call_bytes=4096, reply_bytes=8192)
    settings(host, svc_max_req_size=8192)
    assert _text(host) == (
        "connections that have at most 4096 bytes inline, although max_req_size is 8192: 3, the"
        " first from 10.0.0.9:51"
    )
    served(host, 3, call_bytes=8192, reply_bytes=8192)
    assert findings(host) == []


def test_connections_that_were_accepted_before() -> None:
    host = FakeHost()
    served(host, 2, credit_limit=256)
    settings(host, svc_max_requests=128)
    assert _text(host) == (
        "connections that keep an earlier value of svc_rdma.max_requests, 256, which is 128 now: 2,"
        " the first from 10.0.0.9:51"
    )
    served(host, call_bytes=16384, reply_bytes=4096)
    settings(host, svc_max_requests=128, svc_max_req_size=4096)
    assert findings(host) == ["settings-later"]
    assert "max_req_size" in doctor.examine(host, None).findings[0].text


def test_automatic_sizes_are_no_finding() -> None:
    host = FakeHost()
    served(host, call_bytes=8192, reply_bytes=8192)
    settings(host, svc_max_req_size=4096)
    assert findings(host) == ["settings-later"]
    host.files[f"{SYSCTL}/svc_rdma/inline_auto"] = "1\n"
    assert findings(host) == []
    # Another size was set.
    settings(host, svc_max_req_size=6144)
    assert findings(host) == ["settings-later"]
    settings(host, rdma_max_inline_read=4096, rdma_max_inline_write=4096)
    host.connection(call_bytes=8192, reply_bytes=8192)
    interface(host, mtu=1500)
    assert findings(host) == []


@pytest.mark.parametrize(
    ("role", "setting"),
    [("client", "rdma_slot_table_entries"), ("server", "svc_max_requests")],
)
def test_queues_of_a_device_are_short(role: str, setting: str) -> None:
    host = FakeHost()
    host.connection(role=role, credit_limit=64, credits=16, in_use=1)
    settings(host, **{setting: 128})
    assert findings(host) == ["queue-short"]
    host.connection(role=role, credit_limit=128, credits=16, in_use=1)
    assert findings(host) == []


@pytest.mark.parametrize(
    ("mtu", "size", "found"),
    [
        (1500, 4096, []),
        (1500, 8192, []),
        (1500, 9216, ["mtu-packets"]),
        (2200, 9216, ["mtu-packets"]),
        (4191, 9216, ["mtu-packets"]),
        (4192, 9216, []),
        (4200, 9216, []),
        (9000, 65536, []),
    ],
)
def test_packets_of_an_inline_message(mtu: int, size: int, found: list[str]) -> None:
    host = FakeHost()
    interface(host, mtu=mtu)
    host.connection(call_bytes=size, reply_bytes=4096)
    assert findings(host) == found
    iwarp(host)
    assert findings(host) == []


@pytest.mark.parametrize(("mtu", "found"), [(1119, ["mtu-small"]), (1120, [])])
def test_mtu_for_packets_of_1024_bytes(mtu: int, found: list[str]) -> None:
    host = FakeHost()
    interface(host, mtu=mtu)
    assert findings(host) == found


def test_servers_get_a_larger_mtu_before_clients() -> None:
    """A client with a larger MTU than its server loses the packets that are longer."""
    host = FakeHost()
    interface(host, mtu=1000)
    (found,) = doctor.examine(host, None).findings
    assert "first on\n# switches and servers" in found.fix


def test_number_of_packets() -> None:
    host = FakeHost()
    interface(host, mtu=1500)
    host.connection(call_bytes=4096, reply_bytes=9216)
    assert _text(host) == (
        "an inline message of 9216 bytes takes 9 packets of 1024 bytes: the MTU of eth0 is 1500"
    )


def test_sizes_of_a_transport_without_connection_say_nothing() -> None:
    host = FakeHost()
    settings(host, rdma_max_inline_read=16384, rdma_slot_table_entries=256)
    host.files[CONNECTIONS] = UP.replace("state=up", "state=down")
    assert findings(host) == []


def test_port_of_the_listener() -> None:
    """A further port is no problem, nor one of a server that nfs.conf does not mention."""
    host = FakeHost()
    conf_names_port(host, 20050)
    assert fix(host, "listener-differs").startswith("echo 'rdma 20050' > /proc/fs/nfsd/portlist ")
    host.files["/proc/fs/nfsd/portlist"] = "rdma 20049\nrdma 20050\n"
    assert findings(host) == []
    host.files["/proc/fs/nfsd/portlist"] = "rdma 20049\n"
    host.program("nfsconf", "--get", "nfsd", "rdma", status=1)
    assert findings(host) == []
    conf_names_port(host, 20049)
    assert findings(host) == []


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("DMA-FQ", "ok   dma        the IOMMU translates for rxe0, and invalidates in batches\n"),
        ("identity", "ok   dma        rxe0 reaches memory without translation\n"),
    ],
)
def test_iommu(kind: str, said: str) -> None:
    host = FakeHost()
    host.files[IOMMU] = f"{kind}\n"
    assert said in doctor.as_text(doctor.examine(host, None))
    assert findings(host) == []


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Memory Encryption Features active: Intel TDX", "Intel TDX"),
        ("Memory Encryption Features active: AMD SEV", "AMD SEV"),
        ("Memory Encryption Features active: AMD SME", ""),
        ("RSI: Using RSI version 1.0", "Arm CCA"),
    ],
)
def test_confidential_guest(line: str, kind: str) -> None:
    host = FakeHost()
    host.program("dmesg", out=f"[    0.000000] {line}\n")
    assert findings(host) == (["confidential"] if kind else [])
    if kind:
        assert f"confidential guest ({kind})" in _text(host)


@pytest.mark.parametrize(
    ("total", "used", "peak", "found"),
    [
        (32768, 0, 0, []),
        (32768, 100, 29000, []),
        (32768, 100, 30000, ["bounce-buffers-low"]),
        (32768, 32768, 0, ["bounce-buffers-low"]),
        (0, 0, 0, []),
    ],
)
def test_bounce_buffers(total: int, used: int, peak: int, found: list[str]) -> None:
    host = FakeHost()
    files = {"io_tlb_nslabs": total, "io_tlb_used": used, "io_tlb_used_hiwater": peak}
    for name, value in files.items():
        host.files[f"/sys/kernel/debug/swiotlb/{name}"] = f"{value}\n"
    assert findings(host) == found
    if found:
        assert fix(host, "bounce-buffers-low").startswith(f"swiotlb={2 * total} ")


def test_a_host_with_another_module_has_no_sizes() -> None:
    host = FakeHost()
    host.remove(SYSCTL)
    assert findings(host) == []


def test_answer_over_tcp() -> None:
    """A port that listens, and one that refuses; an address that no route leads to."""
    host = Host()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        assert host.answers_tcp("127.0.0.1", port)
        listener.listen()
        assert host.answers_tcp("127.0.0.1", port)
    assert not host.answers_tcp("255.255.255.255", port)
