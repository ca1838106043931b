# SPDX-License-Identifier: GPL-2.0
"""The sample modules do what their first lines promise."""

from __future__ import annotations

import pytest

from lab import ktap
from lab.harness import Lab
from lab.pair import MOUNT_POINT, Pair

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
