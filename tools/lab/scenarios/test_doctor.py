# SPDX-License-Identifier: GPL-2.0
"""Each finding of the doctor that a guest can have is provoked there, and found.

test_nfsrdma.py provokes the findings on the way to a server, and carries out the doctor's commands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from lab import connections, requester
from lab.agent import SLOW_HOST
from lab.failures import Failures
from lab.fixtures import Tunables
from lab.nfsrdma import doctor, install
from lab.pair import MOUNT_POINT, SERVER_ADDRESS, Guest, Pair

pytestmark = [pytest.mark.full, pytest.mark.needs_ours, pytest.mark.rxe_only]

#: The image has no folder for modules. modinfo gets another root that has one.
FOLDER = """
set -e; mkdir -p /run/root/lib/modules/$(uname -r)/updates /run/bin; depmod -b /run/root
printf '#!/bin/sh\\nexec %s -b /run/root "$@"\\n' "$(command -v modinfo)" > /run/bin/modinfo
chmod +x /run/bin/modinfo
"""
INSTALL = "cp /lab/rpcrdma.ko /run/root/lib/modules/*/updates/ && depmod -b /run/root"
RELEASE = "/proc/sys/kernel/osrelease"
INSTALLED = "PATH=/run/bin:$PATH"


@pytest.fixture
def tools(pair: Pair) -> Pair:
    """The pair, with the command on both guests."""
    return install(pair)


def _await(guest: Guest, finding: str, limit: float, server: str = "") -> dict[str, str]:
    """Returns the doctor's findings as soon as `finding` is among them.

    `limit`: seconds on a host without other work. A look takes some of them.
    """
    deadline = time.monotonic() + limit * SLOW_HOST
    while finding not in (found := doctor(guest, server)) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert finding in found
    return found


@contextmanager
def _release(guest: Guest, release: str) -> Iterator[None]:
    """Lets the guest report another kernel."""
    guest.sh(f"echo {release} > /run/release; mount --bind /run/release {RELEASE}")
    try:
        yield
    finally:
        guest.sh(f"umount {RELEASE}")


def test_module(tools: Pair) -> None:
    """The module is not installed or loaded, is the kernel's own, or is older than the file."""
    client = tools.client
    client.sh(FOLDER)
    tools.unload()
    try:
        release = client.sh("uname -r").strip()
        fix = doctor(client, prefix=INSTALLED)["module-not-installed"]
        assert fix.startswith(f"apt install linux-headers-{release} ")
        with _release(client, "7.1.13"):
            found = doctor(client, prefix=INSTALLED)
        assert "linux-image-$a" in found["kernel-too-old"]
        with _release(client, "7.9.1"):
            assert "kernel-too-new" in doctor(client, prefix=INSTALLED)
        client.sh(INSTALL)
        assert doctor(client, prefix=INSTALLED)["module-missing"] == "modprobe rpcrdma"
        client.write("/run/stock.ko", tools.setup.kernel.stock_module.read_bytes())
        client.sh("insmod /run/stock.ko")
        assert "module-stock" in doctor(client)
        with _release(client, "6.12.48"):
            assert "linux-image-$a" in doctor(client)["kernel-skipped"]
        with _release(client, "7.9.1"):
            assert "linux-image-" not in doctor(client)["kernel-too-new"]
        assert "modprobe -r" in doctor(client, prefix=INSTALLED)["module-unused"]
        tools.unload()
    finally:
        tools.load()
    assert "module-outdated" not in doctor(client, prefix=INSTALLED)
    version = client.read("/sys/module/rpcrdma/version").strip()
    newer = f"9{version[1:]}"
    installed = "/run/root/lib/modules/*/updates/rpcrdma.ko"
    client.sh(f"sed -i s/version={version}/version={newer}/ {installed}")
    assert "modprobe -r" in doctor(client, prefix=INSTALLED)["module-outdated"]


def test_what_cannot_be_seen(tools: Pair) -> None:
    """Another user than root, and a host without debugfs."""
    nobody = "setpriv --reuid=65534 --clear-groups"
    assert doctor(tools.client, prefix=nobody)["not-root"] == "sudo nfsrdma doctor"
    tools.unload()
    try:
        assert {"not-root", "module-not-installed"} <= set(doctor(tools.client, prefix=nobody))
    finally:
        tools.load()
    tools.client.sh("umount -l /sys/kernel/debug")
    fix = doctor(tools.client).get("debugfs-missing", "")
    tools.client.sh("mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug")
    assert fix == "mount -t debugfs none /sys/kernel/debug"


DEVICES = {
    "no-address": "ip link add t0 type dummy && ip link set t0 up",
    "mtu-small": "ip link add t0 type dummy && ip link set t0 mtu 1000 up",
}


@pytest.mark.parametrize("finding", DEVICES)
def test_device(tools: Pair, finding: str) -> None:
    """A second device whose interface has no address, or a small MTU."""
    tools.client.sh(f"{DEVICES[finding]} && rdma link add rxe1 type rxe netdev t0")
    try:
        assert finding in doctor(tools.client)
    finally:
        tools.client.sh("rdma link del rxe1; ip link del t0")
    assert finding not in doctor(tools.client)


#: No card of a guest has PFC, so a program says that it has.
LOSSLESS = """
printf '#!/bin/sh\\necho prio-pfc 2:off 3:on\\n' > /tmp/dcb && chmod +x /tmp/dcb
mount --bind /tmp/dcb /usr/sbin/dcb
"""


def test_class_on_a_lossless_port(tools: Pair, tunables: Tunables) -> None:
    """The command gives the connections a class, after which nothing is missing."""
    tools.client.sh(LOSSLESS)
    try:
        command = doctor(tools.client)["class-missing"]
        assert command.startswith("sysctl sunrpc.rdma_traffic_class=96 ")
        tunables.set(rdma_traffic_class=96)
        assert "class-missing" not in doctor(tools.client)
        tunables.restore()
    finally:
        tools.client.sh("umount /usr/sbin/dcb")
    assert "class-missing" not in doctor(tools.client)


#: The other end is down, so there is no carrier.
NO_CARRIER = """
ip link add t0 type veth peer name t1 && ip link set t0 up && ip address add 192.0.2.2/24 dev t0
rdma link add rxe1 type rxe netdev t0
"""


def test_port_without_a_cable(tools: Pair) -> None:
    """It is a problem for a server behind it, and nothing but a note for others."""
    client = tools.client
    client.sh(NO_CARRIER)
    try:
        assert set(doctor(client)) == {"port-unused"}
        assert set(doctor(client, "server")) == {"port-unused"}
        assert "port-down" in doctor(client, "192.0.2.1")
        # The command shows the port, and the other end's brings it up.
        assert "rxe1/1" in client.sh(doctor(client)["port-unused"])
        client.sh("ip link set t1 up")
        client.sh("until rdma link show rxe1/1 | grep -q ACTIVE; do sleep 1; done")
        assert doctor(client) == {}
    finally:
        client.sh("rdma link del rxe1; ip link del t0")


#: Three addresses more than rxe has GIDs (RXE_PORT_GID_TBL_LEN), one of which is of the MAC.
MANY = """
ip link add t0 type dummy && ip link set t0 up && rdma link add rxe1 type rxe netdev t0
for n in $(seq 1026); do echo "address add 10.9.$((n / 250)).$((n % 250 + 1))/32 dev t0"; done |
    ip -batch -
"""


def test_more_addresses_than_gids(tools: Pair) -> None:
    """Those that come last have none, until others go and they come again."""
    client = tools.client
    client.sh(MANY, timeout=120)
    try:
        _await(client, "gids-full", 30)
        client.sh("for n in 2 3 4 5 6; do ip address del 10.9.0.$n/32 dev t0; done")
        # An address gets its GID when it is added. The finding names an address without one.
        for _ in range(6):
            fix = doctor(client).get("gids-full")
            if not fix:
                break
            client.sh(f"{fix}; sleep 1")
        assert doctor(client) == {}
    finally:
        client.sh("rdma link del rxe1; ip link del t0", timeout=120)


def test_no_device(tools: Pair) -> None:
    """A host without a device."""
    tools.client.sh("rdma link del rxe0")
    try:
        assert "rdma link add" in doctor(tools.client)["no-device"]
    finally:
        tools.client.sh("rdma link add rxe0 type rxe netdev eth0")


def test_port_of_the_server(tools: Pair) -> None:
    """A host that disappeared, and an address without a host."""
    client = tools.client
    client.sh("ip neighbour replace 10.0.0.98 lladdr 02:00:00:00:00:98 dev eth0")
    assert "port-silent" in doctor(client, "10.0.0.98")
    client.sh("ip neighbour del 10.0.0.98 dev eth0")
    assert "port-unresolved" in doctor(client, "10.0.0.97")


@pytest.mark.parametrize(
    ("options", "server", "wanted"),
    [
        ("vers=4.1,ro", "server", "proto=rdma,port=20049,vers=4.1,sec=sys,ro"),
        ("vers=3,nolock", "server6", "proto=rdma6,port=20049,vers=3,sec=sys,nolock"),
    ],
)
def test_mount_over_tcp(tools: Pair, options: str, server: str, wanted: str) -> None:
    """The command mounts the same over RDMA, at a place whose name the shell would divide."""
    client, point = tools.client, "/mnt/two words"
    client.sh(f"mkdir -p '{point}'; mount -t nfs -o {options} {server}:/export '{point}'")
    try:
        fix = doctor(client, server)["mount-not-rdma"]
        assert fix == f"umount '{point}' &&\nmount -o {wanted} {server}:/export '{point}'"
        client.sh(fix, timeout=120)
        tools.mounts += 1
        assert "mount-not-rdma" not in doctor(client, server)
        (line,) = (line for line in client.read("/proc/mounts").splitlines() if " nfs" in line)
        have = line.split()[3].split(",")
        assert set(wanted.split(",")) - {"nolock"} <= set(have), have
    finally:
        client.sh(f"umount '{point}'", timeout=120)


def test_port_that_cannot_be_asked(tools: Pair) -> None:
    """A host without the connection manager's device, which the lab's kernel has built in."""
    client, device = tools.client, "/dev/infiniband/rdma_cm"
    client.sh(f"mv {device} {device}.away")
    try:
        assert doctor(client, "server") == {"port-not-asked": "modprobe rdma_ucm"}
    finally:
        client.sh(f"mv {device}.away {device}")
    assert doctor(client, "server") == {}


def test_unreachable(tools: Pair) -> None:
    """A mount whose server can no longer be reached."""
    tools.mount("4.2")
    tools.client.sh(f"ip route add unreachable {SERVER_ADDRESS}")
    try:
        tools.restart_nfsd()
        tools.client.sh(f"(ls {MOUNT_POINT}/x || true) > /dev/null 2>&1 &")
        assert _await(tools.client, "unreachable", 30)["unreachable"] == (
            f"nfsrdma doctor {SERVER_ADDRESS}"
        )
    finally:
        tools.client.sh(f"ip route del unreachable {SERVER_ADDRESS}")
    tools.client.sh(f"ls {MOUNT_POINT}", timeout=60)
    assert "unreachable" not in doctor(tools.client)
    tools.umount()


def test_not_answering(tools: Pair) -> None:
    """A mount whose server's host no longer answers connection requests."""
    tools.mount("4.2")
    tools.client.sh(f"ls {MOUNT_POINT}")
    # Nobody has this address on the cable.
    nobody = f"{SERVER_ADDRESS} lladdr 02:00:00:00:00:98 dev eth0 nud permanent"
    tools.client.sh(f"ip neighbour replace {nobody}")
    try:
        tools.restart_nfsd()
        tools.client.sh(f"(ls {MOUNT_POINT}/x || true) > /dev/null 2>&1 &")
        # The connection manager's own patience has to end first.
        fix = _await(tools.client, "not-answering", 200)["not-answering"]
        assert fix.startswith(f"ping -c 3 {SERVER_ADDRESS}\n")
    finally:
        tools.client.sh(f"ip neighbour del {SERVER_ADDRESS} dev eth0")
    tools.client.sh(f"ls {MOUNT_POINT}", timeout=150)
    assert "not-answering" not in doctor(tools.client)
    tools.umount()


@pytest.mark.debug_kernel
@pytest.mark.debug_only
def test_connecting_without_memory(tools: Pair) -> None:
    """A mount that cannot reconnect, because this host has no memory for a connection."""
    tools.starved = True
    tools.mount("3", options="nolock")
    tools.client.sh(f"ls {MOUNT_POINT}")
    # An attempt takes many allocations, and looking at the connections two or three.
    with Failures(tools.client, "failslab", 40) as failures:
        tools.restart_nfsd()
        tools.client.sh(f"(ls {MOUNT_POINT}/x || true) > /dev/null 2>&1 &")
        fix = _await(tools.client, "connect-failed", 60)["connect-failed"]
    assert failures.failed
    assert f"rpcrdma: connecting to {SERVER_ADDRESS}" in tools.client.sh(fix)
    tools.client.sh(f"ls {MOUNT_POINT}", timeout=120)
    assert "connect-failed" not in doctor(tools.client)
    tools.umount()


def test_lost_often(tools: Pair) -> None:
    """A connection that is lost again and again."""
    tools.mount("4.2")
    for _ in range(4):
        tools.restart_nfsd()
        tools.client.sh(f"ls {MOUNT_POINT}", timeout=60)
    assert "lost-often" in doctor(tools.client)
    tools.umount()


def test_silent(tools: Pair) -> None:
    """A server that owes a reply for more than ten seconds."""
    tools.server.sh("rm -rf /srv/export/*; echo there > /srv/export/f")
    tools.mount("3", options="nolock")
    tools.client.sh(f"cat {MOUNT_POINT}/f")
    tools.server.sh("pkill -STOP mountd && exportfs -f")
    try:
        tools.client.sh(f"touch {MOUNT_POINT}/g > /dev/null 2>&1 &")
        assert "ping -c 3" in _await(tools.client, "silent", 40)["silent"]
    finally:
        tools.server.sh("pkill -CONT mountd")
    tools.client.sh(f"ls {MOUNT_POINT}", timeout=60)
    tools.umount()


def test_threshold(tools: Pair, tunables: Tunables) -> None:
    """A connection that was made when this host took less; the command that is named helps."""
    tunables.set(rdma_version=1)
    tunables.set_thresholds(1024)
    tools.mount("4.2")
    tools.client.sh(f"ls {MOUNT_POINT}")
    assert "threshold-low" not in doctor(tools.client)
    tunables.set_thresholds(4096)
    assert doctor(tools.client)["threshold-low"].startswith("umount and mount again ")
    tools.umount()
    tools.mount("4.2")
    tools.client.sh(f"ls {MOUNT_POINT}")
    assert "threshold-low" not in doctor(tools.client)
    tools.umount()


#: Leaves three of a hundred bytes of the memory.
FILL = """
mkdir -p /run/full && mount -t tmpfs -o size=100% none /run/full
sums='/MemTotal/ {t = $2} /MemAvailable/ {a = $2} END {print int(a - t * 0.03)}'
size=$(awk "$sums" /proc/meminfo)
head -c ${size}K /dev/zero > /run/full/f
"""


def test_memory_low(tools: Pair) -> None:
    """A host whose memory is nearly full."""
    tools.client.sh(FILL)
    try:
        assert "memory-low" in doctor(tools.client)
    finally:
        tools.client.sh("umount /run/full; rmdir /run/full")
    assert "memory-low" not in doctor(tools.client)


FREEZE = """
set -e; head -c 16M /dev/zero > /run/disk; mkfs.ext4 -q /run/disk; mkdir -p /run/frozen
mount "$(losetup --find --show /run/disk)" /run/frozen
echo 2 > /proc/sys/kernel/hung_task_timeout_secs
fsfreeze -f /run/frozen; touch /run/frozen/f > /dev/null 2>&1 &
"""
THAW = """
fsfreeze -u /run/frozen; echo 120 > /proc/sys/kernel/hung_task_timeout_secs
while pgrep -x touch; do sleep 0.1; done; umount /run/frozen; losetup -D; rm /run/disk
"""


@pytest.mark.provokes
def test_locked_up(tools: Pair) -> None:
    """A task that writes to a file system that is frozen."""
    tools.client.sh(FREEZE)
    try:
        fix = _await(tools.client, "locked-up", 30)["locked-up"]
        assert "touch" in tools.client.sh(fix)
    finally:
        tools.client.sh(THAW)
    # The log still has the report, but the task has ended.
    assert "blocked" in tools.client.sh(fix)
    assert "locked-up" not in doctor(tools.client)


def _busy(guest: Guest, command: str, finding: Callable[[], bool]) -> None:
    """Runs eight loops of a command until the doctor has found something."""
    guest.sh(f"touch /run/busy; for i in $(seq 8); do (while [ -e /run/busy ]; do {command}; done)"
             " > /dev/null 2>&1 & done")  # fmt: skip
    deadline = time.monotonic() + 60 * SLOW_HOST
    try:
        while not finding():
            assert time.monotonic() < deadline
    finally:
        guest.sh("rm -f /run/busy; timeout 50 sh -c 'while pgrep -x dd; do sleep 0.2; done'")


def _notes(fixes: list[str], fix: str | None) -> bool:
    """Notes a command, if there is one. Returns whether there is."""
    fixes += [fix] if fix else []
    return bool(fix)


def test_after_many_calls(tools: Pair) -> None:
    """Request slots keep memory regions for their next calls: nothing is wrong with that."""
    tools.mount("4.2")
    how = "--rw=write --bs=64k --size=16m --direct=1 --ioengine=libaio --iodepth=64"
    tools.client.sh(f"fio --name=m --directory={MOUNT_POINT} {how}", timeout=120)
    (line,) = connections.read(tools.client)
    print(f"at rest: {line['regions_idle']} of {line['regions']} regions are idle")
    assert doctor(tools.client) == {}
    tools.umount()


@pytest.mark.needs_our_server
@pytest.mark.server
def test_credits(tools: Pair, server_tunables: Tunables) -> None:
    """A server that grants fewer credits than the client has calls. The last command helps."""
    server_tunables.set(**{"svc_rdma/max_requests": 4})
    tools.mount("4.2")
    write = f"dd if=/dev/zero of={MOUNT_POINT}/f$i bs=1M count=8 oflag=direct"
    fixes: list[str] = []
    _busy(tools.client, write, lambda: _notes(fixes, doctor(tools.client).get("credits-out")))
    tools.umount()
    tools.server.sh(fixes[0].splitlines()[-1])
    tools.mount("4.2")
    looks = iter([False, False, True])

    def _look() -> bool:
        assert "credits-out" not in doctor(tools.client)
        return next(looks)

    _busy(tools.client, write, _look)
    tools.umount()


@pytest.mark.needs_our_server
@pytest.mark.server
def test_threads(tools: Pair) -> None:
    """A server with fewer threads than calls, and one with a listener but no threads."""
    tools.mount("4.2", options="nconnect=3")
    tools.client.sh(f"for i in 1 2 3 4 5 6; do ls {MOUNT_POINT}; done")
    tools.server.sh("echo 1 > /proc/fs/nfsd/threads")
    # The connections are idle.
    assert "few-threads" not in doctor(tools.server)
    fixes: list[str] = []
    write = f"dd if=/dev/zero of={MOUNT_POINT}/f$i bs=1M count=8 oflag=direct"
    _busy(tools.client, write, lambda: _notes(fixes, doctor(tools.server).get("few-threads")))
    assert fixes[0].startswith("rpc.nfsd 8 ")
    tools.server.sh(fixes[0])
    assert tools.server.read("/proc/fs/nfsd/threads").split() == ["8"]
    tools.umount()
    tools.stop_nfsd()
    tools.server.sh("python3 /lab/listeners.py rdma 0.0.0.0 20049")
    fix = doctor(tools.server).get("no-threads")
    tools.server.run("rpc.nfsd 0")
    tools.start_nfsd()
    assert fix == "rpc.nfsd 8"


@pytest.mark.needs_our_server
@pytest.mark.server
@pytest.mark.breaks_rules
def test_breaches_of_a_client(tools: Pair) -> None:
    """A client breaks the protocol: the server's doctor names the counter."""
    tools.mount()
    requester.prepare(tools)
    requester.Play(tools, next(iter(requester.cases()[0]))).finish(120)
    assert "rpcrdma: server:" in doctor(tools.server)["requester-breaches"]
    tools.umount()
    # The counters are the module's.
    tools.stop_nfsd()
    tools.unload_server(20)
    tools.load_server()
    tools.start_nfsd()
    assert "requester-breaches" not in doctor(tools.server)
