# SPDX-License-Identifier: GPL-2.0
"""Sizes of messages in version two, beyond the default and while a connection lives.

A call or reply that is short enough for the other's Receives needs no chunk. The captures show the
operations by which the peers agree on sizes; the check of all captures compares every message with
what was announced.
"""

from __future__ import annotations

import time

import pytest

from lab import connections, versions
from lab.fixtures import Cable, Counters, Tunables
from lab.pair import MOUNT_POINT, Pair
from lab.versions import Exchange
from lab.worker import Worker

pytestmark = [
    *(pytest.mark.server, pytest.mark.needs_ours, pytest.mark.needs_our_server),
    pytest.mark.rxe_only,
]

SIZE = 12288
COUNT = 8
CHUNKS = ("read_chunks", "write_chunks", "reply_chunks")
#: Calls and replies of SIZE bytes with data.
WRITES = f"dd if=/dev/urandom of={MOUNT_POINT}/inline bs={SIZE} count={COUNT} oflag=direct"
READS = f"dd if={MOUNT_POINT}/inline of=/tmp/inline bs={SIZE} count={COUNT} iflag=direct"
#: A directory whose list is longer than the default, so that its reply shows whether the server
#: has taken notice of the size of the client's Receives.
NAMES = "mkdir -p /srv/export/names; cd /srv/export/names; touch $(seq -f %0100.0f 60)"
LIST = f"ls {MOUNT_POINT}/names | wc -l"


def _moved(counters: Counters, before: dict[str, int]) -> dict[str, int]:
    after = counters()
    return {name: after[name] - before[name] for name in CHUNKS}


def _copy_inline(pair: Pair, counters: Counters) -> tuple[dict[str, int], dict[str, int]]:
    """Writes and reads with calls and replies of SIZE bytes; returns the chunks of both."""
    before = counters()
    pair.client.sh(f"{WRITES} 2>&1")
    written = _moved(counters, before)
    before = counters()
    pair.client.sh(f"{READS} 2>&1")
    read = _moved(counters, before)
    here = pair.client.sh("sha256sum < /tmp/inline")
    assert here == pair.server.sh("sha256sum < /srv/export/inline")
    print(f"chunks of the writes: {written}; of the reads: {read}")
    return written, read


def test_inline(
    pair: Pair, tunables: Tunables, server_tunables: Tunables, cable: Cable, counters: Counters
) -> None:
    """With thresholds of 16384 bytes on both sides, calls and replies of 12 KiB are inline."""
    tunables.set_thresholds(16384)
    server_tunables.set(**{"svc_rdma/max_req_size": 16384})
    pair.server.sh(NAMES)
    with cable.recording() as pcap:
        pair.mount("3", options="nolock")
        assert pair.client.sh(LIST).strip() == "60"
        written, read = _copy_inline(pair, counters)
        pair.umount()
    exchange = Exchange(pcap)
    assert exchange.summary.violations == []
    assert exchange.versions == {2}
    assert written["read_chunks"] == 0
    assert read["write_chunks"] == 0
    calls = [message for message in exchange.calls if message.size > SIZE]
    replies = [message for message in exchange.answers if message.size > SIZE]
    assert len(calls) >= COUNT
    assert len(replies) >= COUNT


def _await_chunks(pair: Pair, counters: Counters, *, wanted: bool, limit: float = 60) -> None:
    """Waits until settings have reached a connection: its writes have chunks, or have none."""
    deadline = time.monotonic() + limit
    moved = None
    while moved is None or bool(moved["read_chunks"]) != wanted:
        assert time.monotonic() < deadline, f"chunks of the writes: {moved}"
        before = counters()
        pair.client.sh(f"{WRITES} 2>&1")
        moved = _moved(counters, before)


def _await_inline_reads(pair: Pair, counters: Counters) -> None:
    """Waits until the server has shown by a long reply that it knows the client's larger Receives.

    The client announces them when it has replaced all of them. Only a list of names that is fetched
    after that is such a reply. The pages of the list are dropped before, so that it is fetched; the
    directory itself may stay in the cache.
    """
    deadline = time.monotonic() + 60 * pair.setup.patience
    while _copy_inline(pair, counters)[1]["write_chunks"]:
        assert time.monotonic() < deadline, "the reads still have chunks"
        pair.client.sh(f"echo 3 > /proc/sys/vm/drop_caches; {LIST}")


def _shown(pair: Pair, calls: int, replies: int) -> list[int]:
    """Checks the sizes that both sides show. Returns the numbers of their terms.

    The last to learn of a change may be either side, and a side looks every few seconds. A client
    learns from the longest reply alone that the server knows of larger Receives, and does not make
    Receives smaller on a connection.
    """
    deadline = time.monotonic() + 30 * pair.setup.patience
    while True:
        client, server = (connections.read(guest)[0] for guest in (pair.client, pair.server))
        sizes = [int(line["call_bytes"]) for line in (client, server)]
        if [*sizes, int(server["reply_bytes"])] == [calls, calls, replies]:
            break
        assert time.monotonic() < deadline, (sizes, server)
        time.sleep(0.5)
    assert int(client["reply_bytes"]) <= replies
    assert client["version"] == server["version"] == "2"
    return [int(line["terms"]) for line in (client, server)]


@pytest.mark.full
def test_changes(
    pair: Pair, tunables: Tunables, server_tunables: Tunables, cable: Cable, counters: Counters
) -> None:
    """Sizes that are set in mid-work grow and shrink on the same connection."""
    pair.server.sh(f"rm -rf /srv/export/*; {NAMES}")
    with cable.recording() as pcap:
        pair.mount("4.2")
        first = _shown(pair, 4096, 4096)
        worker = Worker(pair, block=1024)
        server_tunables.set(**{"svc_rdma/max_req_size": 32768})
        tunables.set_thresholds(32768)
        _await_chunks(pair, counters, wanted=False)
        assert pair.client.sh(LIST).strip() == "60"
        _await_inline_reads(pair, counters)
        larger = _shown(pair, 32768, 32768)
        tunables.set_thresholds(2048)
        _await_chunks(pair, counters, wanted=True)
        small, _ = _copy_inline(pair, counters)
        smaller = _shown(pair, 2048, 32768)
        print(worker.finish())
        assert counters.connects() == 1
        pair.umount()
    exchange = Exchange(pcap)
    print(exchange.summary.operations)
    assert exchange.summary.violations == []
    assert exchange.versions == {2}
    assert small["read_chunks"] >= COUNT
    assert {"INIT_XCHAR", "REQ_XCHAR", "RESP_XCHAR", "UPD_XCHAR"} <= set(
        exchange.summary.operations
    )
    assert versions.peers(pair.client) == []
    print(f"terms of client and server: {first}, {larger}, {smaller}")
    assert all(a < b < c for a, b, c in zip(first, larger, smaller, strict=True))
