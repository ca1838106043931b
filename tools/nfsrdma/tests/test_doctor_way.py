# SPDX-License-Identifier: GPL-2.0
"""The doctor's findings about the path to a server: ports, routes, its port, mounts."""

from __future__ import annotations

import re
import subprocess
from shlex import quote

import pytest
from fake import MOUNTED, FakeHost
from nfsrdma.ucm import Answer
from test_doctor import findings, fix, interface, iwarp, over_tcp, second_port

from nfsrdma import doctor


def test_server_of_a_mount_is_walked_to() -> None:
    host = FakeHost()
    host.route("10.0.0.1", [])
    assert findings(host) == ["no-route"]


def test_local_address_on_a_device() -> None:
    host = FakeHost()
    host.known["self"] = ["10.0.0.2"]
    host.route("10.0.0.2", [{"type": "local", "dev": "lo"}])
    assert findings(host, "self") == []


@pytest.mark.parametrize("answer", [Answer.LISTENS, Answer.REJECTED])
def test_port_that_gives_no_reason_for_a_finding(answer: Answer) -> None:
    host = FakeHost()
    host.answer = answer
    told = doctor.as_text(doctor.examine(host, "server"))
    assert "RDMA port 20049 of 10.0.0.1 answers" in told
    assert "Nothing is wrong." in told


@pytest.mark.parametrize("way", ["direct", "unknown", "local"])
@pytest.mark.parametrize("answer", [Answer.UNASKED, Answer.UNKNOWN, Answer.SILENT, Answer.REFUSED])
def test_port_is_not_asked_over_iwarp(answer: Answer, way: str) -> None:
    """That is said, and no module would change it. The request may name another's queue pair."""
    host = FakeHost()
    iwarp(host)
    host.answer, host.tcp = answer, True
    if way == "unknown":
        host.ran = {argv: ran for argv, ran in host.ran.items() if argv[0] != "ip"}
    if way == "local":
        host.known["server"] = ["10.0.0.2"]
        host.route("10.0.0.2", [{"type": "local", "dev": "lo"}])
    told = doctor.as_text(doctor.examine(host, "server"))
    assert re.search("ok   route      RDMA port 20049 of .* cannot be asked without a queue", told)
    assert not re.search("does not answer|nothing listens", told)


@pytest.mark.parametrize("answer", [Answer.LISTENS, Answer.REFUSED, Answer.UNKNOWN])
def test_tcp_is_not_asked_for_a_port_that_answers(answer: Answer) -> None:
    """A server without TCP, or with a filter for it, is no problem of RDMA."""
    host = FakeHost()
    host.answer, host.tcp = answer, False
    assert set(findings(host, "server")) <= {"port-refused", "port-not-asked"}


def test_gateway_is_the_neighbour() -> None:
    host = FakeHost()
    host.route("10.0.0.1", [{"dev": "eth0", "gateway": "10.0.0.254"}])
    host.neighbour("10.0.0.254", "INCOMPLETE")
    assert findings(host) == ["neighbour-failed"]


def test_port_that_is_down_and_unused_is_no_failure() -> None:
    """A card often has a second port without a cable."""
    host = FakeHost()
    second_port(host, "1: DOWN")
    assert doctor.examine(host, "server").status == 0
    assert doctor.examine(host, None).status == 0


def test_port_on_the_way_to_a_server_is_down() -> None:
    """The route leads through it although it has no carrier, or the route has gone with it."""
    host = FakeHost()
    second_port(host, "1: DOWN")
    host.route("10.0.0.1", [{"dev": "eth1"}])
    assert findings(host, "server") == ["port-down"]
    host.route("10.0.0.1", [{"dev": "eth9"}])
    assert findings(host, "server") == ["port-down", "route-not-rdma"]
    host.route("10.0.0.1", [])
    assert findings(host, "server") == ["port-down", "no-route"]


def test_bond_with_one_port_down_still_leads_to_the_server() -> None:
    host = FakeHost()
    second_port(host, "1: DOWN")
    for name in ("eth0", "eth1"):
        host.files[f"/sys/class/net/{name}/upper_bond0/ifindex"] = "7\n"
    host.route("10.0.0.1", [{"dev": "bond0"}])
    assert findings(host, "server") == ["port-unused"]


def test_server_on_this_host_whose_port_is_down() -> None:
    host = FakeHost()
    second_port(host, "1: DOWN")
    host.known["self"] = ["10.0.1.2"]
    host.route("10.0.1.2", [{"type": "local", "dev": "lo"}])
    assert findings(host, "self") == ["port-down"]


@pytest.mark.parametrize(
    ("local", "prefix", "state", "rdma"),
    [
        ("10.0.0.2", 24, "4: ACTIVE", True),
        ("10.0.0.2", 24, "1: DOWN", False),
        ("10.0.0.2", 32, "4: ACTIVE", False),
        ("10.1.0.2", 24, "4: ACTIVE", False),
        ("fd00::2", 64, "4: ACTIVE", False),
    ],
)
def test_no_route_that_would_cut_the_server_off(
    local: str, prefix: int, state: str, *, rdma: bool
) -> None:
    """A route through a port is suggested only if it is active, and the server in its network."""
    host = FakeHost()
    second_port(host, state)
    address = {"local": local, "prefixlen": prefix, "scope": "global"}
    near = host.eth0 | {"ifname": "eth1", "addr_info": [address]}
    far = host.eth0 | {"addr_info": [{"local": "10.9.0.2", "prefixlen": 24, "scope": "global"}]}
    host.json("ip", "-j", "address", "show", value=[far, near])
    host.route("10.0.0.1", [{"dev": "eth9"}])
    told = fix(host, "route-beside" if rdma else "route-not-rdma")
    assert told == "ip route replace 10.0.0.1 dev eth1" if rdma else "replace" not in told


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
    assert "rxe0/1 on eth0 is active: 10.0.0.2 (" in doctor.as_text(told)


def _infiniband(host: FakeHost) -> None:
    """Makes the device one with two ports, of which rdma(8) shows no interfaces."""
    host.json("rdma", "-j", "link", "show", value=[{"ifname": "rxe0", "port": 1}])
    for number in (1, 2):
        folder = f"/sys/class/infiniband/rxe0/ports/{number}"
        host.files |= {f"{folder}/state": "4: ACTIVE\n", f"{folder}/link_layer": "InfiniBand\n"}
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
    assert findings(host, "server") == ["no-route"]


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
    assert findings(host, "server") == ["neighbour-failed"]


def test_scope_of_a_mount_is_a_number() -> None:
    """The kernel shows the interface's number, ip(8) takes its name."""
    host = FakeHost()
    interface(host, ifindex=3)
    _routed(host, LOCAL)
    host.files["/proc/self/mountinfo"] = MOUNTED.replace("=10.0.0.1", "=fe80::1%3")
    assert findings(host) == []
    host.neighbour("fe80::1", "FAILED")
    assert findings(host) == ["neighbour-failed"]


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
    interface(host, mtu=1000)
    iwarp(host)
    assert findings(host) == []


@pytest.mark.parametrize(
    ("mounted", "options"),
    [
        ("rw", "rdma,port=20049,vers=4.2,sec=sys"),
        ("ro", "rdma,port=20049,vers=4.2,sec=sys,ro"),
        ("rw,nosuid,nodev,noexec", "rdma,port=20049,vers=4.2,sec=sys,nosuid,nodev,noexec"),
        ("ro,nosuid,noatime", "rdma,port=20049,vers=4.2,sec=sys,nosuid,ro"),
    ],
)
def test_mount_by_rdma_is_like_the_one_before(mounted: str, options: str) -> None:
    host = FakeHost()
    over_tcp(host)
    text = host.files["/proc/self/mountinfo"].replace("rw,relatime", f"{mounted},relatime")
    host.files["/proc/self/mountinfo"] = text
    told = fix(host, "mount-not-rdma", "server")
    assert told == f"umount /mnt/nfs &&\nmount -o proto={options} 10.0.0.1:/export /mnt/nfs"


def test_other_options_of_a_mount_are_kept() -> None:
    host = FakeHost()
    over_tcp(host)
    text = host.files["/proc/self/mountinfo"].replace("rw,vers=4.2", "ro,vers=3,nolock")
    host.files["/proc/self/mountinfo"] = text.replace("sec=sys", "sec=krb5p")
    told = fix(host, "mount-not-rdma", "server")
    assert " -o proto=rdma,port=20049,vers=3,sec=krb5p,nolock,ro 10.0.0.1:" in told


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("soft,timeo=50,retrans=3,nconnect=4", "timeo=50,retrans=3,nconnect=4,soft"),
        ("hard,timeo=600,retrans=2", ""),
        ("softerr,timeo=600,retrans=2,noac", "softerr"),
    ],
)
def test_patience_of_a_mount_is_kept(before: str, after: str) -> None:
    host = FakeHost()
    over_tcp(host)
    text = host.files["/proc/self/mountinfo"]
    host.files["/proc/self/mountinfo"] = text.replace("sec=sys", f"sec=sys,{before}")
    told = fix(host, "mount-not-rdma", "server")
    options = f"vers=4.2,sec=sys,{after}".rstrip(",")
    assert f" -o proto=rdma,port=20049,{options} 10.0.0.1:" in told


def test_all_mounts_of_a_server_go_first() -> None:
    """The first by RDMA would share the transport of one that has stayed; the inner go first."""
    host = FakeHost()
    over_tcp(host)
    first = host.files["/proc/self/mountinfo"]
    inner = first.replace("/mnt/nfs", "/mnt/nfs/in\\040ner").replace("/export", "/inner")
    other = first.replace("/mnt/nfs", "/mnt/v3").replace("vers=4.2", "vers=3").replace("tcp", "udp")
    elsewhere = first.replace("/mnt/nfs", "/mnt/else").replace("10.0.0.1", "10.0.0.7")
    mounted = MOUNTED.replace("/mnt/nfs", "/mnt/rdma")
    host.files["/proc/self/mountinfo"] = first + elsewhere + inner + mounted + other
    (found,) = doctor.examine(host, "server").findings
    assert found.text == (
        "mounted from server by tcp, udp, not by RDMA: /mnt/nfs, /mnt/nfs/in ner, /mnt/v3"
    )
    options = "proto=rdma,port=20049,vers"
    assert found.fix.split("\n") == [
        "umount /mnt/v3 '/mnt/nfs/in ner' /mnt/nfs &&",
        f"mount -o {options}=4.2,sec=sys 10.0.0.1:/export /mnt/nfs &&",
        f"mount -o {options}=4.2,sec=sys 10.0.0.1:/inner '/mnt/nfs/in ner' &&",
        f"mount -o {options}=3,sec=sys 10.0.0.1:/export /mnt/v3",
    ]


def test_mount_from_an_ipv6_address() -> None:
    host = FakeHost()
    over_tcp(host)
    text = host.files["/proc/self/mountinfo"].replace("=10.0.0.1", f"={V6}")
    host.files["/proc/self/mountinfo"] = text.replace("=tcp", "=tcp6")
    host.known["server"] = ["10.0.0.1", V6]
    assert " -o proto=rdma6,port=20049," in fix(host, "mount-not-rdma", "server")


def test_names_are_quoted_for_the_shell() -> None:
    host = FakeHost()
    over_tcp(host)
    text = host.files["/proc/self/mountinfo"].replace("/mnt/nfs", "/mnt/my\\040files")
    host.files["/proc/self/mountinfo"] = text.replace("/export", "/$(reboot)")
    told = fix(host, "mount-not-rdma", "server")
    assert told.startswith("umount '/mnt/my files' &&\nmount -o proto=rdma,")
    assert told.endswith(" '10.0.0.1:/$(reboot)' '/mnt/my files'")
    for name in ("a;reboot", "it's", "a b", "plain", "fe80::1%eth0"):
        assert fix(host, "name-unknown", name) == f"getent ahosts {quote(name)}"


def test_name_that_is_no_text() -> None:
    """It was an argument of the command line."""
    assert fix(FakeHost(), "name-unknown", "a\udcff") == r"getent ahosts $'a\377'"


def test_names_that_a_terminal_would_obey() -> None:
    """The text has a question mark for each such character; the command still names the mount."""
    host = FakeHost()
    over_tcp(host)
    text, name = host.files["/proc/self/mountinfo"], "/mnt/it's\\0121.\x1b[2J\u0085\\134"
    host.files["/proc/self/mountinfo"] = text.replace("/mnt/nfs", name)
    told = doctor.as_text(doctor.examine(host, "server"))
    assert "mounted from server by tcp, not by RDMA: /mnt/it's?1.?[2J?\\\n" in told
    assert all(letter.isprintable() for line in told.split("\n") for letter in line)
    (line,) = (line for line in told.split("\n") if "umount" in line)
    script = line.partition("umount")[2].partition(" &&")[0]
    said = subprocess.run(["bash", "-c", f"printf %s {script}"], capture_output=True, check=True)
    assert said.stdout.decode() == "/mnt/it's\n1.\x1b[2J\u0085\\"
