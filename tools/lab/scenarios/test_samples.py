# SPDX-License-Identifier: GPL-2.0
"""The sample modules and scripts do what their first lines describe."""

from __future__ import annotations

import re
import time

import pytest

from lab import ktap, paths, settings
from lab.harness import Lab
from lab.pair import MOUNT_POINT, Guest, Pair

#: The client's own address in the form that rdma_ping takes.
ADDRESS = "0x0a000002"
MOUNT = (
    f"mkdir -p {MOUNT_POINT}; mount -t nfs -o vers=4.2,proto=rdma,retry=0 192.0.2.1:/ {MOUNT_POINT}"
)


# The regions of rdma_ping begin and end inside a page.
@pytest.mark.needs_ours
@pytest.mark.needs_offsets
@pytest.mark.debug_kernel
def test_rdma_ping(lab: Lab, pair: Pair) -> None:
    """rdma_ping does READ, WRITE and Send With Invalidate with the room `rdma` alone."""
    declared = ktap.in_table(paths.ROOT / "samples/rdma_ping_main.rs")
    before = len(pair.client.console())
    pair.client.sh(f"insmod /lab/rdma_ping.ko addr={ADDRESS}", timeout=120)
    results = ktap.parse(lab.kernel.src, pair.client.console()[before:])
    pair.client.sh("rmmod rdma_ping")
    assert results.failed == 0, results.text
    assert results.suites == declared


@pytest.mark.full
@pytest.mark.needs_ours
@pytest.mark.needs_offsets
@pytest.mark.by_the_clock
def test_rdma_ping_removal(pair: Pair) -> None:
    """A listener does not delay the removal of its device, and listens again when it is back."""
    kind = pair.setup.link
    before = len(pair.client.console())
    pair.client.sh(f"insmod /lab/rdma_ping.ko addr={ADDRESS} rounds=1 hold=1", timeout=120)
    try:
        for count in (1, 2):
            assert _listens(pair)
            began = time.monotonic()
            pair.client.sh(f"rdma link del {kind}0", timeout=120)
            removing = time.monotonic() - began
            # Several attempts to listen fail in that time.
            time.sleep(3)
            assert not _listens(pair)
            pair.client.sh(f"rdma link add {kind}0 type {kind} netdev eth0")
            returning = _await_return(pair, before, count)
            print(f"removed in {removing:.1f} s; listens {returning:.1f} s after the return")
            assert removing < REMOVING * pair.patience
            assert returning < RETURNING * pair.patience
            said = pair.client.console()[before:]
            assert said.count("the listener is lost: DeviceRemoved") == count
    finally:
        pair.client.sh("rmmod rdma_ping")


#: Seconds for the removal of a device, and until its listener listens again. The debug kernel takes
#: ten times as much processor time.
REMOVING, RETURNING = (5.0, 5.0) if settings.flavour() == "plain" else (12.5, 5.0)


def _listens(pair: Pair) -> bool:
    """Returns whether rdma_cm has a listener of rdma_ping on the client."""
    shown = pair.client.sh("rdma resource show cm_id")
    return re.search(r"state LISTEN .*:20050\b", shown) is not None


def _await_return(pair: Pair, before: int, count: int) -> float:
    """Returns the seconds until rdma_ping has said `count` times that its listener is back."""
    began = time.monotonic()
    while pair.client.console()[before:].count("the listener is back") < count:
        assert time.monotonic() < began + 60, "the listener did not come back"
        time.sleep(0.1)
    return time.monotonic() - began


@pytest.mark.needs_ours
def test_rpc_null(pair: Pair) -> None:
    """rpc_null answers pings and nothing else, or refuses connections."""
    pair.unload()
    try:
        pair.client.sh("insmod /lab/rpc_null.ko")
        _fails(pair, "mount system call failed")
        pair.unload(module="rpc_null")
        pair.client.sh("insmod /lab/rpc_null.ko refuse=1")
        _fails(pair, "Connection refused")
        pair.unload(module="rpc_null")
    finally:
        pair.client.run("rmmod rpc_null")
        pair.load()


def _fails(pair: Pair, why: str) -> None:
    """Tries to mount and checks that the error message contains `why`."""
    done = pair.client.run(MOUNT, timeout=120)
    assert done.status not in (0, 124)
    assert why in done.stderr.decode(), done.stderr.decode()


@pytest.mark.needs_ours
@pytest.mark.debug_kernel
def test_svc_null(pair: Pair) -> None:
    """svc_null calls nfsd over its own server transport, and leaves nothing behind."""
    pair.stop_nfsd()
    pair.server.sh("rmmod rpcrdma")
    try:
        for _ in range(2):
            _serve(pair)
        _refuse_to_listen(pair)
    finally:
        pair.server.run("rpc.nfsd 0; rmmod svc_null")
        pair.server.sh("insmod /lab/rpcrdma.ko")
        pair.start_nfsd()


#: The lines of svc_null about its connections, in order.
DIALOGUE = [
    "connection refused",
    "NFSv3 procedure 0: right",
    "NFSv4 procedure 0: right",
    "NFSv3 procedure 0: right",
    "NFSv3 procedure 99: right",
    "connection detached",
    "connection freed: 4 contexts, 4 released, 1 page",
]


def _serve(pair: Pair) -> None:
    """Loads svc_null, lets nfsd listen, and checks what the sample reports until it is removed."""
    before = len(pair.server.console())
    pair.server.sh("insmod /lab/svc_null.ko")
    pair.start_nfsd()
    _await_report(pair, before, DIALOGUE)
    # The listener's reference.
    assert _references(pair) == 1
    refused = pair.server.run("rmmod svc_null")
    assert refused.status
    assert b"in use" in refused.stderr
    pair.stop_nfsd()
    assert _references(pair) == 0
    pair.server.sh("rmmod svc_null")
    _await_report(pair, before, [*DIALOGUE, "listener detached"])


def _refuse_to_listen(pair: Pair) -> None:
    """Checks that a listener that cannot be created leaves no reference to the module."""
    pair.server.sh("insmod /lab/svc_null.ko refuse=1 && rpc.nfsd 1", timeout=120)
    failed = pair.server.run("echo 'rdma 20049' > /proc/fs/nfsd/portlist")
    assert failed.status
    assert b"Address already in use" in failed.stderr, failed.stderr
    pair.stop_nfsd()
    assert _references(pair) == 0
    pair.server.sh("rmmod svc_null")


def _references(pair: Pair) -> int:
    """Returns the number of references to svc_null."""
    return int(pair.server.sh("cat /sys/module/svc_null/refcnt"))


def _await_report(pair: Pair, before: int, expected: list[str]) -> None:
    """Waits until svc_null has printed the lines `expected` to the server's console."""
    deadline = time.monotonic() + 30 * pair.patience
    while True:
        lines = re.findall(r"svc_null: ((?!loading).*?)\r?\n", pair.server.console()[before:])
        if lines == expected:
            return
        assert time.monotonic() < deadline, lines
        time.sleep(0.1)


#: One READ of 64 KiB past the page cache.
READ = f"/usr/bin/dd if={MOUNT_POINT}/f of=/dev/null bs=64k count=1 iflag=direct"


def _script(guest: Guest, path: str) -> str:
    """Copies a script of samples/ into the guest; returns its place there."""
    place = f"/run/{path.rsplit('/', 1)[-1]}"
    guest.write(place, (paths.ROOT / "samples" / path).read_bytes())
    guest.sh(f"chmod +x {place}")
    return place


BPFTRACE = "bpftrace --include /lab/kernel-types.h"


def _bpftrace(guest: Guest, name: str) -> str:
    """Returns the output of a bpftrace script for one READ."""
    script = _script(guest, f"bpftrace/{name}")
    return guest.sh(f"{BPFTRACE} {script} -c '{READ}' 2>&1", timeout=240)


@pytest.mark.full
@pytest.mark.plain_only
def test_scripts(pair: Pair) -> None:
    """The tracing scripts describe the calls of a command, with either module."""
    pair.server.sh("rm -rf /srv/export/*; head -c 64k /dev/zero > /srv/export/f")
    pair.mount("4.2")
    story = pair.client.sh(f"{_script(pair.client, 'ftrace/rpc-trace')} -s -- {READ} 2>&1")
    for word in ("xprtrdma_marshal:", "pullup/write list", "xprtrdma_reply:", "rpc_request:"):
        assert word in story, story
    told = _bpftrace(pair.client, "call-latency.bt")
    assert "@microseconds[inline, write chunk]" in told, told
    told = _bpftrace(pair.client, "registration-cost.bt")
    for word in ("@calls:", "@pages:", "@invalidated[by the server]:", "@until_posted:"):
        assert word in told, told
    pair.umount()


#: A READ whose call the client aborts, so that the client has to invalidate the memory.
GIVEN_UP = f"""
exec 3< {MOUNT_POINT}/f
touch /run/opened
while [ ! -e /run/slow ]; do sleep 0.1; done
timeout -s KILL 3 dd of=/dev/null bs=64k count=1 iflag=direct <&3
exec 3<&-
umount -f {MOUNT_POINT}
"""


@pytest.mark.full
@pytest.mark.plain_only
def test_cost_of_giving_up(pair: Pair) -> None:
    """registration-cost.bt also shows local invalidation, with either module."""
    pair.server.sh("rm -rf /srv/export/*; head -c 64k /dev/zero > /srv/export/f")
    pair.mount("3", options="nolock")
    pair.client.sh("rm -f /run/opened /run/slow")
    pair.client.write("/run/given-up", GIVEN_UP.encode())
    script = _script(pair.client, "bpftrace/registration-cost.bt")
    # bpftrace cannot start a script without its interpreter.
    telling = pair.client.vm.start(f"{BPFTRACE} {script} -c '/bin/sh /run/given-up' 2>&1")
    deadline = time.monotonic() + 200
    while pair.client.run("test -e /run/opened").status:
        ended = pair.client.vm.agent.poll(telling)
        assert not ended, ended.stdout.decode()
        assert time.monotonic() < deadline, "bpftrace did not start the command"
        time.sleep(0.2)
    pair.server.sh("pkill -STOP mountd && exportfs -f")
    try:
        pair.client.sh("touch /run/slow")
        told = pair.client.vm.agent.wait(telling, 100).stdout.decode()
    finally:
        pair.server.sh("pkill -CONT mountd")
    for word in ("@invalidated[by this client]:", "@local_invalidation:"):
        assert word in told, told
