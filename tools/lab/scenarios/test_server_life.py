# SPDX-License-Identifier: GPL-2.0
"""The server's listeners, threads, device and module come and go while clients work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab import namespace, settings
from lab.failures import KINDS, Failures
from lab.fixtures import Counters
from lab.harness import Options
from lab.memory import free_kilobytes
from lab.pair import MOUNT_POINT, SERVER_ADDRESS, Pair
from lab.requester import connections, settle
from lab.worker import Worker

pytestmark = pytest.mark.server

full = pytest.mark.full
OURS = settings.server() == "ours"
DEBUG = settings.flavour() == "debug"
THREADS = "/proc/fs/nfsd/threads"
LISTEN = "echo 'rdma 20049' > /proc/fs/nfsd/portlist"
#: Seconds in which the server's device must be gone, and clients at work again after its return.
#: The goal for the first is two seconds on an idle host; a busy one gets twice that, and more if
#: its guests boot slowly (`Pair.patience`).
REMOVING, RETURNING = (5.0, 120.0) if DEBUG else (4.0, 60.0)
#: Seconds after which the server must have noticed that an idle client is gone.
VANISHED = 200
COPY = (
    f"dd if=/dev/urandom of={MOUNT_POINT}/f bs=300k count=3 conv=fsync 2>/dev/null &&"
    f" cp {MOUNT_POINT}/f /tmp/f && echo 1 > /proc/sys/vm/drop_caches && cmp {MOUNT_POINT}/f /tmp/f"
)


def _start(pair: Pair, version: str) -> Worker:
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount(version)
    return Worker(pair)


def _finish(pair: Pair, worker: Worker, limit: float = 100) -> None:
    print(f"20 operations in {worker.await_progress(20, limit):.1f} s")
    said = worker.finish(300)
    print(said)
    assert "errors=0" in said
    pair.umount()


@pytest.mark.parametrize("version", [pytest.param("3", marks=full), "4.2"])
def test_threads(pair: Pair, counters: Counters, version: str) -> None:
    """From 1 to 64 threads of nfsd and back under load, no operation and no connection is lost."""
    worker = _start(pair, version)
    try:
        for count in (1, 64, 2, 64, 1):
            pair.server.sh(f"echo {count} > {THREADS}", timeout=60)
            worker.await_progress(20, 100)
    finally:
        pair.server.sh(f"echo {pair.setup.threads} > {THREADS}")
    worker.await_progress(20, 100)
    print(f"{counters.connects()} connections")
    if OURS:
        assert counters.connects() == 1
    _finish(pair, worker)


@pytest.mark.parametrize(
    ("version", "times"), [pytest.param("3", 5, marks=full), pytest.param("4.2", 5, marks=full)]
)
def test_restarts(pair: Pair, version: str, times: int) -> None:
    """Nfsd stops under load, again and again, and its port is free at once each time."""
    worker = _start(pair, version)
    for _ in range(times):
        pair.restart_nfsd()
        worker.await_progress(5, 120)
    _finish(pair, worker)


@contextmanager
def _bound(pair: Pair, *listeners: tuple[str, str, int]) -> Iterator[None]:
    """Replaces nfsd's listeners by ones on single addresses inside the block."""
    pair.stop_nfsd()
    words = " ".join(f"{name} {host} {port}" for name, host, port in listeners)
    try:
        pair.server.sh(f"python3 /lab/listeners.py {words} && echo 8 > {THREADS}", timeout=60)
        yield
    finally:
        pair.server.run("rpc.nfsd 0", timeout=120)
        pair.start_nfsd()


TCP = ("tcp", "0.0.0.0", 2049)


@full
def test_bound_listeners(pair: Pair) -> None:
    """Listeners on single addresses serve these addresses alone, over IPv4 and IPv6."""
    pair.server.sh("rm -rf /srv/export/*")
    other = f"mount -t nfs -o vers=4.2,proto=rdma6,port=20049,retry=0 server6:/export {MOUNT_POINT}"
    with _bound(pair, TCP, ("rdma", SERVER_ADDRESS, 20049)):
        pair.mount("4.2")
        pair.client.sh(COPY)
        pair.umount()
        assert pair.client.run(other, timeout=120).status
    with _bound(pair, TCP, ("rdma", "fd00::1", 20049), ("rdma", SERVER_ADDRESS, 20050)):
        pair.mount("4.2", proto="rdma6")
        pair.client.sh(COPY)
        pair.umount()
        port = f"vers=4.2,proto=rdma,port=20050,retry=0 server:/export {MOUNT_POINT}"
        pair.client.sh(f"mount -t nfs -o {port}", timeout=120)
        pair.client.sh(COPY)
        pair.umount()
    pair.mount("4.2")
    pair.umount()


@full
def test_listener_in_use(pair: Pair) -> None:
    """A listener is added under load; its mount works beside the first one."""
    worker = _start(pair, "4.2")
    pair.server.sh("echo 'rdma 20052' > /proc/fs/nfsd/portlist", timeout=60)
    assert "rdma 20052" in pair.server.read("/proc/fs/nfsd/portlist")
    where = "/mnt/other"
    words = f"vers=3,proto=rdma,port=20052,nosharecache server:/export {where}"
    pair.client.sh(f"mkdir -p {where}; mount -t nfs -o {words}", timeout=120)
    pair.client.sh(f"echo there > {where}/other && sync {where}/other")
    assert pair.server.read("/srv/export/other") == "there\n"
    pair.umount(where)
    # Listeners go with the threads alone.
    pair.restart_nfsd()
    worker.await_progress(5, 120)
    assert "20052" not in pair.server.read("/proc/fs/nfsd/portlist")
    _finish(pair, worker)


def test_transports(pair: Pair) -> None:
    """The lists of transports and ports show the server as the stock module's users know it."""
    assert "rdma 4194304" in pair.server.read("/proc/sys/sunrpc/transports")
    ports = pair.server.read("/proc/fs/nfsd/portlist").splitlines()
    assert ports.count("rdma 20049") == 2
    again = pair.server.run("echo 'rdma 20049' > /proc/fs/nfsd/portlist")
    assert again.status
    assert pair.server.read("/proc/fs/nfsd/portlist").splitlines() == ports


def _without_device(pair: Pair, worker: Worker, pause: float) -> None:
    """Removes the server's device for some seconds, and checks how long that takes."""
    kind = pair.setup.link
    began = float(pair.server.sh("date +%s.%N"))
    pair.server.sh(f"rdma link del {kind}0", timeout=120)
    removing = float(pair.server.sh("date +%s.%N")) - began
    time.sleep(pause)
    pair.server.sh(f"rdma link add {kind}0 type {kind} netdev eth0")
    returning = worker.await_progress(5, RETURNING if OURS else 300)
    print(f"removed in {removing:.1f} s; at work {returning:.1f} s after the return")
    if OURS:
        assert removing < REMOVING * pair.patience


@full
@pytest.mark.by_the_clock
@pytest.mark.parametrize("version", ["3", "4.2"])
def test_removal(pair: Pair, version: str) -> None:
    """The server's device is removed under load and returns, twice; a wildcard listens again."""
    worker = _start(pair, version)
    for _ in range(2):
        _without_device(pair, worker, 2)
        worker.await_progress(20, 100)
    _finish(pair, worker)


# With the stock module the removal waits until nfsd stops.
@full
@pytest.mark.by_the_clock
@pytest.mark.needs_our_server
def test_removal_below_a_bound_listener(pair: Pair) -> None:
    """A listener on one address releases its device, and listens again when the device is back."""
    with _bound(pair, TCP, ("rdma", SERVER_ADDRESS, 20049)):
        worker = _start(pair, "4.2")
        for _ in range(2):
            _without_device(pair, worker, 2)
        _finish(pair, worker)


@full
@pytest.mark.by_the_clock
@pytest.mark.needs_our_server
def test_stop_without_device(pair: Pair) -> None:
    """Nfsd stops and starts while the server has no device; the mount continues when it has one."""
    kind = pair.setup.link
    worker = _start(pair, "3")
    pair.server.sh(f"rdma link del {kind}0", timeout=120)
    try:
        pair.restart_nfsd()
    finally:
        pair.server.sh(f"rdma link add {kind}0 type {kind} netdev eth0")
    print(f"at work after {worker.await_progress(5, RETURNING):.1f} s")
    _finish(pair, worker)


def test_module_in_use(pair: Pair) -> None:
    """Rmmod refuses the module while nfsd listens, and succeeds afterwards."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount("4.2")
    pair.client.sh(COPY)
    refused = pair.server.run("rmmod rpcrdma")
    assert refused.status
    assert b"in use" in refused.stderr
    pair.client.sh(COPY)
    pair.umount()
    pair.stop_nfsd()
    pair.unload_server()
    assert "rdma" not in pair.server.read("/proc/sys/sunrpc/transports")
    pair.load_server()
    pair.start_nfsd()
    pair.mount("3")
    pair.client.sh(COPY)
    pair.umount()


#: A cycle takes ten times as long on the debug kernel, which finds leaks by kmemleak.
FEW, MANY = (3, 10) if DEBUG else (4, 40)


def _allowed(cycles: int) -> int:
    """Returns the kilobytes that this number of cycles may take: slabs, KASAN's quarantine."""
    return 6000 if DEBUG else 2000 + 60 * cycles


@full
@pytest.mark.parametrize("cycles", [FEW, MANY])
def test_reload(pair: Pair, cycles: int) -> None:
    """Cycles of insmod, nfsd, I/O and rmmod on the server lose none of its memory."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.stop_nfsd()
    pair.unload_server()
    free = []
    for cycle in range(cycles):
        pair.load_server()
        pair.start_nfsd()
        pair.mount("4.2" if cycle % 2 else "3")
        pair.client.sh(COPY)
        pair.umount()
        pair.stop_nfsd()
        pair.unload_server()
        free.append(free_kilobytes(pair.server))
    half = cycles // 2
    lost = free[-1 - half] - free[-1]
    print(f"{lost} kB lost in {half} cycles: {free}")
    pair.load_server()
    pair.start_nfsd()
    assert lost < _allowed(half)


@full
def test_client_vanishes(pair: Pair) -> None:
    """A client whose device is gone leaves no permanent cost on the server."""
    pair.server.sh("rm -rf /srv/export/*")
    kind = pair.setup.link
    before = connections(pair)
    pair.mount("3", options="nolock")
    pair.client.sh(COPY)
    pair.client.sh(f"rdma link del {kind}0", timeout=120)
    pair.client.sh(f"umount -f -l {MOUNT_POINT}", timeout=120)
    pair.client.sh(f"rdma link add {kind}0 type {kind} netdev eth0")
    pair.mount("3", options="nolock")
    pair.client.sh(COPY)
    assert settle(pair, before + 1, VANISHED) == before + 1
    pair.umount()


# The stock server keeps such a connection until it has aged.
@full
@pytest.mark.rxe_only
@pytest.mark.needs_our_server
def test_idle_client_vanishes(pair: Pair) -> None:
    """The server detects an idle client that vanished silently, and closes its connection."""
    forwarding = "/proc/sys/net/ipv4/ip_forward"
    pair.server.sh("rm -rf /srv/export/*")
    namespace.ensure(pair)
    before = connections(pair)
    pair.mount("3", options="nolock", namespace=namespace.NAME)
    pair.client.sh(COPY)
    assert connections(pair) == before + 1
    pair.client.sh(f"echo 0 > {forwarding}")
    try:
        began = time.monotonic()
        left = settle(pair, before, VANISHED)
        print(f"{left - before} connections after {time.monotonic() - began:.0f} s of silence")
    finally:
        pair.client.sh(f"echo 1 > {forwarding}")
    assert left == before
    pair.client.sh(COPY, timeout=120)
    pair.umount()


# The second mountd takes the registration of the first one from rpcbind, so the pair is its own.
# The server's two devices have queue pairs of the same numbers.
# With the stock module the namespace was still there after a minute.
@full
@pytest.mark.rxe_only
@pytest.mark.parametrize("pair", [Options(threads=4)], indirect=True)
def test_namespace(pair: Pair) -> None:
    """A second nfsd in a network namespace has listeners of its own, beside the first one."""
    pair.server.sh("rm -rf /srv/export/*")
    kind = pair.setup.link
    pair.server.sh(f"/lab/server-apart start {kind}", timeout=120)
    try:
        pair.client.sh("ip route replace 10.0.2.0/24 via 10.0.0.1")
        words = "proto=rdma,port=20049,vers=4.2 10.0.2.2:/export"
        pair.client.sh(
            f"mkdir -p {MOUNT_POINT}; mount -t nfs -o {words} {MOUNT_POINT}", timeout=120
        )
        pair.client.sh(COPY, timeout=120)
        pair.mount("4.2", at="/mnt/other", options="nosharecache")
        assert pair.client.sh("ls /mnt/other").split() == ["f"]
        pair.umount("/mnt/other")
        pair.umount()
    finally:
        pair.server.sh(f"/lab/server-apart stop {kind}", timeout=120)
    began = time.monotonic()
    while _namespace_exists(pair) and time.monotonic() < began + 60:
        time.sleep(0.5)
    print(f"the namespace is gone after {time.monotonic() - began:.1f} s")
    if OURS:
        assert not _namespace_exists(pair)


def _namespace_exists(pair: Pair) -> bool:
    """Whether something still refers to the namespace of server-apart, so that it has links."""
    return pair.server.run("ip link show beside").status == 0


def _restart_in_want(pair: Pair) -> None:
    """Restarts nfsd; without memory it may start without its listener, and says so."""
    pair.stop_nfsd()
    done = pair.server.run(f"rpc.nfsd {pair.setup.threads}; {LISTEN}")
    print(f"listen: {done.status} {done.stderr.decode().strip()}")


@pytest.mark.needs_our_server
@pytest.mark.debug_kernel
@pytest.mark.debug_only
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [KINDS[0], pytest.param(KINDS[1], marks=full)])
def test_failing_allocations(pair: Pair, kind: str) -> None:
    """The server serves and is connected to while one of its allocations in ten fails."""
    pair.starved = True
    worker = _start(pair, "3")
    with Failures(pair.server, kind, 10) as failures:
        time.sleep(30)
        # The client has to connect again in that time.
        _restart_in_want(pair)
        time.sleep(30)
    print(f"{failures.failed} allocations failed")
    assert failures.failed, "no allocation failed"
    pair.restart_nfsd()
    worker.await_progress(20, 200)
    _finish(pair, worker)
    kept = connections(pair)
    for _ in range(5):
        with Failures(pair.server, kind, 30):
            _restart_in_want(pair)
    pair.restart_nfsd()
    assert settle(pair, kept, 60) <= kept
    pair.mount("3")
    pair.client.sh(COPY, timeout=200)
    pair.umount()
