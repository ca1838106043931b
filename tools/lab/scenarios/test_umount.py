# SPDX-License-Identifier: GPL-2.0
"""Unmounting when the server or the device is gone, and unloading the module after that."""

from __future__ import annotations

import time

import pytest

from lab import settings
from lab.pair import MOUNT_POINT, Pair
from lab.relay import Relay

VERSIONS = pytest.mark.parametrize("version", ["3", "4.2"])
READ = f"dd if={MOUNT_POINT}/f of=/dev/null bs=4k count=1 iflag=direct"
#: Seconds within which SUNRPC must release a transport whose server does not answer. An attempt to
#: connect over siw ends when TCP times out, after more than two minutes.
LET_GO = 120.0 if settings.link() == "rxe" else 300.0


def _dead_server(pair: Pair, relay: Relay, version: str) -> int:
    """Mounts, starts a reader, and cuts the link; returns the process of the reader."""
    pair.server.sh("rm -rf /srv/export/*; head -c 65536 /dev/urandom > /srv/export/f")
    # The client of NFSv4 destroys its session, and waits for that call like for any other.
    options = "timeo=50,retrans=1" + (",nolock" if version == "3" else "")
    pair.mount(version, options=options)
    pair.client.sh(READ)
    relay.set("blackout", 1)
    reader = pair.client.vm.start(READ)
    time.sleep(3)
    assert pair.client.vm.agent.poll(reader) is None
    return reader


def _unload_and_mount_again(pair: Pair, relay: Relay) -> None:
    """Unloads the module, restores the link, and mounts again."""
    began = time.monotonic()
    pair.unload(LET_GO)
    print(f"unloaded after {time.monotonic() - began:.1f} s")
    relay.set("blackout", 0)
    pair.load()
    pair.mount("3")
    pair.client.sh(READ)
    pair.umount()


@pytest.mark.both_roles
@pytest.mark.full
@VERSIONS
def test_forced(pair: Pair, relay: Relay, version: str) -> None:
    """`umount -f` ends the calls that wait for the server, with an error."""
    reader = _dead_server(pair, relay, version)
    began = time.monotonic()
    # The first umount ends the calls in flight, but the reader still uses the mount.
    pair.client.run(f"umount -f {MOUNT_POINT}", timeout=60)
    done = pair.client.vm.agent.wait(reader, 30)
    # SUNRPC chooses the error.
    assert done.status not in (0, 124, 137), done.stderr.decode()
    pair.client.run(f"umount -f {MOUNT_POINT}", timeout=60)
    print(f"forced in {time.monotonic() - began:.1f} s")
    assert pair.client.run(f"mountpoint -q {MOUNT_POINT}", timeout=20).status != 0
    _unload_and_mount_again(pair, relay)


@pytest.mark.full
@VERSIONS
def test_lazy(pair: Pair, relay: Relay, version: str) -> None:
    """`umount -l` returns at once, and the transport is released with its last user.

    With NFSv4 the last user is the CLOSE of the file. A hard mount never aborts that call, with
    either module, so the transport is released only when the server answers again.
    """
    reader = _dead_server(pair, relay, version)
    began = time.monotonic()
    pair.client.sh(f"umount -l {MOUNT_POINT}", timeout=20)
    assert time.monotonic() - began < 10
    assert pair.client.vm.agent.poll(reader) is None, "the reader has ended"
    # Only a signal ends a call of a hard mount.
    pair.client.sh("pkill -9 -x dd")
    done = pair.client.vm.agent.wait(reader, 30)
    assert done.status != 0
    if version == "4.2":
        time.sleep(10)
        assert pair.client.run("rmmod rpcrdma").status, "no file was left to close"
        relay.set("blackout", 0)
    _unload_and_mount_again(pair, relay)


#: Seconds after which a call over a mount with timeo=50,retrans=1 has timed out: 5 s, twice.
MAJOR_TIMEOUT = 10.0
#: The calls with which NFSv4 ends its session at umount, each after the other.
LAST_CALLS = {"3": 0, "4.2": 2}


@pytest.mark.full
@pytest.mark.by_the_clock
@VERSIONS
@pytest.mark.parametrize("gone", ["device", "server"])
def test_clean(pair: Pair, relay: Relay, version: str, gone: str) -> None:
    """`umount` of a mount without calls waits for the last calls of NFSv4 to time out."""
    kind = pair.setup.link
    pair.mount(version, options="timeo=50,retrans=1" + (",nolock" if version == "3" else ""))
    pair.client.sh(f"touch {MOUNT_POINT}/clean; sync")
    if gone == "device":
        pair.client.sh(f"rdma link del {kind}0", timeout=120)
    else:
        relay.set("blackout", 1)
    began = time.monotonic()
    pair.client.sh(f"umount {MOUNT_POINT}", timeout=300)
    took = time.monotonic() - began
    print(f"{version}, {gone} gone: umount took {took:.1f} s")
    relay.set("blackout", 0)
    if gone == "device":
        pair.client.sh(f"rdma link add {kind}0 type {kind} netdev eth0")
    assert took < LAST_CALLS[version] * MAJOR_TIMEOUT + 5 * pair.patience
    pair.mount("3")
    pair.umount()
