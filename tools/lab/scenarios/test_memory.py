# SPDX-License-Identifier: GPL-2.0
"""Little memory: writeback in a small guest, and failing allocations in the module."""

from __future__ import annotations

import time

import pytest

from lab.failures import KINDS, BufferFailures, Failures
from lab.fixtures import Counters, Tunables
from lab.harness import Options
from lab.pair import MOUNT_POINT, Pair
from lab.worker import Worker

VERIFY = "python3 /lab/verify.py"
#: Mounts while allocations fail, seconds of failures for each, and seconds for each to end then.
MOUNTS, WANT, PATIENCE = 10, 10, 100
#: Request slots of these mounts, each of which takes three allocations when the transport is made.
#: A mount fails at once if one of them fails; it tries again if its connection cannot be made.
SLOTS = 4
#: Restarts of the server while no buffer can be allocated.
RESTARTS = 3
#: Megabytes of a small client, and the number of 64 MiB files that it writes at a time.
SMALL, WRITERS = 256, 6


@pytest.mark.full
@pytest.mark.plain_only
@pytest.mark.parametrize("pair", [Options(memory=SMALL)], indirect=True)
@pytest.mark.parametrize("restarts", [0, 2])
def test_writeback(pair: Pair, counters: Counters, restarts: int) -> None:
    """The client writes more dirty data than it has memory.

    When the server restarts meanwhile, the memory fills up without a connection, and the client
    must be able to allocate a new connection.
    """
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount("4.2")
    writers = [
        pair.client.vm.start(f"{VERIFY} write big {MOUNT_POINT}/w{index}")
        for index in range(WRITERS)
    ]
    for _ in range(restarts):
        time.sleep(3)
        pair.restart_nfsd(pause=5)
        polled = [pair.client.vm.agent.poll(writer) for writer in writers]
        assert None in polled, "the writers had ended before the restart"
    for writer in writers:
        done = pair.client.vm.agent.wait(writer, 400)
        assert done.status == 0, done.stderr.decode()
    for index in range(WRITERS):
        pair.server.sh(f"{VERIFY} check big /srv/export/w{index}", timeout=300)
    pair.client.sh(f"{VERIFY} check big {MOUNT_POINT}/w0", timeout=300)
    connects = counters.connects()
    # A connection may be made and lost while the server stops.
    assert (connects >= 1 + restarts) if restarts else (connects == 1)
    pair.umount()


def _mount_in_want(pair: Pair, kind: str) -> tuple[str, float, int]:
    """Mounts while allocations fail, for `WANT` seconds at most.

    Returns mount's complaint (empty after success), how long the mount took after the failures (the
    client tries to connect again after 5, 10 and 20 s), and the number of failures.
    """
    options = "vers=3,proto=rdma,port=20049,retry=0"
    with Failures(pair.client, kind, 5) as failures:
        began = time.monotonic()
        mounting = pair.client.vm.start(f"mount -t nfs -o {options} server:/export {MOUNT_POINT}")
        done = pair.client.vm.agent.poll(mounting)
        while not done and time.monotonic() < began + WANT:
            time.sleep(0.1)
            done = pair.client.vm.agent.poll(mounting)
    began = time.monotonic()
    done = done or pair.client.vm.agent.wait(mounting, PATIENCE)
    if done.status == 0:
        pair.umount()
    complaint = done.stderr.decode().strip() or f"status {done.status}"
    return complaint if done.status else "", time.monotonic() - began, failures.failed


@pytest.mark.debug_kernel
@pytest.mark.debug_only
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [KINDS[0], pytest.param(KINDS[1], marks=pytest.mark.full)])
def test_failing_allocations(pair: Pair, tunables: Tunables, kind: str) -> None:
    """The client mounts while some of its allocations fail, reconnects and works, also then."""
    pair.starved = True
    tunables.set(rdma_slot_table_entries=SLOTS)
    pair.server.sh("rm -rf /srv/export/*")
    pair.client.sh(f"mkdir -p {MOUNT_POINT}")
    mounts = [_mount_in_want(pair, kind) for _ in range(MOUNTS)]
    complaints, took, failed = zip(*mounts, strict=True)
    print(f"all over after {max(took):.1f} s; allocations failed: {failed}; said: {complaints}")
    assert sum(failed) >= MOUNTS / 2, "hardly an allocation failed"
    assert "" in complaints, "no mount went well"
    # A mount that did not must have ended by itself and with a reason, not by a signal.
    assert all(text.startswith("mount.nfs: ") for text in complaints if text), complaints
    pair.mount("3")
    worker = Worker(pair)
    with Failures(pair.client, kind, 10) as failures:
        for _ in range(2):
            pair.restart_nfsd()
            time.sleep(15)
    assert failures.failed, "no allocation failed while reconnecting"
    worker.await_progress(20, 200)
    said = worker.finish(300)
    print(said)
    assert "errors=0" in said
    pair.umount()


@pytest.mark.debug_kernel
@pytest.mark.debug_only
@pytest.mark.timeout(1200)
def test_reconnecting_without_buffers(pair: Pair, counters: Counters) -> None:
    """The client reconnects although no allocation of a buffer succeeds."""
    pair.starved = True
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount("3")
    took = []
    with BufferFailures(pair.client) as reconnecting:
        for number in range(RESTARTS):
            pair.restart_nfsd()
            began = time.monotonic()
            name = f"{MOUNT_POINT}/{number}"
            pair.client.sh(f"echo {number} > {name}; sync {name}", timeout=60)
            took.append(round(time.monotonic() - began, 1))
    assert counters.connects() >= 1 + RESTARTS
    print(f"reconnected and wrote after {took} s; allocations failed: {reconnecting.failed}")
    pair.umount()
    # A new transport has no memory of an earlier one: the same failures stop it.
    mount = f"mount -t nfs -o vers=3,proto=rdma,port=20049,retry=0 server:/export {MOUNT_POINT}"
    with BufferFailures(pair.client) as mounting:
        process = pair.client.vm.start(mount)
        time.sleep(WANT)
        done = pair.client.vm.agent.poll(process)
        assert done is None or done.status != 0, "the mount went well without buffers"
    assert mounting.failed, "no allocation failed while mounting"
    done = done or pair.client.vm.agent.wait(process, PATIENCE)
    if done.status == 0:
        pair.umount()
