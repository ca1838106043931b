# SPDX-License-Identifier: GPL-2.0
"""Getting rid of a mount whose server is dead, and of the module after that."""

from __future__ import annotations

import time

import pytest

from lab import settings
from lab.harness import Options
from lab.pair import MOUNT_POINT, Pair

RELAYED = pytest.mark.parametrize("pair", [Options(relay=True)], indirect=True)
VERSIONS = pytest.mark.parametrize("version", ["3", "4.2"])
READ = f"dd if={MOUNT_POINT}/f of=/dev/null bs=4k count=1 iflag=direct"
#: Seconds in which SUNRPC must have let go of a transport whose server does not answer. An attempt
#: to connect over siw ends when TCP's does, after more than two minutes.
LET_GO = 120.0 if settings.link() == "rxe" else 300.0


def _dead_server(pair: Pair, version: str) -> int:
    """Mount, and let a reader wait for a server that has just died; the reader."""
    pair.server.sh("rm -rf /srv/export/*; head -c 65536 /dev/urandom > /srv/export/f")
    # NFSv4 says good-bye to a server, and is as patient with it as with any other call.
    options = "timeo=50,retrans=1" + (",nolock" if version == "3" else "")
    pair.mount(version, options=options)
    pair.client.sh(READ)
    assert pair.relay is not None
    pair.relay.set("blackout", 1)
    reader = pair.client.vm.start(READ)
    time.sleep(3)
    assert pair.client.vm.agent.poll(reader) is None
    return reader


def _let_go(pair: Pair) -> None:
    """The module can be unloaded in the end."""
    began = time.monotonic()
    pair.unload(LET_GO)
    print(f"unloaded after {time.monotonic() - began:.1f} s")
    assert pair.relay is not None
    pair.relay.set("blackout", 0)
    pair.load()
    pair.mount("3")
    pair.client.sh(READ)
    pair.umount()


@pytest.mark.full
@RELAYED
@VERSIONS
def test_forced(pair: Pair, version: str) -> None:
    """`umount -f` ends what waits for the server, with an error."""
    reader = _dead_server(pair, version)
    began = time.monotonic()
    # The first ends the calls under way, but finds the mount in use by the reader.
    pair.client.run(f"umount -f {MOUNT_POINT}", timeout=60)
    done = pair.client.vm.agent.wait(reader, 30)
    # Which error is SUNRPC's affair.
    assert done.status not in (0, 124, 137), done.stderr.decode()
    pair.client.run(f"umount -f {MOUNT_POINT}", timeout=60)
    print(f"forced in {time.monotonic() - began:.1f} s")
    assert pair.client.run(f"mountpoint -q {MOUNT_POINT}", timeout=20).status != 0
    _let_go(pair)


@pytest.mark.full
@RELAYED
@VERSIONS
def test_lazy(pair: Pair, version: str) -> None:
    """`umount -l` returns at once; the transport goes with its last user.

    That is with NFSv4 who closes the file, which a hard mount never gives up: with either module it
    takes the server's return.
    """
    reader = _dead_server(pair, version)
    began = time.monotonic()
    pair.client.sh(f"umount -l {MOUNT_POINT}", timeout=20)
    assert time.monotonic() - began < 10
    assert pair.client.vm.agent.poll(reader) is None, "the reader has an open file still"
    # Killing is the way to end a call of a hard mount.
    pair.client.sh("pkill -9 -x dd")
    done = pair.client.vm.agent.wait(reader, 30)
    assert done.status != 0
    if version == "4.2":
        time.sleep(10)
        assert pair.client.run("rmmod rpcrdma").status, "nobody had a file to close"
        assert pair.relay is not None
        pair.relay.set("blackout", 0)
    _let_go(pair)
