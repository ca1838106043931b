# SPDX-License-Identifier: GPL-2.0
"""Loading and unloading the module: repeatedly, and while processes have its files open."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab import settings
from lab.memory import free_kilobytes
from lab.pair import MOUNT_POINT, Pair
from lab.tracing import TRACING

#: A cycle takes ten times as long on the debug kernel, which finds leaks by kmemleak.
FEW, MANY = (5, 20) if settings.flavour() == "debug" else (4, 100)


def _allowed(cycles: int) -> int:
    """Returns the kilobytes that this number of cycles may take.

    Slabs that fill up take 300 kB in ten cycles. The buffers of one connection are 512 kB, so a
    leak of them in each cycle exceeds the limit. The quarantine of KASAN needs more.
    """
    return 4000 if settings.flavour() == "debug" else 1500 + 50 * cycles


@pytest.mark.debug_kernel
@pytest.mark.parametrize("cycles", [FEW, pytest.param(MANY, marks=pytest.mark.full)])
def test_cycles(pair: Pair, cycles: int) -> None:
    """Cycles of insmod, mount, I/O, umount and rmmod lose no memory."""
    pair.unload()
    free = []
    for cycle in range(cycles):
        pair.load()
        pair.mount("4.2" if cycle % 2 else "3")
        pair.client.sh(
            f"dd if=/dev/urandom of={MOUNT_POINT}/f bs=300k count=3 conv=fsync 2>/dev/null &&"
            f" cp {MOUNT_POINT}/f /tmp/f && echo 1 > /proc/sys/vm/drop_caches &&"
            f" cmp {MOUNT_POINT}/f /tmp/f"
        )
        pair.umount()
        pair.unload()
        free.append(free_kilobytes(pair.client))
    # The first cycles fill caches; a leak still grows afterwards.
    half = cycles // 2
    lost = free[-1 - half] - free[-1]
    print(f"{lost} kB lost in {half} cycles")
    assert lost < _allowed(half), f"{lost} kB lost in {half} cycles: {free}"
    assert "rpcrdma" not in pair.client.read("/proc/modules")
    pair.load()


@pytest.mark.debug_kernel
def test_not_while_mounted(pair: Pair) -> None:
    """Rmmod refuses a module in use, and the mount still works."""
    pair.mount()
    refused = pair.client.run("rmmod rpcrdma")
    assert refused.status != 0
    assert b"in use" in refused.stderr
    pair.client.sh(f"echo still here > {MOUNT_POINT}/file && sync {MOUNT_POINT}/file")
    assert pair.server.read("/srv/export/file") == "still here\n"
    pair.umount()
    pair.unload()
    pair.load()


#: Files that keep the module while they are open: its own in debugfs, and SUNRPC's file of a
#: transport, which keeps that transport.
KEEPING = {
    "connections": "/sys/kernel/debug/rpcrdma/connections",
    "breaches": "/sys/kernel/debug/rpcrdma/breaches",
    "requester_breaches": "/sys/kernel/debug/rpcrdma/requester_breaches",
    "peers": "/sys/kernel/debug/rpcrdma/peers",
    "transport": "/sys/kernel/debug/sunrpc/rpc_xprt/*/info",
}
#: The short form has the first of them.
FIRST, *REST = KEEPING
#: Files that do not hold the module: its other files, which the kernel disconnects when it removes
#: them, and those of SUNRPC that show its transports.
OTHERS = {
    "debugfs": "/sys/kernel/debug/rpcrdma",
    "sysctl": "/proc/sys/sunrpc/*rdma* /proc/sys/sunrpc/svc_rdma/*",
    "sysctl_directory": "/proc/sys/sunrpc/svc_rdma",
    "parameters": "/sys/module/rpcrdma/* /sys/module/rpcrdma/*/*",
    "workqueue": "/sys/devices/virtual/workqueue/rpcrdma_completion/*",
    "events": f"{TRACING}/events/rpcrdma/* {TRACING}/events/rpcrdma/*/*",
    "trace": f"{TRACING}/trace {TRACING}/trace_pipe {TRACING}/set_event {TRACING}/*_events",
    "sunrpc": "/proc/net/rpc/* /proc/self/mountstats /sys/kernel/sunrpc/*/*/*",
}


@contextmanager
def _held(pair: Pair, mode: str, patterns: str) -> Iterator[None]:
    """Has a process of the client hold or read files (guest/holder.py) inside the block."""
    client, control = pair.client, "/run/holder"
    client.sh(f"rm -f {control}.*")
    pid = client.vm.start(f"exec python3 /lab/holder.py {control} {mode} {patterns}")
    try:
        client.sh(f"until [ -s {control}.ready ]; do sleep 0.1; done")
        assert client.run(f"grep -q '[1-9]' {control}.ready").status == 0, "nothing is held"
        yield
    finally:
        client.sh(f"touch {control}.stop")
        done = client.vm.agent.wait(pid, 60 * pair.patience)
        print(done.stderr.decode())
    assert done.status == 0


def _leave_traces(pair: Pair) -> None:
    """Has the module write trace events, and leaves them enabled."""
    pair.client.sh(f"echo 1 > {TRACING}/events/rpcrdma/enable")
    pair.mount()
    pair.client.sh(f"echo traced > {MOUNT_POINT}/file && sync {MOUNT_POINT}/file")


@pytest.mark.needs_ours
@pytest.mark.any_link
@pytest.mark.debug_kernel
@pytest.mark.parametrize(
    "what", [FIRST, *(pytest.param(name, marks=pytest.mark.full) for name in REST)]
)
def test_open_file_keeps_the_module(pair: Pair, what: str) -> None:
    """Rmmod refuses a module of which a process has a file open, and works when it is closed."""
    pair.mount()
    with _held(pair, "hold", KEEPING[what]):
        pair.umount()
        # The teardown of umount also holds the module.
        time.sleep(2 * pair.setup.patience)
        refused = pair.client.run("rmmod rpcrdma")
        assert refused.status != 0, "the module was unloaded"
        assert b"in use" in refused.stderr
    pair.unload()
    pair.load()


@pytest.mark.full
@pytest.mark.needs_ours
@pytest.mark.any_link
def test_files_of_debugfs_are_read_during_unload(pair: Pair) -> None:
    """A process reads the files again and again while the module is unloaded and loaded."""
    with _held(pair, "read", "/sys/kernel/debug/rpcrdma/*"):
        for _ in range(10):
            pair.unload()
            pair.load()


@pytest.mark.needs_ours
@pytest.mark.any_link
@pytest.mark.debug_kernel
@pytest.mark.full
@pytest.mark.parametrize("what", ["all", *OTHERS])
def test_other_files_do_not_keep_the_module(pair: Pair, what: str) -> None:
    """Rmmod works while other files are open, and they can be read and closed after it."""
    _leave_traces(pair)
    with _held(pair, "hold", OTHERS.get(what, " ".join(OTHERS.values()))):
        pair.umount()
        pair.unload()
        assert "rpcrdma" not in pair.client.read("/proc/modules")
    pair.load()
    pair.client.sh(f"echo 0 > {TRACING}/events/rpcrdma/enable")
