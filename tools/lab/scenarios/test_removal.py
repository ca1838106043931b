# SPDX-License-Identifier: GPL-2.0
"""The RDMA device is removed under a mount in use, and returns."""

from __future__ import annotations

import time

import pytest

from lab import namespace, settings, tracing
from lab.pair import MOUNT_POINT, Pair
from lab.relay import Relay
from lab.worker import Worker

#: Seconds for the removal itself, and until the client works again once the device is back, both on
#: a quiet host. They are processor time, of which the debug kernel takes ten times as much.
REMOVING, RETURNING = (10.0, 10.0) if settings.flavour() == "plain" else (15.0, 60.0)


@pytest.mark.full
@pytest.mark.by_the_clock
@pytest.mark.parametrize("version", ["3", "4.2"])
def test_removal_and_return(pair: Pair, version: str) -> None:
    """A mount survives three seconds without its device, twice, and no operation fails."""
    kind = pair.setup.link
    ours = settings.client() == "ours"
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount(version)
    worker = Worker(pair)
    for _ in range(2):
        began = time.monotonic()
        pair.client.sh(f"rdma link del {kind}0", timeout=120)
        removing = time.monotonic() - began
        time.sleep(3)
        pair.client.sh(f"rdma link add {kind}0 type {kind} netdev eth0")
        returning = worker.await_progress(5, RETURNING if ours else 300)
        print(f"removed in {removing:.1f} s; at work {returning:.1f} s after the return")
        assert removing < REMOVING * pair.patience
        worker.await_progress(20, 100)
    said = worker.finish()
    print(said)
    assert "errors=0" in said
    pair.umount()


def test_umount_without_device(pair: Pair) -> None:
    """A mount whose device is gone can be unmounted by force, and the module unloaded."""
    kind = pair.setup.link
    pair.mount("3")
    pair.client.sh(f"rdma link del {kind}0", timeout=120)
    try:
        pair.client.sh("umount -f -l /mnt/nfs", timeout=120)
        pair.unload(60)
    finally:
        pair.client.sh(f"rdma link add {kind}0 type {kind} netdev eth0")
    pair.load()
    pair.mount("3")
    pair.umount()


# siw waits for the handshake of TCP before it returns, and nothing can interrupt that.
@pytest.mark.full
@pytest.mark.by_the_clock
@pytest.mark.needs_ours
@pytest.mark.rxe_only
def test_removal_amid_connecting(pair: Pair, relay: Relay) -> None:
    """An attempt to connect to a silent server does not delay the removal of the device."""
    kind = pair.setup.link
    pair.server.sh("rm -rf /srv/export/*; echo there > /srv/export/f")
    pair.mount("3")
    relay.set("blackout", 1)
    with tracing.recording(pair.client, ["rpcrdma:xprtrdma_conn_state"]) as trace:
        reader = pair.client.vm.start(f"cat {MOUNT_POINT}/f")
        deadline = time.monotonic() + 100
        while not any(e.text.endswith("-> connecting") for e in trace.events()):
            assert time.monotonic() < deadline, "the client did not try to connect"
            time.sleep(0.2)
        began = time.monotonic()
        pair.client.sh(f"rdma link del {kind}0", timeout=120)
        removing = time.monotonic() - began
        # On a busy host the client may have begun another attempt already.
        cut_off = [e.text for e in trace.events() if "device removal:" in e.text]
    print(f"removed in {removing:.1f} s; {cut_off}")
    assert removing < 5 * pair.patience
    assert any(text.endswith("device removal: connecting -> draining") for text in cut_off)
    relay.set("blackout", 0)
    pair.client.sh(f"rdma link add {kind}0 type {kind} netdev eth0")
    done = pair.client.vm.agent.wait(reader, 100)
    assert done.stdout == b"there\n", done.stderr.decode()
    pair.umount()


@pytest.mark.full
@pytest.mark.needs_ours
@pytest.mark.rxe_only
def test_removal_in_namespace(pair: Pair, relay: Relay) -> None:
    """A mount in a network namespace waits for its device, whichever transport a call gets.

    Such a mount takes ENETUNREACH as final. Most of these transports have never been connected.
    """
    pair.server.sh("rm -rf /srv/export/*")
    namespace.ensure(pair)
    pair.mount("3", options="nconnect=16,nolock", namespace=namespace.NAME)
    relay.set("blackout", 1)
    with tracing.recording(pair.client, ["rpcrdma:xprtrdma_conn_state"]) as trace:
        calls = [pair.client.vm.start(f"stat -f {MOUNT_POINT}") for _ in range(32)]
        deadline = time.monotonic() + 100
        while sum(e.text.endswith("-> connecting") for e in trace.events()) < 8:
            assert time.monotonic() < deadline, "fewer than eight attempts to connect"
            time.sleep(0.2)
        namespace.delete_device(pair)
        time.sleep(5)
        cut_off = [e for e in trace.events() if "device removal: connecting" in e.text]
    assert cut_off
    early = [done for call in calls if (done := pair.client.vm.agent.poll(call))]
    assert not early, early
    relay.set("blackout", 0)
    namespace.add_device(pair)
    for call in calls:
        done = pair.client.vm.agent.wait(call, 100)
        assert done.status == 0, done.stderr.decode()
    pair.umount()
