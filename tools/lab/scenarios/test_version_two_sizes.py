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


#: READs of 4 and 8 KiB, COUNT of each, of a file that the client has not read before.
FILE = f"head -c {COUNT * 8192} /dev/urandom > /srv/export/$name"
SMALL = "; ".join(
    f"dd if={MOUNT_POINT}/$name of=/dev/null bs={size} count={COUNT} iflag=direct 2>&1"
    for size in (4096, 8192)
)


def _read_small(pair: Pair, counters: Counters, name: str) -> dict[str, int]:
    """Makes the client read a new file in small parts; returns the chunks."""
    pair.server.sh(f"name={name}; {FILE}")
    before = counters()
    pair.client.sh(f"name={name}; {SMALL}", timeout=120)
    moved = _moved(counters, before)
    print(f"chunks of READs of 4 and 8 KiB, {name}: {moved}")
    return moved


#: Opens a file, reads 4 KiB of it, and 4 KiB more when /run/go exists.
HELD = f"""
import mmap, os, time
page = mmap.mmap(-1, 4096)
file = os.open("{MOUNT_POINT}/first", os.O_RDONLY | os.O_DIRECT)
os.preadv(file, [page], 0)
open("/run/held", "w").close()
while not os.path.exists("/run/go"):
    time.sleep(0.1)
os.preadv(file, [page], 4096)
"""


def _read_first(pair: Pair) -> None:
    """Has the client make a new connection with a READ of 4 KiB as its first call."""
    pair.client.sh("rm -f /run/held /run/go")
    reader = pair.client.vm.start(f"python3 -c '{HELD}'")
    pair.client.sh("while [ ! -e /run/held ]; do sleep 0.1; done", timeout=60)
    pair.restart_nfsd()
    pair.client.sh("touch /run/go")
    assert pair.client.vm.agent.wait(reader, 100).status == 0


def test_first_calls(
    pair: Pair, tunables: Tunables, server_tunables: Tunables, cable: Cable, counters: Counters
) -> None:
    """Messages that fit inline are inline from the first call, also on the next connection.

    The sizes are known from private data, as in version one.
    """
    tunables.set_thresholds(16384)
    server_tunables.set(**{"svc_rdma/max_req_size": 16384})
    pair.server.sh("rm -rf /srv/export/*")
    with cable.recording() as pcap:
        pair.mount("3", options="nolock")
        assert _read_small(pair, counters, "first") == dict.fromkeys(CHUNKS, 0)
        _read_first(pair)
        assert _read_small(pair, counters, "again") == dict.fromkeys(CHUNKS, 0)
        assert counters()["write_chunks"] == 0
        assert counters.connects() == 2
        pair.umount()
    exchange = Exchange(pcap)
    assert exchange.summary.violations == []
    assert exchange.versions == {2}
    assert exchange.summary.writes == 0
    assert sum(message.size > 8192 for message in exchange.answers) >= 2 * COUNT
    *_, last = [one for one in exchange.sent if one.by_client]
    first = next(one for one in exchange.sent if one.by_client and one.queue == last.queue)
    answer = next(one for one in exchange.answers if one.xid == first.message.xid)
    assert (first.message.size <= 1024, answer.size > 4096) == (True, True)


#: The size on a connection at work where nobody has set a size.
AT_WORK = 8192
#: READs of 4 KiB, more than a connection has Receives, and WRITEs of 4 KiB. Four READs at a time: a
#: connection is at work only with enough messages between two looks, on a slow host as well.
READING = f"dd if={MOUNT_POINT}/busy of=/dev/null bs=4096 count=64 iflag=direct 2>&1"
BUSY = f"for n in 1 2 3 4; do {READING} & done; wait"
FEW = f"dd if=/dev/urandom of={MOUNT_POINT}/few bs=4096 count=8 oflag=direct 2>&1"


def _leave_to_settings(tunables: Tunables, server_tunables: Tunables) -> None:
    """Both sides use the sizes that are set, whatever a connection does."""
    tunables.set(rdma_inline_auto=0)
    server_tunables.set(**{"svc_rdma/inline_auto": 0})


def _busy(pair: Pair, counters: Counters) -> dict[str, int]:
    """Reads and writes parts of 4 KiB; returns the chunks."""
    before = counters()
    pair.client.sh(f"{BUSY}; {FEW}", timeout=120)
    return _moved(counters, before)


def _sizes(pair: Pair) -> set[tuple[str, str]]:
    """Returns the sizes of calls and replies that both sides show."""
    lines = [connections.read(guest)[0] for guest in (pair.client, pair.server)]
    return {(line["call_bytes"], line["reply_bytes"]) for line in lines}


def _work(pair: Pair, counters: Counters, seconds: float) -> set[tuple[str, str]]:
    """Keeps a connection at work for some seconds, and returns the sizes that it has then."""
    end = time.monotonic() + seconds * pair.setup.patience
    while time.monotonic() < end:
        _busy(pair, counters)
    return _sizes(pair)


@pytest.mark.full
def test_defaults(
    pair: Pair, tunables: Tunables, server_tunables: Tunables, cable: Cable, counters: Counters
) -> None:
    """Without a setting, READs and WRITEs of 4 KiB become inline on a connection at work.

    An idle connection keeps the default, and so does one of version one, or one that is told to.
    """
    pair.server.sh("head -c 1M /dev/urandom > /srv/export/busy; chmod 666 /srv/export/busy")
    default, larger = {("4096", "4096")}, {(f"{AT_WORK}", f"{AT_WORK}")}
    with cable.recording() as pcap:
        pair.mount("4.2")
        time.sleep(12)
        assert _sizes(pair) == default
        assert _busy(pair, counters)["write_chunks"] > 0
        deadline = time.monotonic() + 90 * pair.patience
        while _work(pair, counters, 5) != larger:
            assert time.monotonic() < deadline, _sizes(pair)
        # A request slot gets its longer buffer at a look after its first call.
        while (moved := _busy(pair, counters)) != dict.fromkeys(CHUNKS, 0):
            assert time.monotonic() < deadline, moved
        assert counters.connects() == 1
        pair.umount()
    exchange = Exchange(pcap)
    print(exchange.summary.operations)
    assert exchange.summary.violations == []
    assert exchange.versions == {2}
    assert {"INIT_XCHAR", "UPD_XCHAR"} <= set(exchange.summary.operations)
    tunables.set(rdma_version="1")
    pair.mount("4.2")
    assert _work(pair, counters, 25) == default
    pair.umount()
    tunables.set(rdma_version="auto")
    _leave_to_settings(tunables, server_tunables)
    pair.mount("4.2")
    assert _work(pair, counters, 25) == default
    pair.umount()


def _await_chunks(pair: Pair, counters: Counters, *, wanted: bool, limit: float = 60) -> None:
    """Waits until settings have reached a connection: its writes have chunks, or have none."""
    deadline = time.monotonic() + limit
    moved = None
    while moved is None or bool(moved["read_chunks"]) != wanted:
        assert time.monotonic() < deadline, f"chunks of the writes: {moved}"
        before = counters()
        pair.client.sh(f"{WRITES} 2>&1")
        moved = _moved(counters, before)


def _shown(pair: Pair, calls: int, replies: int) -> list[int]:
    """Waits until both sides show these sizes. Returns the numbers of their terms.

    The last to learn of a change may be either side, and a side looks every few seconds. Receives
    get larger buffers as they are used, so something has to be at work. A server goes on sending
    longer replies than the client counts on, if it ever did.
    """
    deadline = time.monotonic() + 60 * pair.patience
    while True:
        client, server = (connections.read(guest)[0] for guest in (pair.client, pair.server))
        shown = [client["call_bytes"], server["call_bytes"], client["reply_bytes"]]
        if shown == [str(calls), str(calls), str(replies)]:
            break
        assert time.monotonic() < deadline, (shown, calls, replies)
        time.sleep(0.5)
    assert int(server["reply_bytes"]) >= replies
    assert client["version"] == server["version"] == "2"
    return [int(line["terms"]) for line in (client, server)]


@pytest.mark.full
def test_changes(
    pair: Pair, tunables: Tunables, server_tunables: Tunables, cable: Cable, counters: Counters
) -> None:
    """Sizes that are set in mid-work grow and shrink on the same connection."""
    pair.server.sh(f"rm -rf /srv/export/*; {NAMES}")
    with cable.recording() as pcap:
        _leave_to_settings(tunables, server_tunables)
        pair.mount("4.2")
        first = _shown(pair, 4096, 4096)
        worker = Worker(pair, block=1024)
        server_tunables.set(**{"svc_rdma/max_req_size": 32768})
        tunables.set_thresholds(32768)
        _await_chunks(pair, counters, wanted=False)
        assert pair.client.sh(LIST).strip() == "60"
        larger = _shown(pair, 32768, 32768)
        assert _copy_inline(pair, counters)[1]["write_chunks"] == 0
        tunables.set_thresholds(2048)
        _await_chunks(pair, counters, wanted=True)
        small, _ = _copy_inline(pair, counters)
        smaller = _shown(pair, 2048, 4096)
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


#: The settings in the order in which they change: the client's replies and calls, and the server's
#: size of both.
CHANGES = [
    *(("server", 32768), ("replies", 32768), ("calls", 32768), ("calls", 2048)),
    *(("calls", 16384), ("server", 8192), ("replies", 6144), ("server", 65536)),
    *(("calls", 65536), ("replies", 65536)),
]


@pytest.mark.full
def test_ten_changes(
    pair: Pair, tunables: Tunables, server_tunables: Tunables, cable: Cable, counters: Counters
) -> None:
    """After each change the effective sizes are those that both sides have set."""
    pair.server.sh(f"rm -rf /srv/export/*; {NAMES}")
    _leave_to_settings(tunables, server_tunables)
    tunables.set_thresholds(4096)
    server_tunables.set(**{"svc_rdma/max_req_size": 4096})
    sizes = {"server": 4096, "replies": 4096, "calls": 4096}
    names = {"replies": "rdma_max_inline_read", "calls": "rdma_max_inline_write"}
    with cable.recording() as pcap:
        pair.mount("4.2")
        _shown(pair, 4096, 4096)
        worker = Worker(pair, block=1024)
        for name, size in CHANGES:
            sizes[name] = size
            if name == "server":
                server_tunables.set(**{"svc_rdma/max_req_size": size})
            else:
                tunables.set(**{names[name]: size})
            calls, replies = (min(sizes[which], sizes["server"]) for which in ("calls", "replies"))
            began = time.monotonic()
            _shown(pair, calls, replies)
            took = time.monotonic() - began
            print(f"{name} {size}: calls of {calls}, replies of {replies} after {took:.1f} s")
        written, read = _copy_inline(pair, counters)
        print(worker.finish())
        assert counters.connects() == 1
        pair.umount()
    assert (written["read_chunks"], read["write_chunks"]) == (0, 0)
    exchange = Exchange(pcap)
    print(exchange.summary.operations)
    assert exchange.summary.violations == []
    assert exchange.versions == {2}
