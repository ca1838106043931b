# SPDX-License-Identifier: GPL-2.0
"""Each finding of the doctor is provoked by its own input, and nothing else is found then."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fake import DOWN, MOUNTED, SERVED, UP, FakeHost
from nfsrdma.doctor.kinds import KINDS
from nfsrdma.host import Ran
from nfsrdma.ucm import Answer

from nfsrdma import doctor

CONNECTIONS = "/sys/kernel/debug/rpcrdma/connections"
PORT = "/sys/class/infiniband/rxe0/ports/1"
SYSCTL = "/proc/sys/sunrpc"
SERVING = {"/proc/fs/nfsd/threads": "8\n", "/proc/fs/nfsd/portlist": "rdma 20049\ntcp 2049\n"}


def findings(host: FakeHost, server: str | None = None) -> list[str]:
    return [finding.kind.name for finding in doctor.examine(host, server).findings]


def _files(host: FakeHost, **files: str) -> None:
    host.files |= files


def _unloaded(host: FakeHost) -> None:
    host.remove("/sys/module/rpcrdma")
    host.remove("/sys/kernel/debug")


def _not_installed(host: FakeHost) -> None:
    _unloaded(host)
    host.program("modinfo", "-n", "rpcrdma", status=1)


def without(host: FakeHost, release: str) -> None:
    """Gives the host a kernel that has no module."""
    _not_installed(host)
    host.files["/proc/sys/kernel/osrelease"] = f"{release}\n"


def unused(host: FakeHost) -> None:
    _unloaded(host)
    host.files["/sys/module/rpcrdma/taint"] = "\n"


def stock(host: FakeHost) -> None:
    unused(host)
    host.program("modinfo", "-F", "version", "rpcrdma")


def skipped(host: FakeHost, release: str = "6.12.48+deb13-amd64") -> None:
    stock(host)
    host.files["/proc/sys/kernel/osrelease"] = f"{release}\n"


def interface(host: FakeHost, **values: object) -> None:
    host.json("ip", "-j", "address", "show", value=[host.eth0 | values])


def _down(host: FakeHost, error: int) -> None:
    host.files[CONNECTIONS] = DOWN.replace("-111", str(error))


def _link_down(host: FakeHost) -> None:
    host.files[f"{PORT}/state"] = "1: DOWN\n"
    interface(host, flags=["BROADCAST"])


def second_port(host: FakeHost, state: str) -> None:
    """Gives the host a second device, behind eth1."""
    host.files["/sys/class/infiniband/rxe1/ports/1/state"] = f"{state}\n"
    links = [{"ifname": f"rxe{n}", "port": 1, "netdev": f"eth{n}"} for n in (0, 1)]
    host.json("rdma", "-j", "link", "show", value=links)
    address = {"family": "inet", "local": "10.0.1.2", "scope": "global"}
    eth1 = host.eth0 | {"ifname": "eth1", "addr_info": [address]}
    host.json("ip", "-j", "address", "show", value=[host.eth0, eth1])


def _loopback(host: FakeHost) -> None:
    host.route("10.0.0.1", [{"type": "local", "dst": "10.0.0.1", "dev": "lo"}])


def _beside(host: FakeHost) -> None:
    address = host.eth0["addr_info"][0] | {"prefixlen": 24}
    interface(host, addr_info=[address])
    host.route("10.0.0.1", [{"dev": "eth1"}])


def _many_clients(host: FakeHost, calls: int = 1) -> None:
    host.files |= SERVING
    host.files[CONNECTIONS] = SERVED.replace("in_use=5", f"in_use={calls}") * 9


def _without_listener(host: FakeHost) -> None:
    host.files |= SERVING
    host.files["/proc/fs/nfsd/portlist"] = "tcp 2049\n"
    host.ran["nfsconf", "--get", "nfsd", "rdma"] = Ran(0, "y\n")


def _over_tcp_alone(host: FakeHost) -> None:
    _without_listener(host)
    host.ran["nfsconf", "--get", "nfsd", "rdma"] = Ran(1, "")


def _without_threads(host: FakeHost) -> None:
    host.files |= SERVING
    host.files["/proc/fs/nfsd/threads"] = "0\n"


def over_tcp(host: FakeHost) -> None:
    host.files["/proc/self/mountinfo"] = MOUNTED.replace("rdma,port=20049", "tcp")


def _answers(host: FakeHost, tcp: bool) -> None:
    host.answer, host.tcp = Answer.SILENT, tcp


def iwarp(host: FakeHost) -> None:
    host.files["/sys/class/infiniband/rxe0/node_type"] = "4: RNIC\n"


def conf_names_port(host: FakeHost, port: int) -> None:
    host.files |= SERVING
    host.program("nfsconf", "--get", "nfsd", "rdma", out="y\n")
    host.program("nfsconf", "--get", "nfsd", "rdma-port", out=f"{port}\n")


def settings(host: FakeHost, **values: int) -> None:
    """Sets sysctls; `svc_` stands for the folder of the server's."""
    for name, value in values.items():
        host.files[f"{SYSCTL}/{name.replace('svc_', 'svc_rdma/')}"] = f"{value}\n"


def served(host: FakeHost, count: int = 1, **fields: object) -> None:
    """Gives the host clients whose connections have these fields."""
    host.connection(role="server", peer="10.0.0.9:51", **fields)
    host.files[CONNECTIONS] *= count


def _hung(host: FakeHost, state: str, why: str = "") -> None:
    told = f"[ 9.1] INFO: task kworker/u8:1:312 blocked{why} for more than 120 seconds.\n"
    host.program("dmesg", out=told)
    host.files["/proc/312/stat"] = f"312 (kworker/u8:1 (x)) {state} 2 0 0\n"


IOMMU = "/sys/class/infiniband/rxe0/device/iommu_group/type"
SEV = "[    0.1] Memory Encryption Features active: AMD SEV SEV-ES SEV-SNP\n"


def _bounced(host: FakeHost, total: int, used: int = 0, peak: int = 0) -> None:
    files = {"io_tlb_nslabs": total, "io_tlb_used": used, "io_tlb_used_hiwater": peak}
    folder = "/sys/kernel/debug/swiotlb"
    host.files |= {f"{folder}/{name}": f"{value}\n" for name, value in files.items()}


def lossless(host: FakeHost, *mapped: str) -> None:
    """Switches PFC on for priority 3, to which some DSCPs may be mapped."""
    host.files[f"{SYSCTL}/rdma_traffic_class"] = "-1\n"
    states = "0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off"
    show = ("show", "dev", "eth0")
    host.program("dcb", "pfc", *show, "prio-pfc", out=f"prio-pfc {states} \n")
    host.program("dcb", "-N", "app", *show, "dscp-prio", out=f"dscp-prio {' '.join(mapped)}\n")


def spread(host: FakeHost, first: int, second: int) -> None:
    """Gives the client a second port, and the ports these numbers of connections."""
    second_port(host, "4: ACTIVE")
    host.files[f"{SYSCTL}/rdma_local_addrs"] = "10.0.0.2,10.0.1.2\n"
    host.files[CONNECTIONS] = UP * first + UP.replace("device=rxe0", "device=rxe1") * second


#: A GID of no address of the host.
FOREIGN = "0000:0000:0000:0000:0000:ffff:0a00:0063"

#: A way to provoke each finding.
PROVOKED: dict[str, Callable[[FakeHost], object]] = {
    "not-root": lambda host: (host.denied.add(CONNECTIONS), setattr(host, "root", False)),
    "module-missing": _unloaded,
    "module-not-installed": _not_installed,
    "kernel-too-old": lambda host: without(host, "7.1.13+deb13-amd64"),
    "module-stock": stock,
    "kernel-skipped": skipped,
    "kernel-too-new": lambda host: skipped(host, "7.4.1+deb14-amd64"),
    "module-unused": unused,
    "module-outdated": lambda host: host.program("modinfo", "-F", "version", "rpcrdma", out="2\n"),
    "debugfs-missing": lambda host: host.remove("/sys/kernel/debug"),
    "no-device": lambda host: host.remove("/sys/class/infiniband"),
    "link-down": _link_down,
    "port-unused": lambda host: second_port(host, "1: DOWN"),
    "port-down": lambda host: host.files.update({f"{PORT}/state": "2: INIT\n"}),
    "no-address": lambda host: interface(host, addr_info=[]),
    "gids-full": lambda host: (host.gid(1, FOREIGN), host.gid(2, FOREIGN)),
    "mtu-small": lambda host: interface(host, mtu=1000),
    "class-missing": lossless,
    "name-unknown": lambda host: host.known.clear(),
    "no-route": lambda host: host.route("10.0.0.1", []),
    "route-not-rdma": lambda host: host.route("10.0.0.1", [{"dev": "eth1"}]),
    "route-beside": _beside,
    "address-local": _loopback,
    "neighbour-failed": lambda host: host.neighbour("10.0.0.1", "FAILED"),
    "port-refused": lambda host: setattr(host, "answer", Answer.REFUSED),
    "port-silent": lambda host: setattr(host, "answer", Answer.SILENT),
    "port-filtered": lambda host: _answers(host, tcp=True),
    "port-dropped": iwarp,
    "port-unresolved": lambda host: setattr(host, "answer", Answer.UNRESOLVED),
    "port-not-asked": lambda host: setattr(host, "answer", Answer.UNKNOWN),
    "mount-not-rdma": over_tcp,
    "no-listener": _without_listener,
    "tcp-only": _over_tcp_alone,
    "listener-differs": lambda host: conf_names_port(host, 20050),
    "no-threads": _without_threads,
    "few-threads": _many_clients,
    "refused": lambda host: _down(host, -111),
    "unreachable": lambda host: _down(host, -113),
    "not-answering": lambda host: _down(host, -110),
    "connect-failed": lambda host: _down(host, -105),
    "silent": lambda host: host.connection(silent=2),
    "ports-uneven": lambda host: spread(host, 3, 1),
    "lost-often": lambda host: host.connection(connects=40, lost="device"),
    "peer-breach": lambda host: host.connection(breaches=3),
    "breaches": lambda host: host.files.update(
        {"/sys/kernel/debug/rpcrdma/breaches": "foreign_rkey 2\nsession 0\n"}
    ),
    "requester-breaches": lambda host: host.files.update(
        {"/sys/kernel/debug/rpcrdma/requester_breaches": "slow 1\n"}
    ),
    "credits-out": lambda host: host.connection(in_use=64),
    "threshold-low": lambda host: host.connection(version=1, call_bytes=1024),
    "setting-low": lambda host: host.files.update({f"{SYSCTL}/rdma_slot_table_entries": "16\n"}),
    "version-fixed": lambda host: host.files.update({f"{SYSCTL}/rdma_version": "1\n"}),
    "server-limits": lambda host: settings(host, rdma_max_inline_read=16384),
    "clients-limit": lambda host: (served(host), settings(host, svc_max_req_size=16384)),
    "settings-later": lambda host: (
        served(host, credit_limit=256),
        settings(host, svc_max_requests=128),
    ),
    "queue-short": lambda host: settings(host, rdma_slot_table_entries=256),
    "mtu-packets": lambda host: (
        interface(host, mtu=1500),
        host.connection(call_bytes=9216, reply_bytes=4096),
    ),
    "iommu-strict": lambda host: host.files.update({IOMMU: "DMA\n"}),
    "confidential": lambda host: host.program("dmesg", out=SEV),
    "bounce-buffers-low": lambda host: _bounced(host, total=1000, peak=950),
    "memory-low": lambda host: host.files.update(
        {"/proc/meminfo": "MemTotal: 1000000 kB\nMemAvailable: 20000 kB\n"}
    ),
    "locked-up": lambda host: _hung(host, "D"),
}


def test_every_finding_is_provoked() -> None:
    assert sorted(PROVOKED) == sorted(KINDS)


@pytest.mark.parametrize("name", PROVOKED)
def test_finding(name: str) -> None:
    host = FakeHost()
    PROVOKED[name](host)
    found = doctor.examine(host, "server")
    assert [finding.kind.name for finding in found.findings] == [name]
    finding = found.findings[0]
    assert "{" not in finding.text + finding.fix
    assert finding.fix


def test_healthy_client() -> None:
    found = doctor.examine(FakeHost(), "server")
    assert found.findings == []
    assert found.status == 0
    assert doctor.as_text(found).splitlines() == [
        "ok   module     rpcrdma 0.1.0 is loaded",
        "ok   module     it taints the kernel: it was built out of the kernel's tree (O), it has no"
        " signature that the kernel knows (E)",
        "ok   device     rxe0/1 on eth0 is active: 10.0.0.2 (GID 1, RoCE v2)",
        "ok   route      10.0.0.1 is reached through eth0 (rxe0)",
        "ok   route      RDMA port 20049 of 10.0.0.1 answers",
        "ok   connection client 10.0.0.1:20049: version 2, up for 2m05s",
        "ok   settings   sysctls and thresholds are the defaults, or larger",
        "ok   memory     488.3 MiB of 976.6 MiB are available",
        "",
        "Nothing is wrong.",
    ]


@pytest.mark.parametrize(
    ("letters", "said"),
    [
        ("", "it taints no kernel"),
        ("N", "it taints the kernel: it is for tests (N)"),
        ("Z", "it taints the kernel: another reason (Z)"),
    ],
)
def test_taint(letters: str, said: str) -> None:
    host = FakeHost()
    host.files["/sys/module/rpcrdma/taint"] = f"{letters}\n"
    assert f"ok   module     {said}\n" in doctor.as_text(doctor.examine(host, None))


SCENARIOS = Path(__file__).resolve().parents[2] / "lab/scenarios"


@pytest.mark.parametrize("name", KINDS)
def test_finding_is_provoked_in_the_lab(name: str) -> None:
    assert any(f'"{name}"' in file.read_text() for file in SCENARIOS.glob("*.py"))


def test_healthy_server() -> None:
    host = FakeHost()
    host.files |= SERVING | {CONNECTIONS: SERVED}
    told = doctor.as_text(doctor.examine(host, None))
    assert "ok   server     nfsd listens on RDMA port 20049: 8 threads, 1 connections" in told
    assert "Nothing is wrong." in told


def test_connections_that_are_idle_need_no_threads() -> None:
    host = FakeHost()
    _many_clients(host, calls=0)
    assert findings(host) == []


def test_more_calls_than_threads_are_no_failure() -> None:
    """They are usual for a moment; how often, the doctor cannot know."""
    host = FakeHost()
    _many_clients(host)
    found = doctor.examine(host, None)
    (finding,) = found.findings
    assert finding.text == "nfsd has 8 threads, and its clients have 9 calls in progress"
    assert finding.fix.startswith("rpc.nfsd 16 ")
    assert found.status == 0


def test_server_for_another_user_than_root() -> None:
    """Anybody may read the ports of nfsd, but root alone the number of its threads."""
    host = FakeHost()
    host.files |= SERVING
    host.denied |= {"/proc/fs/nfsd/threads", CONNECTIONS}
    host.root = False
    found = doctor.examine(host, None)
    assert [finding.kind.name for finding in found.findings] == ["not-root"]
    assert "nfsd listens on RDMA port 20049\n" in doctor.as_text(found)


@pytest.mark.parametrize(
    ("prepare", "others"),
    [(_unloaded, ["module-missing"]), (stock, ["module-stock"]), (lambda _host: None, [])],
)
@pytest.mark.parametrize("denied", ["debugfs", "log"])
def test_what_root_alone_may_read(
    prepare: Callable[[FakeHost], object], others: list[str], denied: str
) -> None:
    """It is said whatever module is loaded: the walk looks at the log as well."""
    host = FakeHost()
    host.root = False
    prepare(host)
    if denied == "log":
        host.program("dmesg", status=1)
    else:
        host.denied.add(CONNECTIONS)
    assert findings(host) == ["not-root", *others]


@pytest.mark.parametrize("denied", ["debugfs", "log"])
def test_what_root_may_not_read(denied: str) -> None:
    """A container has no right to the kernel's log, and sudo would not help."""
    host = FakeHost()
    if denied == "log":
        host.program("dmesg", status=1)
    else:
        host.denied.add(CONNECTIONS)
    found = doctor.examine(host, None)
    assert found.findings == []
    assert "root may not read here, as in a container: " in doctor.as_text(found)


def test_idle_transport_is_no_finding() -> None:
    host = FakeHost()
    host.files[CONNECTIONS] = DOWN.replace("failures=4 error=-111", "failures=0 error=0")
    assert findings(host) == []


def test_failed_attempts_are_told() -> None:
    host = FakeHost()
    host.files[CONNECTIONS] = DOWN
    told = doctor.as_text(doctor.examine(host, None))
    assert "client 10.0.0.3:20049: 4 failed in 1m15s, next attempt in 9 s\n" in told


def test_fix_names_its_object() -> None:
    host = FakeHost()
    _link_down(host)
    result = doctor.examine(host, None)
    told = doctor.as_text(result)
    assert "FAIL device     port 1 of device rxe0 is DOWN" in told
    end = "What to do:\n1. problem: port 1 of device rxe0 is DOWN\n     ip link set eth0 up"
    assert told.endswith(end)
    assert result.status == doctor.WRONG


def test_problems_come_before_notes() -> None:
    host = FakeHost()
    host.files[f"{SYSCTL}/rdma_version"] = "1\n"
    host.files[CONNECTIONS] = UP + DOWN
    told = doctor.as_text(doctor.examine(host, None))
    assert told.index("problem: 10.0.0.3:20049 refuses") < told.index("note: rdma_version is 1")


def test_note_alone_is_no_failure() -> None:
    host = FakeHost()
    host.files[f"{SYSCTL}/rdma_version"] = "1\n"
    assert doctor.examine(host, None).status == 0


def test_without_iproute2() -> None:
    host = FakeHost()
    host.ran.clear()
    host.program("modinfo", "-F", "version", "rpcrdma", out="0.1.0\n")
    assert findings(host) == []


@pytest.mark.parametrize("error", [-107, -71, -105, -12])
def test_attempts_that_fail_for_another_reason(error: int) -> None:
    """ENOTCONN and EPROTO say nothing about whether the peer has answered."""
    host = FakeHost()
    _down(host, error)
    assert findings(host) == ["connect-failed"]


def test_regions_kept_for_the_next_call_are_no_finding() -> None:
    """Request slots keep a region each, so none may be idle on a connection at rest."""
    host = FakeHost()
    host.connection(regions_idle=0, in_use=0)
    assert findings(host) == []


@pytest.mark.parametrize("later", [{"credits": 128, "in_use": 100}, {"in_use": 3}])
def test_credits_that_are_out_for_a_moment(later: dict[str, object]) -> None:
    """A server that grants by use has granted more, or the client has fewer calls."""
    host = FakeHost()
    host.connection(in_use=64)
    host.meanwhile = lambda: host.connection(**later)
    assert findings(host) == []


def test_credits_that_stay_out() -> None:
    host = FakeHost()
    host.connection(credits=16, in_use=16)
    told = fix(host, "credits-out")
    assert "16 at rest" in told
    assert told.splitlines()[-1].startswith("sysctl sunrpc.svc_rdma.max_requests=128 ")


def test_task_that_waits_for_a_disk_hangs_as_well() -> None:
    host = FakeHost()
    _hung(host, "D", " in I/O wait")
    (finding,) = doctor.examine(host, None).findings
    assert finding.text == "tasks hang, as the kernel's log reports: kworker/u8:1:312"


def test_task_that_hung_before_is_no_finding() -> None:
    host = FakeHost()
    _hung(host, "S")
    assert findings(host) == []
    host.remove("/proc/312")
    assert findings(host) == []


def test_thresholds_that_are_no_finding() -> None:
    """Version two follows the settings; a host that takes little inline asks for no more."""
    host = FakeHost()
    host.connection(version=2, call_bytes=1024)
    assert findings(host) == []
    host.connection(version=1, call_bytes=4096, reply_bytes=8192)
    assert findings(host) == []
    host.connection(version=1, call_bytes=2048)
    assert findings(host) == ["threshold-low"]
    host.files[f"{SYSCTL}/rdma_max_inline_read"] = "2048\n"
    assert findings(host) == ["setting-low"]


def fix(host: FakeHost, name: str, server: str | None = None) -> str:
    (found,) = (f for f in doctor.examine(host, server).findings if f.kind.name == name)
    return found.fix


def test_listener_is_added_to_an_nfsd_that_runs() -> None:
    """`rpc.nfsd --rdma` adds no listener while nfsd runs. The port is that of the connection."""
    host = FakeHost()
    host.files[CONNECTIONS] = DOWN.replace(":20049", ":20050")
    assert fix(host, "refused").startswith("echo 'rdma 20050' > /proc/fs/nfsd/portlist ")
    host.answer = Answer.REFUSED
    host.files["/proc/self/mountinfo"] = MOUNTED.replace("port=20049", "port=20051")
    told = fix(host, "port-refused", "server")
    assert told.startswith("echo 'rdma 20051' > /proc/fs/nfsd/portlist ")


@pytest.mark.parametrize(
    ("conf", "name", "port"),
    [
        ({}, "tcp-only", 20049),
        ({"rdma": "n"}, "tcp-only", 20049),
        ({"rdma": "0"}, "tcp-only", 20049),
        ({"rdma": "1"}, "no-listener", 20049),
        ({"rdma": "Yes", "rdma-port": "20050"}, "no-listener", 20050),
        ({"rdma": "y", "rdma-port": "nfsrdma"}, "no-listener", 20049),
        ({"rdma": "nfsrdma"}, "no-listener", 20049),
        ({"rdma": "20051", "rdma-port": "20050"}, "no-listener", 20051),
    ],
)
def test_listener_gets_a_port_by_number(conf: dict[str, str], name: str, port: int) -> None:
    """Debian has no service nfsrdma. `rdma=20051` is of earlier versions of nfs.conf."""
    host = FakeHost()
    _over_tcp_alone(host)
    for setting, value in conf.items():
        host.program("nfsconf", "--get", "nfsd", setting, out=f"{value}\n")
    assert fix(host, name) == (
        f"echo 'rdma {port}' > /proc/fs/nfsd/portlist   # until nfsd ends; permanently:\n"
        f"nfsconf --set nfsd rdma y && nfsconf --set nfsd rdma-port {port} &&\n"
        "systemctl restart nfs-server"
    )


def test_port_of_earlier_versions_of_nfs_conf() -> None:
    host = FakeHost()
    host.files |= SERVING
    host.program("nfsconf", "--get", "nfsd", "rdma", out="20049\n")
    assert findings(host) == []
    host.program("nfsconf", "--get", "nfsd", "rdma", out="20050\n")
    assert findings(host) == ["listener-differs"]


def test_json() -> None:
    host = FakeHost()
    _down(host, -111)
    told = json.loads(doctor.as_json(doctor.examine(host, None)))
    assert told["findings"] == [
        {
            "step": "connection",
            "finding": "refused",
            "severity": "problem",
            "text": "10.0.0.3:20049 refuses connections: nothing listens there for RDMA",
            "fix": "echo 'rdma 20049' > /proc/fs/nfsd/portlist   # on the server, while nfsd runs"
            "\nnfsrdma doctor   # on the server, for its findings",
        }
    ]
    assert {"step": "module", "text": "rpcrdma 0.1.0 is loaded"} in told["facts"]
