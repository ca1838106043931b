# SPDX-License-Identifier: GPL-2.0
"""The command nfsrdma shows the guests' activity, and its doctor finds their problems."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lab.fixtures import Tunables
from lab.nfsrdma import TOOL, await_recording, doctor, install
from lab.pair import CLIENT_ADDRESS, MOUNT_POINT, SERVER_ADDRESS, Guest, Pair

SERVER = f"{SERVER_ADDRESS}:20049"
CONNECTIONS = "/sys/kernel/debug/rpcrdma/connections"
#: Lists the trace instances.
INSTANCES = "ls /sys/kernel/tracing/instances"
#: Kills the command as soon as it has a trace instance.
KILLED = f"""
{TOOL} trace --xid 1 > /dev/null 2>&1 &
until {INSTANCES} | grep -q nfsrdma; do kill -0 $! || exit 1; sleep 0.2; done
kill -KILL $!
wait $! || true
"""

pytestmark = pytest.mark.needs_ours


@pytest.fixture
def tools(pair: Pair) -> Pair:
    """The pair, with the command on both guests."""
    return install(pair)


def _nfsrdma(guest: Guest, arguments: str, timeout: float = 60) -> str:
    return guest.sh(f"{TOOL} {arguments}", timeout=timeout)


def test_list(tools: Pair) -> None:
    """Without a mount, with one, and on the server."""
    assert "Connections\n  none\nMounts\n  none\n" in _nfsrdma(tools.client, "list")
    tools.mount("4.2", options="rsize=65536,wsize=65536")
    tools.client.sh(f"ls {MOUNT_POINT}")
    told = _nfsrdma(tools.client, "list").splitlines()
    assert re.match(rf"  client  {re.escape(SERVER)} +{tools.setup.link}0/1 +[12] +up ", told[2])
    assert f"  {MOUNT_POINT}  server:/export  NFSv4.2  {SERVER_ADDRESS}" in told[4]
    assert told[4].endswith("rsize=65536 wsize=65536")
    listed = json.loads(_nfsrdma(tools.client, "list --json"))
    assert listed["connections"][0]["peer"] == SERVER
    served = _nfsrdma(tools.server, "list")
    assert served.endswith("Listeners\n  rdma port 20049\n")
    tools.umount()


@pytest.mark.full
@pytest.mark.needs_our_server
@pytest.mark.server
def test_list_on_the_server(tools: Pair) -> None:
    """The server shows the client's connection."""
    tools.mount("4.2")
    tools.client.sh(f"ls {MOUNT_POINT}")
    assert f"  server  {CLIENT_ADDRESS}:" in _nfsrdma(tools.server, "list")
    assert doctor(tools.server) == {}
    tools.umount()


def _gid(pair: Pair) -> str:
    """Returns a pattern for the GID of the client's address, which iWARP lacks."""
    folder, value = "/sys/class/infiniband/rxe0/ports/1/gids", "ffff:0a00:0002"
    if pair.setup.link != "rxe":
        return ""
    index = pair.client.sh(f"grep -l {value} {folder}/*").strip().rpartition("/")[2]
    return rf" \(GID {index}, RoCE v2\)"


def test_doctor_of_a_healthy_client(tools: Pair) -> None:
    """Without a problem, each step says what it examined."""
    tools.mount("4.2")
    tools.client.sh(f"ls {MOUNT_POINT}")
    told = _nfsrdma(tools.client, "doctor server")
    assert told.endswith("\nNothing is wrong.\n")
    assert (f"RDMA port 20049 of {SERVER_ADDRESS} answers" in told) == (tools.setup.link == "rxe")
    for line in (
        r"ok   module     rpcrdma \S+ is loaded",
        r"ok   module     it taints the kernel: .*it was built out of the kernel's tree \(O\)",
        rf"ok   device     {tools.setup.link}0/1 on \w+ is active: .*{CLIENT_ADDRESS}{_gid(tools)}",
        rf"ok   route      {SERVER_ADDRESS} is reached through \w+ \({tools.setup.link}0\)",
        rf"ok   connection client {SERVER}: version [12], up for \d+s",
    ):
        assert re.search(line, told), line
    tools.umount()


@pytest.mark.full
def test_doctor_without_the_module(tools: Pair) -> None:
    """A module that is neither loaded nor installed is the first thing to fix."""
    tools.unload()
    try:
        release = tools.client.sh("uname -r").strip()
        fix = doctor(tools.client)["module-not-installed"]
        assert fix.startswith(f"apt install linux-headers-{release} ")
    finally:
        tools.load()


@pytest.mark.full
def test_doctor_on_the_way_to_a_server(tools: Pair) -> None:
    """Names, routes and neighbours that do not lead to a server."""
    tools.client.sh("ip link add nowhere0 type dummy && ip link set nowhere0 up")
    for network in ("192.0.2.0/24", "10.0.0.76/32"):
        tools.client.sh(f"ip route add {network} dev nowhere0")
    try:
        assert "name-unknown" in doctor(tools.client, "nonsense.invalid")
        assert "address-local" in doctor(tools.client, "127.0.0.1")
        fix = doctor(tools.client, "192.0.2.7")["route-not-rdma"]
        assert "ip route get 192.0.2.7 " in fix
        fix = doctor(tools.client, "10.0.0.76")["route-beside"]
        assert re.fullmatch(r"ip route replace 10\.0\.0\.76 dev \w+", fix)
        tools.client.sh("ip route add unreachable 198.51.100.0/24")
        assert "no-route" in doctor(tools.client, "198.51.100.1")
        # The neighbour is tried, and does not answer.
        tools.client.run("timeout 5 bash -c 'echo > /dev/tcp/10.0.0.77/1'")
        assert "neighbour-failed" in doctor(tools.client, "10.0.0.77")
    finally:
        tools.client.sh("ip link del nowhere0; ip route del unreachable 198.51.100.0/24 || true")


#: A name with an IPv6 address that a mount with proto=rdma does not take.
BOTH = """
echo 'fd00::1 both' >> /etc/hosts; echo '10.0.0.1 both' >> /etc/hosts
ip -6 route add unreachable fd00::1
"""


@pytest.mark.full
def test_doctor_walks_to_the_address_of_a_mount(tools: Pair) -> None:
    """A name with addresses of both families, and an address of the link with its interface."""
    tools.client.sh(BOTH)
    try:
        assert doctor(tools.client, "both") == {}
        assert "no-route" in doctor(tools.client, "fd00::1")
    finally:
        tools.client.sh("ip -6 route del unreachable fd00::1; sed -i /both/d /etc/hosts")
    netdev = tools.client.sh(f"ip -o -4 address | grep -w {CLIENT_ADDRESS}").split()[1]
    shown = tools.server.sh("ip -6 -o address show dev eth0 scope link")
    address = f"{shown.split('inet6 ')[1].split('/')[0]}%{netdev}"
    done = tools.client.run(f"{TOOL} doctor {address}")
    told = done.stdout.decode()
    assert f"{address} is reached through {netdev} ({tools.setup.link}0)" in told
    assert (f"RDMA port 20049 of {address} answers" in told) == (tools.setup.link == "rxe")
    assert done.status == 0
    nobody = f"fe80::77%{netdev}"
    tools.client.run(f"timeout 5 bash -c 'echo > /dev/tcp/{nobody}/1'")
    assert "neighbour-failed" in doctor(tools.client, nobody)


@pytest.mark.full
@pytest.mark.rxe_only
def test_doctor_sees_a_link_that_is_down(tools: Pair) -> None:
    """The command that the doctor names brings the link back."""
    netdev = tools.client.sh(f"ip -o -4 address | grep -w {CLIENT_ADDRESS}").split()[1]
    addresses = tools.client.sh(f"ip -6 -o address show dev {netdev} scope global").split("inet6 ")
    tools.client.sh(f"ip link set {netdev} down")
    fix = doctor(tools.client).get("link-down", "")
    tools.client.sh(fix or f"ip link set {netdev} up")
    for address in addresses[1:]:
        tools.client.run(f"ip address add {address.split()[0]} dev {netdev}")
    assert fix == f"ip link set {netdev} up"
    assert "link-down" not in doctor(tools.client)


@pytest.mark.full
def test_doctor_sees_settings(tools: Pair, tunables: Tunables) -> None:
    """Values below the defaults, and a version that is fixed."""
    tunables.set(rdma_slot_table_entries=16, rdma_version=1)
    found = doctor(tools.client)
    assert found["setting-low"] == "sysctl sunrpc.rdma_slot_table_entries=128"
    assert "version-fixed" in found
    tools.client.sh(found["setting-low"].replace("sysctl ", "sysctl -w "))
    assert "setting-low" not in doctor(tools.client)


@pytest.mark.full
def test_doctor_sees_a_server_that_refuses(tools: Pair) -> None:
    """On the client connections are refused; on the server nothing listens; the command helps."""
    tools.mount("4.2")
    tools.server.sh("rpc.nfsd 0 && rpc.nfsd 4")
    tools.client.sh(f"(ls {MOUNT_POINT}/x || true) > /dev/null 2>&1 &")
    tools.client.sh(f"until grep -q error=-111 {CONNECTIONS}; do sleep 0.5; done")
    told = doctor(tools.client)["refused"]
    # Over iWARP a port cannot be asked without a queue pair.
    if tools.setup.link == "rxe":
        assert doctor(tools.client, "server")["port-refused"] == told
    told = _nfsrdma(tools.client, "list")
    # Over iWARP work requests fail before the end of the connection is reported.
    assert re.search(r"down, \d+ failed.* (peer|failed)\n", told)
    assert "no-listener" not in doctor(tools.server)
    fix = doctor(tools.server)["tcp-only"]
    tools.server.sh("nfsconf --set nfsd rdma y")
    wanted = doctor(tools.server)["no-listener"]
    tools.server.sh("nfsconf --unset nfsd rdma")
    assert fix.splitlines()[0] == wanted.splitlines()[0]
    tools.server.sh(fix.splitlines()[0])
    # The lab's usual server has the stock module.
    assert set(doctor(tools.server)) <= {"module-stock", "module-unused"}
    tools.client.sh(f"ls {MOUNT_POINT}", timeout=60)
    assert doctor(tools.client) == {}
    tools.server.sh(f"rpc.nfsd {tools.setup.threads}")
    tools.umount()


@pytest.mark.full
def test_doctor_names_the_command_that_adds_a_listener(tools: Pair) -> None:
    """The client's doctor names it, the server runs it as it is, and the mount continues.

    `rpc.nfsd --rdma` adds no listener to an nfsd that runs.
    """
    tools.mount("4.2")
    tools.server.sh("rpc.nfsd 0 && rpc.nfsd 4 && rpc.nfsd --rdma 4")
    assert "rdma" not in tools.server.read("/proc/fs/nfsd/portlist")
    tools.client.sh(f"(ls {MOUNT_POINT}/x || true) > /dev/null 2>&1 &")
    tools.client.sh(f"until grep -q error=-111 {CONNECTIONS}; do sleep 0.5; done")
    # The second line is the doctor of the server.
    fix = doctor(tools.client)["refused"].splitlines()[0]
    tools.server.sh(fix)
    assert "rdma 20049" in tools.server.read("/proc/fs/nfsd/portlist")
    tools.client.sh(f"ls {MOUNT_POINT}", timeout=60)
    assert doctor(tools.client, "server") == {}
    tools.server.sh(f"rpc.nfsd {tools.setup.threads}")
    tools.umount()


def test_failed_mount_says_why(tools: Pair) -> None:
    """A mount that is refused leaves one line with cause and next step in the log."""
    before = tools.client.sh("dmesg | wc -l").strip()
    options = "proto=rdma,port=20050,vers=3,nolock,retry=0"
    command = f"mount -t nfs -o {options} server:/export {MOUNT_POINT}"
    assert tools.client.run(f"mkdir -p {MOUNT_POINT}; {command}", timeout=120).status
    said = tools.client.sh(f"dmesg | tail -n +{int(before) + 1} | grep rpcrdma").splitlines()
    wanted = f"connecting to {SERVER_ADDRESS} port 20050: the host answers, but nothing listens"
    assert said
    step = "; next: echo 'rdma 20049' > /proc/fs/nfsd/portlist on the server"
    assert all(wanted in line and step in line for line in said)


@contextmanager
def _file(pair: Pair) -> Iterator[str]:
    """A file of a mount that is in no cache."""
    pair.mount("4.2", options="rsize=65536,wsize=65536")
    path = f"{MOUNT_POINT}/traced"
    pair.client.sh(f"dd if=/dev/zero of={path} bs=64k count=4 2>/dev/null; sync")
    pair.client.sh("echo 3 > /proc/sys/vm/drop_caches")
    try:
        yield path
    finally:
        pair.client.sh(f"rm -f {path}")
        pair.umount()


@pytest.mark.full
def test_trace(tools: Pair) -> None:
    """A READ and a WRITE are described from beginning to end, and no trace instance remains."""
    with _file(tools) as path:
        told = _nfsrdma(tools.client, f"trace -- dd if={path} of=/dev/null bs=64k count=1")
        read = next(part for part in told.split("\nnfs") if re.match(r"v4 READ", part))
        for words in (
            "begins",
            r"region \d+ maps 65536 bytes that the server may write",
            "offers 65536 bytes in a write chunk",
            "the call goes inline; the data of the reply is expected in a write chunk",
            "is sent",
            "has its reply; the server grants",
            "round trip",
            "ends",
        ):
            assert re.search(words, read), (words, read)
        assert "inline, write chunk" in told.splitlines()[-1]
        write = f"trace --json dd if=/dev/zero of={path} bs=64k count=1 oflag=direct"
        rpcs = [json.loads(line) for line in _nfsrdma(tools.client, write).splitlines()]
        (call,) = (rpc for rpc in rpcs if rpc["procedure"] == "WRITE")
        assert (call["call_form"], call["registered"]) == ("read chunk", 65536)
        assert call["complete"]
        again = f"trace --xid {call['xid']} true"
        assert "0 RPCs" in _nfsrdma(tools.client, again)
    assert tools.client.sh(INSTANCES) == ""


#: The server's lines about a call, in this order.
_ON_THE_SERVER = {
    "WRITE": (
        r"arrives in a message of \d+ bytes",
        r"offers 65536 bytes in segment 0 of a read chunk at position \d+ \(R_key 0x",
        r"posts the RDMA Reads \(work requests: \d+\)",
        r"the RDMA Reads have read 65536 bytes in ",
        r"is handed to nfsd, \d+ bytes, 65536 of them in pages",
        r"is processed by nfsd v4 as COMPOUND",
        r"operation \d of \d, WRITE, is done",
        r"has its reply, \d+ bytes",
        r"the reply is sent",
    ),
    "READ": (
        r"arrives in a message of \d+ bytes",
        r"offers room for 65536 bytes in segment 0 of a write chunk or reply chunk",
        r"is handed to nfsd, \d+ bytes",
        r"operation \d of \d, READ, is done",
        r"has its reply, \d+ bytes, 65536 of them in pages",
        r"gets 65536 bytes of its reply in segment 0",
        r"posts the RDMA Writes to the write chunk",
        r"the reply is sent",
    ),
}


def _served(pair: Pair, command: str) -> list[str]:
    """Traces on the server while a command runs on the client. Returns the calls as text."""
    done = "until [ -e /run/traced ]; do sleep 0.1; done; sleep 0.5"
    trace = pair.server.vm.start(f"rm -f /run/traced; {TOOL} trace -- sh -c '{done}'")
    await_recording(pair.server)
    pair.client.sh(command)
    pair.server.sh("touch /run/traced")
    told = pair.server.vm.agent.wait(trace, 60).stdout.decode()
    assert "calls served (call, reply): " in told.splitlines()[-1]
    return told.split("\nnfsd")


@pytest.mark.full
@pytest.mark.server
def test_trace_on_the_server(tools: Pair) -> None:
    """A WRITE and a READ are described as the server sees them, with their chunks."""
    with _file(tools) as path:
        direct = "bs=64k count=1 2>/dev/null"
        told = _served(
            tools,
            f"dd if=/dev/zero of={path} oflag=direct conv=notrunc {direct};"
            f" dd if={path} of=/dev/null iflag=direct {direct}",
        )
    for operation, sentences in _ON_THE_SERVER.items():
        (call,) = (part for part in told if re.search(rf"^.*\([A-Z ]*\b{operation}\b", part))
        assert re.search(rf" of {re.escape(CLIENT_ADDRESS)}, xid 0x[0-9a-f]+: [\d.]+ [um]s", call)
        # The kernel's own module traces this behind the segments.
        assert re.search(r"comes inline \(RDMA_MSG of version [12]\)", call), call
        at = 0
        for words in sentences:
            found = re.compile(words).search(call, at)
            assert found, (words, call)
            at = found.end()
    assert tools.server.sh(INSTANCES) == ""


def _follow(guest: Guest, xid: int) -> int:
    """Begins to trace an RPC, until `_told` interrupts that."""
    trace = guest.vm.start(f"echo $$ > /run/tracer; exec {TOOL} trace --xid {xid}")
    await_recording(guest)
    return trace


def _told(guest: Guest, trace: int) -> str:
    guest.sh("kill -INT $(cat /run/tracer)")
    done = guest.vm.agent.wait(trace, 60)
    assert done.status == 0, done
    return done.stdout.decode()


@pytest.mark.full
@pytest.mark.server
def test_trace_of_one_call_on_both_hosts(tools: Pair) -> None:
    """A call is in flight, so its XID is known; both hosts describe its retransmission."""
    tools.server.sh("rm -rf /srv/export/*; echo there > /srv/export/f")
    tools.mount("3", options="nolock")
    tools.client.sh(f"cat {MOUNT_POINT}/f")
    # nfsd has to ask mountd about the export, and holds the call until it answers.
    tools.server.sh("pkill -STOP mountd && exportfs -f")
    touch = f"(touch {MOUNT_POINT}/g > /dev/null 2>&1 &); sleep 2"
    told = _nfsrdma(tools.client, f"trace --json -- sh -c '{touch}'")
    (held,) = (rpc for rpc in map(json.loads, told.splitlines()) if not rpc["complete"])
    traces = [(guest, _follow(guest, held["xid"])) for guest in (tools.client, tools.server)]
    # The connection goes with nfsd. The client sends the call again, and then others.
    tools.restart_nfsd()
    tools.server.sh("pkill -CONT mountd")
    tools.client.sh(f"cat {MOUNT_POINT}/g {MOUNT_POINT}/f", timeout=90)
    made, served = (_told(*trace) for trace in traces)
    head = f"xid 0x{held['xid']:08x}"
    words = (head, "is sent again, for the 2. time", "has its reply; the server grants", "ends")
    assert [word for word in words if word not in made] == [], made
    assert re.search(r"^1 RPCs in ", made, re.M), made
    words = (head, "arrives in a message of", "is handed to nfsd", "the reply is sent")
    assert [word for word in words if word not in served] == [], served
    assert re.search(r"^1 calls served ", served, re.M), served
    tools.umount()


@pytest.mark.full
def test_trace_all(tools: Pair) -> None:
    """With --all it describes connections, and calls without RDMA, such as those of mountd."""
    options = "vers=3,nolock,proto=rdma,port=20049"
    mount = f"mkdir -p {MOUNT_POINT}; mount -t nfs -o {options} server:/export {MOUNT_POINT}"
    command = f"sh -c '{mount} && ls {MOUNT_POINT} && umount {MOUNT_POINT}'"
    told = _nfsrdma(tools.client, f"trace --all -- {command}", timeout=120)
    assert re.search(rf"^\d+\.\d+  op_connect: peer=.*{re.escape(SERVER_ADDRESS)}", told, re.M), (
        told
    )
    assert re.search(r"^mountv3 (MNT|MOUNT)", told, re.M), told
    assert "not sent by RDMA" in told.splitlines()[-1]
    told = _nfsrdma(tools.client, f"trace -- {command}", timeout=120)
    assert "op_connect" not in told
    assert "mountv3" not in told
    assert "not sent by RDMA" not in told.splitlines()[-1]


def _busy(path: str) -> str:
    """Returns a command that reads a file again and again until /run/busy goes."""
    read = f"dd if={path} of=/dev/null bs=64k iflag=direct 2>/dev/null"
    return f"touch /run/busy; (while [ -e /run/busy ]; do {read}; done) > /dev/null 2>&1 &"


@pytest.mark.full
def test_top(tools: Pair) -> None:
    """Rates and latencies of READs are shown, by operation and form."""
    with _file(tools) as path:
        tools.client.sh(_busy(path))
        try:
            told = _nfsrdma(tools.client, "top --count 2 --interval 1")
            sample = json.loads(_nfsrdma(tools.client, "top --count 1 --interval 2 --json"))
            quiet = _nfsrdma(tools.client, "top --count 1 --interval 1 --no-trace")
            piped = _nfsrdma(tools.client, "top --interval 1 | head -c 5000")
        finally:
            tools.client.sh("rm /run/busy")
    assert told.count("nfsrdma top, every 1 s") == 2
    assert re.search(r"^  READ +\d+\.\d ", told, re.M)
    assert re.search(r"^  inline, write chunk +\d+\.\d ", told, re.M)
    assert re.search(r"^cost: .* of a processor .*; tracing .* events/s", told, re.M)
    _compare(sample)
    assert "no tracing" in quiet
    assert piped.count("nfsrdma top, every 1 s") >= 2
    assert "\x1b" not in piped


@pytest.mark.full
def test_top_on_the_server(tools: Pair) -> None:
    """A server shows the calls that it serves by form; the stock module has the same events."""
    with _file(tools) as path:
        tools.client.sh(_busy(path))
        try:
            told = _nfsrdma(tools.server, "top --count 1 --interval 1")
            sample = json.loads(_nfsrdma(tools.server, "top --count 1 --interval 2 --json"))
            counted = json.loads(_nfsrdma(tools.client, "top --count 1 --interval 2 --json"))
        finally:
            tools.client.sh("rm /run/busy")
    assert re.search(r"; \d+ calls/s served$", told.splitlines()[0])
    assert re.search(r"^  inline, write chunk +\d+\.\d ", told, re.M)
    _print_cost(sample)
    _print_cost(counted)
    served = sample["served"]["inline, write chunk"]
    reads = counted["operations"]["READ"]["per_second"]
    # The two programs do not look at the same time, and disturb what they look at.
    assert served["per_second"] == pytest.approx(reads, rel=0.5)
    assert 0 < served["median_us"] <= served["p99_us"]
    assert sample["events_lost"] == 0


def _print_cost(sample: dict[str, Any]) -> None:
    load, events = sample["own_load"], sample["events_per_second"]
    each = load / events * 1e6
    print(f"top: {events} events/s, {load:.1%} of a processor, {each:.0f} us an event")


def _compare(sample: dict[str, Any]) -> None:
    """Checks that counters and trace events agree about READs."""
    counted = sample["operations"]["READ"]["per_second"]
    traced = sample["forms"]["inline, write chunk"]
    assert counted > 0
    _print_cost(sample)
    # The two do not begin and end at the same time, which matters if there are few of them.
    assert traced["per_second"] == pytest.approx(counted, rel=0.3, abs=2)
    assert 0 < traced["median_us"] <= traced["p99_us"]
    assert sample["events_lost"] == 0


_IN_A_TERMINAL = """
import os, pty, select, sys, time
child, master = pty.fork()
if child == 0:
    os.execv(sys.argv[1], [sys.argv[1], "top", "--interval", "0.5"])
shown, end = "", time.monotonic() + 120
# Each key, and what the display must show before it is pressed.
keys = [(b"h", "Operations of mounts"), (b"h", "longer or shorter intervals")]
keys += [(b"b", ""), (b"q", "")]
while time.monotonic() < end:
    if select.select([master], [], [], 1)[0]:
        try:
            shown += os.read(master, 65536).decode()
        except OSError:
            break
    if keys and keys[0][1] in shown:
        os.write(master, keys.pop(0)[0])
        time.sleep(0.3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
sys.stdout.write(shown)
"""


def test_top_in_a_terminal(tools: Pair) -> None:
    """The display appears, obeys keys, and restores the screen."""
    tools.mount("4.2")
    tools.client.write("/run/terminal.py", _IN_A_TERMINAL.encode())
    told = tools.client.sh(f"TERM=xterm python3 /run/terminal.py {TOOL}", timeout=90)
    assert told.startswith("0\n")
    assert "\x1b[?1049h" in told
    assert "longer or shorter intervals" in told
    assert "\x1b[?1049l" in told
    tools.umount()


@pytest.mark.full
def test_ended_by_a_signal(tools: Pair) -> None:
    """No trace instance continues to record: the command removes its own, or a killed command's."""
    client = tools.client
    assert client.run(f"timeout 4 {TOOL} top --count 99 > /dev/null").status == 124
    assert client.sh(INSTANCES) == ""
    client.sh(KILLED, timeout=60)
    assert client.sh(INSTANCES).startswith("nfsrdma.")
    assert "0 RPCs" in _nfsrdma(client, "trace true")
    assert client.sh(INSTANCES) == ""


@pytest.mark.full
def test_report(tools: Pair) -> None:
    """The page has the READs of the recorded command, and no address if masked."""
    with _file(tools) as path:
        read = f"dd if={path} of=/dev/null bs=64k count=4 iflag=direct"
        told = _nfsrdma(tools.client, f"report --mask -o /run/report.html -- {read}")
        page = tools.client.read("/run/report.html")
        _nfsrdma(tools.client, f"report --json -o /run/report.json -- {read}")
        recording = json.loads(tools.client.read("/run/report.json"))
    assert re.search(r"/run/report.html: [1-9]\d* calls", told)
    assert "READ: inline, write chunk" in page
    assert page.count("<svg") >= 3
    assert "10.0.0." not in page
    assert "/export" not in page
    (read_rows,) = (row for row in recording["operations"] if row["operation"].endswith(" READ"))
    assert read_rows["calls"] == 4
    assert recording["sizes"]["65536"] >= 4
    assert recording["connections"][0]["connections"][0]["peer"] == SERVER


@pytest.mark.full
def test_commands_say_what_is_missing(tools: Pair) -> None:
    """Without the module each subcommand ends with a line that says so."""
    tools.unload()
    try:
        for arguments in ("list", "trace true", "top --count 1", "report -o /run/x true"):
            done = tools.client.run(f"{TOOL} {arguments}")
            assert done.status == 1
            assert done.stderr == b"nfsrdma: the module is not loaded: modprobe rpcrdma\n"
    finally:
        tools.load()
