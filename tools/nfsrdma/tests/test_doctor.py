# SPDX-License-Identifier: GPL-2.0
"""Each finding of the doctor is provoked by its own input, and nothing else is found then."""

from __future__ import annotations

import json
from collections.abc import Callable

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


def _findings(host: FakeHost, server: str | None = None) -> list[str]:
    return [finding.kind.name for finding in doctor.examine(host, server).findings]


def _files(host: FakeHost, **files: str) -> None:
    host.files |= files


def _unloaded(host: FakeHost) -> None:
    host.remove("/sys/module/rpcrdma")
    host.remove("/sys/kernel/debug")


def _not_installed(host: FakeHost) -> None:
    _unloaded(host)
    host.program("modinfo", "-n", "rpcrdma", status=1)


def _stock(host: FakeHost) -> None:
    _unloaded(host)
    host.files["/sys/module/rpcrdma/taint"] = "\n"


def _interface(host: FakeHost, **values: object) -> None:
    host.json("ip", "-j", "address", "show", value=[host.eth0 | values])


def _down(host: FakeHost, error: int) -> None:
    host.files[CONNECTIONS] = DOWN.replace("-111", str(error))


def _link_down(host: FakeHost) -> None:
    host.files[f"{PORT}/state"] = "1: DOWN\n"
    _interface(host, flags=["BROADCAST"])


def _second_port(host: FakeHost, state: str) -> None:
    """Gives the host a second device, behind eth1."""
    host.files["/sys/class/infiniband/rxe1/ports/1/state"] = f"{state}\n"
    links = [{"ifname": f"rxe{n}", "port": 1, "netdev": f"eth{n}"} for n in (0, 1)]
    host.json("rdma", "-j", "link", "show", value=links)
    address = {"family": "inet", "local": "10.0.1.2", "scope": "global"}
    eth1 = host.eth0 | {"ifname": "eth1", "addr_info": [address]}
    host.json("ip", "-j", "address", "show", value=[host.eth0, eth1])


def _loopback(host: FakeHost) -> None:
    host.route("10.0.0.1", [{"type": "local", "dst": "10.0.0.1", "dev": "lo"}])


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


def _over_tcp(host: FakeHost) -> None:
    host.files["/proc/self/mountinfo"] = MOUNTED.replace("rdma,port=20049", "tcp")


def _hung(host: FakeHost, state: str, why: str = "") -> None:
    told = f"[ 9.1] INFO: task kworker/u8:1:312 blocked{why} for more than 120 seconds.\n"
    host.program("dmesg", out=told)
    host.files["/proc/312/stat"] = f"312 (kworker/u8:1 (x)) {state} 2 0 0\n"


#: A way to provoke each finding.
PROVOKED: dict[str, Callable[[FakeHost], object]] = {
    "not-root": lambda host: host.denied.add(CONNECTIONS),
    "module-missing": _unloaded,
    "module-not-installed": _not_installed,
    "module-stock": _stock,
    "module-outdated": lambda host: host.program("modinfo", "-F", "version", "rpcrdma", out="2\n"),
    "debugfs-missing": lambda host: host.remove("/sys/kernel/debug"),
    "no-device": lambda host: host.remove("/sys/class/infiniband"),
    "link-down": _link_down,
    "port-unused": lambda host: _second_port(host, "1: DOWN"),
    "port-down": lambda host: host.files.update({f"{PORT}/state": "2: INIT\n"}),
    "no-address": lambda host: _interface(host, addr_info=[]),
    "mtu-small": lambda host: _interface(host, mtu=1000),
    "name-unknown": lambda host: host.known.clear(),
    "no-route": lambda host: host.route("10.0.0.1", []),
    "route-not-rdma": lambda host: host.route("10.0.0.1", [{"dev": "eth1"}]),
    "address-local": _loopback,
    "neighbour-failed": lambda host: host.neighbour("10.0.0.1", "FAILED"),
    "port-refused": lambda host: setattr(host, "answer", Answer.REFUSED),
    "port-silent": lambda host: setattr(host, "answer", Answer.SILENT),
    "port-unresolved": lambda host: setattr(host, "answer", Answer.UNRESOLVED),
    "port-not-asked": lambda host: setattr(host, "answer", Answer.UNKNOWN),
    "mount-not-rdma": _over_tcp,
    "no-listener": _without_listener,
    "tcp-only": _over_tcp_alone,
    "no-threads": _without_threads,
    "few-threads": _many_clients,
    "refused": lambda host: _down(host, -111),
    "unreachable": lambda host: _down(host, -113),
    "not-answering": lambda host: _down(host, -110),
    "connect-failed": lambda host: _down(host, -105),
    "silent": lambda host: host.connection(silent=2),
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
    assert "{" not in finding.text + finding.mend
    assert finding.mend


def test_healthy_client() -> None:
    found = doctor.examine(FakeHost(), "server")
    assert found.findings == []
    assert found.status == 0
    assert doctor.as_text(found).splitlines() == [
        "ok   module     rpcrdma 0.1.0 is loaded",
        "ok   device     rxe0/1 on eth0 is active: 10.0.0.2",
        "ok   route      10.0.0.1 is reached through eth0 (rxe0)",
        "ok   route      RDMA port 20049 of 10.0.0.1 answers",
        "ok   connection client 10.0.0.1:20049: version 2, up for 2m05s",
        "ok   settings   sysctls and thresholds are the defaults, or larger",
        "ok   memory     488.3 MiB of 976.6 MiB are available",
        "",
        "Nothing is wrong.",
    ]


def test_healthy_server() -> None:
    host = FakeHost()
    host.files |= SERVING | {CONNECTIONS: SERVED}
    told = doctor.as_text(doctor.examine(host, None))
    assert "ok   server     nfsd listens on RDMA port 20049: 8 threads, 1 connections" in told
    assert "Nothing is wrong." in told


def test_connections_that_are_idle_need_no_threads() -> None:
    host = FakeHost()
    _many_clients(host, calls=0)
    assert _findings(host) == []


def test_more_calls_than_threads_are_no_failure() -> None:
    """They are usual for a moment; how often, the doctor cannot know."""
    host = FakeHost()
    _many_clients(host)
    found = doctor.examine(host, None)
    (finding,) = found.findings
    assert finding.text == "nfsd has 8 threads, and its clients have 9 calls under way"
    assert finding.mend.startswith("rpc.nfsd 16 ")
    assert found.status == 0


def test_server_for_another_user_than_root() -> None:
    """Anybody may read the ports of nfsd, but root alone the number of its threads."""
    host = FakeHost()
    host.files |= SERVING
    host.denied |= {"/proc/fs/nfsd/threads", CONNECTIONS}
    found = doctor.examine(host, None)
    assert [finding.kind.name for finding in found.findings] == ["not-root"]
    assert "nfsd listens on RDMA port 20049\n" in doctor.as_text(found)


@pytest.mark.parametrize(
    ("prepare", "others"),
    [(_unloaded, ["module-missing"]), (_stock, ["module-stock"]), (lambda _host: None, [])],
)
@pytest.mark.parametrize("denied", ["debugfs", "log"])
def test_what_root_alone_may_read(
    prepare: Callable[[FakeHost], object], others: list[str], denied: str
) -> None:
    """It is said whatever module is loaded: the walk looks at the log as well."""
    host = FakeHost()
    prepare(host)
    if denied == "log":
        host.program("dmesg", status=1)
    else:
        host.denied.add(CONNECTIONS)
    assert _findings(host) == ["not-root", *others]


def test_idle_transport_is_no_finding() -> None:
    host = FakeHost()
    host.files[CONNECTIONS] = DOWN.replace("failures=4 error=-111", "failures=0 error=0")
    assert _findings(host) == []


def test_server_of_a_mount_is_walked_to() -> None:
    host = FakeHost()
    host.route("10.0.0.1", [])
    assert _findings(host) == ["no-route"]


def test_local_address_on_a_device() -> None:
    host = FakeHost()
    host.known["self"] = ["10.0.0.2"]
    host.route("10.0.0.2", [{"type": "local", "dev": "lo"}])
    assert _findings(host, "self") == []


@pytest.mark.parametrize("answer", [Answer.LISTENS, Answer.REJECTED])
def test_port_that_gives_no_reason_for_a_finding(answer: Answer) -> None:
    host = FakeHost()
    host.answer = answer
    told = doctor.as_text(doctor.examine(host, "server"))
    assert "RDMA port 20049 of 10.0.0.1 answers" in told
    assert "Nothing is wrong." in told


@pytest.mark.parametrize("answer", [Answer.UNASKED, Answer.UNKNOWN])
def test_port_that_cannot_be_asked_over_iwarp(answer: Answer) -> None:
    """That is said, and no module would change it."""
    host = FakeHost()
    host.files["/sys/class/infiniband/rxe0/node_type"] = "4: RNIC\n"
    host.answer = answer
    told = doctor.as_text(doctor.examine(host, "server"))
    assert "ok   route      RDMA port 20049 of 10.0.0.1 cannot be asked without a queue" in told
    assert "Nothing is wrong." in told


def test_gateway_is_the_neighbour() -> None:
    host = FakeHost()
    host.route("10.0.0.1", [{"dev": "eth0", "gateway": "10.0.0.254"}])
    host.neighbour("10.0.0.254", "INCOMPLETE")
    assert _findings(host) == ["neighbour-failed"]


def test_mend_names_what_is_to_be_mended() -> None:
    host = FakeHost()
    _link_down(host)
    result = doctor.examine(host, None)
    told = doctor.as_text(result)
    assert "FAIL device     port 1 of device rxe0 is DOWN" in told
    end = "What to do:\n1. problem: port 1 of device rxe0 is DOWN\n     ip link set eth0 up"
    assert told.endswith(end)
    assert result.status == doctor.WRONG


def test_port_that_is_down_and_unused_is_no_failure() -> None:
    """A card often has a second port without a cable."""
    host = FakeHost()
    _second_port(host, "1: DOWN")
    assert doctor.examine(host, "server").status == 0
    assert doctor.examine(host, None).status == 0


def test_port_on_the_way_to_a_server_is_down() -> None:
    """The route leads through it although it has no carrier, or the route has gone with it."""
    host = FakeHost()
    _second_port(host, "1: DOWN")
    host.route("10.0.0.1", [{"dev": "eth1"}])
    assert _findings(host, "server") == ["port-down"]
    host.route("10.0.0.1", [{"dev": "eth9"}])
    assert _findings(host, "server") == ["port-down", "route-not-rdma"]
    host.route("10.0.0.1", [])
    assert _findings(host, "server") == ["port-down", "no-route"]


def test_bond_with_one_port_down_still_leads_to_the_server() -> None:
    host = FakeHost()
    _second_port(host, "1: DOWN")
    for name in ("eth0", "eth1"):
        host.files[f"/sys/class/net/{name}/upper_bond0/ifindex"] = "7\n"
    host.route("10.0.0.1", [{"dev": "bond0"}])
    assert _findings(host, "server") == ["port-unused"]


def test_server_on_this_host_whose_port_is_down() -> None:
    host = FakeHost()
    _second_port(host, "1: DOWN")
    host.known["self"] = ["10.0.1.2"]
    host.route("10.0.1.2", [{"type": "local", "dev": "lo"}])
    assert _findings(host, "self") == ["port-down"]


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
    assert _findings(host) == []


def _above(host: FakeHost, name: str) -> None:
    """Puts an interface above eth0, which has the addresses in place of eth0."""
    host.files[f"/sys/class/net/eth0/upper_{name}/ifindex"] = "7\n"
    host.files["/sys/class/net/eth0/mtu"] = "1500\n"
    empty, above = host.eth0 | {"addr_info": []}, host.eth0 | {"ifname": name}
    host.json("ip", "-j", "address", "show", value=[empty, above])


@pytest.mark.parametrize("name", ["eth0.100", "bond0"])
def test_server_behind_a_vlan_or_a_bond(name: str) -> None:
    """A RoCE device uses the addresses of the interfaces above its own."""
    host = FakeHost()
    _above(host, name)
    host.route("10.0.0.1", [{"dev": name}])
    told = doctor.examine(host, "server")
    assert told.findings == []
    assert f"10.0.0.1 is reached through {name} (rxe0)" in doctor.as_text(told)
    assert "rxe0/1 on eth0 is active: 10.0.0.2" in doctor.as_text(told)


def _infiniband(host: FakeHost) -> None:
    """Makes the device one with two ports, of which rdma(8) shows no interfaces."""
    host.json("rdma", "-j", "link", "show", value=[{"ifname": "rxe0", "port": 1}])
    for number in (1, 2):
        host.files[f"/sys/class/infiniband/rxe0/ports/{number}/state"] = "4: ACTIVE\n"
    interfaces = []
    for number, name in enumerate(("ib0", "ib1", "ib1.8001")):
        host.files[f"/sys/class/infiniband/rxe0/device/net/{name}/mtu"] = "2044\n"
        host.files[f"/sys/class/net/{name}/dev_port"] = f"{min(number, 1)}\n"
        address = {"family": "inet", "local": f"10.0.{number}.2", "scope": "global"}
        interfaces.append(host.eth0 | {"ifname": name, "addr_info": [address], "mtu": 2044})
    host.json("ip", "-j", "address", "show", value=interfaces)


V6, LOCAL = "fd00::1", "fe80::1%eth0"


def _routed(host: FakeHost, address: str) -> None:
    """Makes the named server one with this address alone, which is reached through eth0."""
    plain, _, scope = address.partition("%")
    where = ("dev", scope) if scope else ()
    host.known["server"] = [address]
    host.json("ip", "-j", "route", "get", plain, *where, value=[{"dst": plain, "dev": "eth0"}])
    host.neighbour(plain, "REACHABLE")


def test_mount_by_rdma_takes_an_ipv4_address() -> None:
    """The resolver puts IPv6 first, to which there is no route here; proto=rdma does not use it."""
    host = FakeHost()
    host.files["/proc/self/mountinfo"] = ""
    host.known["server"] = [V6, "10.0.0.1", "10.0.0.3"]
    told = doctor.examine(host, "server")
    assert told.findings == []
    assert "10.0.0.1 is reached through eth0" in doctor.as_text(told)


def test_address_of_a_mount_is_walked_to() -> None:
    """A mount with proto=rdma6 uses the server's IPv6 address."""
    host = FakeHost()
    host.files["/proc/self/mountinfo"] = MOUNTED.replace("addr=10.0.0.1", f"addr={V6}")
    host.known["server"] = ["10.0.0.1", V6]
    assert _findings(host, "server") == ["no-route"]


@pytest.mark.parametrize("address", [V6, LOCAL])
def test_server_with_ipv6_alone(address: str) -> None:
    host = FakeHost()
    _routed(host, address)
    told = doctor.examine(host, "server")
    assert told.findings == []
    assert f"{address} is reached through eth0" in doctor.as_text(told)
    assert f"RDMA port 20049 of {address} answers" in doctor.as_text(told)


def test_neighbour_of_the_link_does_not_answer() -> None:
    host = FakeHost()
    _routed(host, LOCAL)
    host.neighbour("fe80::1", "FAILED")
    assert _findings(host, "server") == ["neighbour-failed"]


def test_scope_of_a_mount_is_a_number() -> None:
    """The kernel shows the interface's number, ip(8) takes its name."""
    host = FakeHost()
    _interface(host, ifindex=3)
    _routed(host, LOCAL)
    host.files["/proc/self/mountinfo"] = MOUNTED.replace("=10.0.0.1", "=fe80::1%3")
    assert _findings(host) == []
    host.neighbour("fe80::1", "FAILED")
    assert _findings(host) == ["neighbour-failed"]


@pytest.mark.parametrize("name", ["ib0", "ib1", "ib1.8001"])
def test_each_interface_of_infiniband_belongs_to_its_port(name: str) -> None:
    """A server behind the second port, or in a partition, is reached over RDMA as well."""
    host = FakeHost()
    _infiniband(host)
    host.route("10.0.0.1", [{"dev": name}])
    told = doctor.examine(host, "server")
    assert told.findings == []
    text = doctor.as_text(told)
    assert "rxe0/1 on ib0 is active: 10.0.0.2\n" in text
    assert "rxe0/2 on ib1 is active: 10.0.1.2, 10.0.2.2\n" in text
    assert f"10.0.0.1 is reached through {name} (rxe0)" in text


def test_small_mtu_of_iwarp_is_no_finding() -> None:
    """The packets of iWARP are those of TCP."""
    host = FakeHost()
    _interface(host, mtu=1000)
    host.files["/sys/class/infiniband/rxe0/node_type"] = "4: RNIC\n"
    assert _findings(host) == []


@pytest.mark.parametrize("error", [-107, -71, -105, -12])
def test_attempts_that_fail_for_another_reason(error: int) -> None:
    """ENOTCONN and EPROTO say nothing about whether the peer has answered."""
    host = FakeHost()
    _down(host, error)
    assert _findings(host) == ["connect-failed"]


def test_regions_kept_for_the_next_call_are_no_finding() -> None:
    """Request slots keep a region each, so none may be idle on a connection at rest."""
    host = FakeHost()
    host.connection(regions_idle=0, in_use=0)
    assert _findings(host) == []


def test_task_that_waits_for_a_disk_hangs_as_well() -> None:
    host = FakeHost()
    _hung(host, "D", " in I/O wait")
    (finding,) = doctor.examine(host, None).findings
    assert finding.text == "tasks hang, as the kernel's log reports: kworker/u8:1:312"


def test_task_that_hung_before_is_no_finding() -> None:
    host = FakeHost()
    _hung(host, "S")
    assert _findings(host) == []
    host.remove("/proc/312")
    assert _findings(host) == []


def test_thresholds_that_are_no_finding() -> None:
    """Version two follows the settings; a host that takes little inline asks for no more."""
    host = FakeHost()
    host.connection(version=2, call_bytes=1024)
    assert _findings(host) == []
    host.connection(version=1, call_bytes=4096, reply_bytes=8192)
    assert _findings(host) == []
    host.connection(version=1, call_bytes=2048)
    assert _findings(host) == ["threshold-low"]
    host.files[f"{SYSCTL}/rdma_max_inline_read"] = "2048\n"
    assert _findings(host) == ["setting-low"]


def _mend(host: FakeHost, name: str, server: str | None = None) -> str:
    (found,) = (f for f in doctor.examine(host, server).findings if f.kind.name == name)
    return found.mend


def test_listener_is_added_to_an_nfsd_that_runs() -> None:
    """`rpc.nfsd --rdma` adds no listener while nfsd runs. The port is that of the connection."""
    host = FakeHost()
    host.files[CONNECTIONS] = DOWN.replace(":20049", ":20050")
    assert _mend(host, "refused").startswith("echo 'rdma 20050' > /proc/fs/nfsd/portlist ")
    host.answer = Answer.REFUSED
    host.files["/proc/self/mountinfo"] = MOUNTED.replace("port=20049", "port=20051")
    told = _mend(host, "port-refused", "server")
    assert told.startswith("echo 'rdma 20051' > /proc/fs/nfsd/portlist ")


@pytest.mark.parametrize(
    ("mounted", "options"),
    [
        ("rw", "rdma,port=20049,vers=4.2,sec=sys"),
        ("ro", "rdma,port=20049,vers=4.2,sec=sys,ro"),
    ],
)
def test_mount_by_rdma_is_like_the_one_before(mounted: str, options: str) -> None:
    host = FakeHost()
    _over_tcp(host)
    text = host.files["/proc/self/mountinfo"].replace("rw,relatime", f"{mounted},relatime")
    host.files["/proc/self/mountinfo"] = text
    told = _mend(host, "mount-not-rdma", "server")
    assert told == f"umount /mnt/nfs && mount -o proto={options} 10.0.0.1:/export /mnt/nfs"


def test_other_options_of_a_mount_are_kept() -> None:
    host = FakeHost()
    _over_tcp(host)
    text = host.files["/proc/self/mountinfo"].replace("rw,vers=4.2", "ro,vers=3,nolock")
    host.files["/proc/self/mountinfo"] = text.replace("sec=sys", "sec=krb5p")
    told = _mend(host, "mount-not-rdma", "server")
    assert " -o proto=rdma,port=20049,vers=3,sec=krb5p,nolock,ro 10.0.0.1:" in told


def test_mount_from_an_ipv6_address() -> None:
    host = FakeHost()
    _over_tcp(host)
    text = host.files["/proc/self/mountinfo"].replace("=10.0.0.1", f"={V6}")
    host.files["/proc/self/mountinfo"] = text.replace("=tcp", "=tcp6")
    host.known["server"] = ["10.0.0.1", V6]
    assert " -o proto=rdma6,port=20049," in _mend(host, "mount-not-rdma", "server")


def test_names_are_quoted_for_the_shell() -> None:
    host = FakeHost()
    _over_tcp(host)
    text = host.files["/proc/self/mountinfo"].replace("/mnt/nfs", "/mnt/my\\040files")
    host.files["/proc/self/mountinfo"] = text.replace("/export", "/$(reboot)")
    told = _mend(host, "mount-not-rdma", "server")
    assert told.startswith("umount '/mnt/my files' && mount -o proto=rdma,")
    assert told.endswith(" '10.0.0.1:/$(reboot)' '/mnt/my files'")
    assert _mend(host, "name-unknown", "a;reboot") == "getent ahosts 'a;reboot'"


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
            "mend": "echo 'rdma 20049' > /proc/fs/nfsd/portlist   # on the server, whose nfsd has to"
            " run;\nnfsrdma doctor   # on the server, knows more",
        }
    ]
    assert {"step": "module", "text": "rpcrdma 0.1.0 is loaded"} in told["facts"]
