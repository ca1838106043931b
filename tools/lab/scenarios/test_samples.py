# SPDX-License-Identifier: GPL-2.0
"""The sample modules and scripts do what their first lines promise."""

from __future__ import annotations

import pytest

from lab import ktap, paths
from lab.harness import Lab
from lab.pair import MOUNT_POINT, Guest, Pair

#: The client's own address, as rdma_ping wants it.
ADDRESS = "0x0a000002"
MOUNT = (
    f"mkdir -p {MOUNT_POINT}; mount -t nfs -o vers=4.2,proto=rdma,retry=0 192.0.2.1:/ {MOUNT_POINT}"
)


@pytest.mark.needs_ours
@pytest.mark.debug_kernel
def test_rdma_ping(lab: Lab, pair: Pair) -> None:
    """READ, WRITE and Send With Invalidate over the room `rdma` alone."""
    before = len(pair.client.console())
    pair.client.sh(f"insmod /lab/rdma_ping.ko addr={ADDRESS}", timeout=120)
    results = ktap.parse(lab.kernel.src, pair.client.console()[before:])
    pair.client.sh("rmmod rdma_ping")
    assert results.failed == 0, results.text
    assert results.passed > 0


@pytest.mark.needs_ours
def test_rpc_null(pair: Pair) -> None:
    """A transport that answers by itself: pings succeed, nothing else does; or it refuses."""
    pair.unload()
    try:
        pair.client.sh("insmod /lab/rpc_null.ko")
        answered = pair.client.run(MOUNT, timeout=120)
        assert answered.status not in (0, 124), answered.stderr.decode()
        pair.client.sh("rmmod rpc_null")
        pair.client.sh("insmod /lab/rpc_null.ko refuse=1")
        refused = pair.client.run(MOUNT, timeout=120)
        assert refused.status not in (0, 124), refused.stderr.decode()
    finally:
        pair.client.sh("rmmod rpc_null")
        pair.load()


#: One READ of 64 KiB that nothing has cached.
READ = f"/usr/bin/dd if={MOUNT_POINT}/f of=/dev/null bs=64k count=1 iflag=direct"


def _script(guest: Guest, path: str) -> str:
    """Bring a script of samples/ into the guest; its place there."""
    place = f"/run/{path.rsplit('/', 1)[-1]}"
    guest.write(place, (paths.ROOT / "samples" / path).read_bytes())
    guest.sh(f"chmod +x {place}")
    return place


def _bpftrace(guest: Guest, name: str) -> str:
    """What a bpftrace script says about a READ."""
    script = _script(guest, f"bpftrace/{name}")
    command = f"bpftrace --include /lab/kernel-types.h {script} -c '{READ}' 2>&1"
    return guest.sh(command, timeout=240)


@pytest.mark.plain_only
def test_scripts(pair: Pair) -> None:
    """The tracing scripts tell what happened while a command ran; with either module."""
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
