# SPDX-License-Identifier: GPL-2.0
"""The client with a server of RFC 5666: guest/oldserver.py takes nfsd's port.

That server sends no private data, returns a few bytes of data inline though there is a write chunk
for them, includes the XDR round-up in the lengths of those that it fills, and answers the
Connection Configuration Protocol in every way. Real files travel through it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab import hostile, settings, tracing
from lab.fixtures import Tunables
from lab.pair import MOUNT_POINT, Guest, Pair

pytestmark = [
    pytest.mark.needs_ours,
    pytest.mark.needs_legacy,
    pytest.mark.breaks_rules,
    pytest.mark.rxe_only,
]
STOP = "/run/oldserver.stop"
EVENTS = [
    f"rpcrdma:xprtrdma_{what}" for what in ("conf_answer", "padded_call", "pull_reply", "done_sent")
]
#: Replies that the server exposes at the same time.
EXPOSED = 8
#: How a reply with read chunks may break a rule: see oldserver.py.
MISDEEDS = (
    *("longer", "key", "endless", "wrapping", "odd", "beyond", "zero", "empty", "many"),
    "twice",
)
#: Answers to CONF_RDMA that make a connection useless: see oldserver.py.
UNUSABLE = ("512,4,16", "0,0,0", "deaf")
ANSWERS = ("odd", *(pytest.param(answer, marks=pytest.mark.full) for answer in UNUSABLE))
#: Lengths of files: inline, at thresholds, and in chunks, with and without round-up.
SIZES = (0, 1, 513, 700, 1025, 3001, 4096, 65539)
if settings.full():
    SIZES = (*SIZES, 511, 512, 1023, 2047, 4097, 9001)
WORK = f"""
set -e; cd {MOUNT_POINT}; rm -rf old; mkdir old; cd old
for n in {" ".join(map(str, SIZES))}; do
    head -c $n /dev/urandom > /tmp/f; cp /tmp/f $n; sync $n; echo 3 > /proc/sys/vm/drop_caches
    cmp /tmp/f $n
    [ $n = 0 ] || [ "$(dd if=$n bs=$n iflag=direct 2>/dev/null | md5sum)" = "$(md5sum < /tmp/f)" ]
done
ln -s $(head -c 900 /dev/zero | tr '\\0' x) link; for i in $(seq 40); do : > a_long_name_$i; done
echo 3 > /proc/sys/vm/drop_caches; [ $(readlink link | wc -c) = 901 ]
[ $(ls | wc -l) = {len(SIZES) + 41} ]
"""
MOUNT = f"mount -t nfs -o vers=3,nolock,proto=rdma,port=20049,retry=0 server:/export {MOUNT_POINT}"


class Old:
    """The output and the counts of the old server."""

    def __init__(self) -> None:
        """Starts without observations."""
        self.text = ""

    def count(self, name: str) -> int:
        """Returns how often something has happened."""
        lines = (line.split(" ", 2) for line in self.text.splitlines())
        return sum(int(line[1]) for line in lines if line[0] == "count" and line[2] == name)


@contextmanager
def _old_server(pair: Pair, conf: str) -> Iterator[Old]:
    """Puts the old server in nfsd's place."""
    pid, old = hostile.take_port(pair, conf, "3", program="oldserver.py"), Old()
    try:
        yield old
        pair.server.sh(f"touch {STOP}")
        old.text = hostile.finish(pair, pid, 30)
        print(old.text)
    finally:
        pair.server.run(
            f"touch {STOP}; kill {pid}; while pkill -KILL -x hostile; do sleep 0.1; done"
        )
        hostile.return_port(pair)


def _breaches(client: Guest) -> int:
    """Returns how many answers to CONF_RDMA the client has not accepted."""
    lines = client.read("/sys/kernel/debug/rpcrdma/breaches").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("conf "))


def _work(pair: Pair, conf: str) -> Old:
    """Mounts the old server, writes and reads files, and compares every byte."""
    with _old_server(pair, conf) as old:
        pair.client.sh(f"mkdir -p {MOUNT_POINT}; {MOUNT}", timeout=60)
        try:
            pair.client.sh(WORK, timeout=300)
        finally:
            pair.client.sh(f"cd /; umount {MOUNT_POINT}", timeout=60)
    return old


def _named(events: list[tracing.Event], name: str) -> int:
    """Returns the number of events of a name."""
    return sum(event.name == name for event in events)


@pytest.mark.full
def test_files(pair: Pair, tunables: Tunables) -> None:
    """Files travel through a server that is not asked, and their lengths may be rounded up."""
    tunables.set(rdma_conf=0)
    old = _work(pair, "4096,512,16")
    assert old.count("asked") == 0
    assert old.count("rounded up")
    assert old.count("write chunks")
    assert old.count("unused write chunks")
    assert old.count("read chunks")


@pytest.mark.full
def test_unknown_program(pair: Pair, tunables: Tunables) -> None:
    """A server without the program is treated as if it had not been asked."""
    tunables.set(rdma_conf=1, rdma_inline_write_padding=512)
    before = _breaches(pair.client)
    old = _work(pair, "none")
    assert old.count("read chunks")
    assert old.count("rounded up")
    assert not old.count("padded")
    assert _breaches(pair.client) == before


@pytest.mark.full
@pytest.mark.parametrize(
    ("conf", "padding", "padded"),
    [
        ("4096,512,16", 512, True),
        ("4096,1024,16", 4096, True),
        ("4096,1024,16", 512, False),
        ("4294967295,2147483648,4294967295", 4096, False),
        *((f"2048,{align},16", 4096, False) for align in (0, 3)),
        ("4096,512,16", 0, False),
    ],
)
def test_padding(pair: Pair, tunables: Tunables, conf: str, padding: int, padded: bool) -> None:
    """Calls are padded as the server has asked, and no more than the administrator allows."""
    tunables.set(rdma_conf=1, rdma_inline_write_padding=padding)
    with tracing.recording(pair.client, EVENTS) as trace:
        old = _work(pair, conf)
        seen = trace.events()
    assert "request 4096 4096 " in old.text
    assert old.count("asked") == old.count("connections")
    assert bool(old.count("padded")) == padded
    answers = [event.text for event in seen if event.name == "xprtrdma_conf_answer"]
    assert len(answers) == old.count("asked")
    assert all(" agreed " in answer for answer in answers)
    # A call may be lost with its connection.
    assert _named(seen, "xprtrdma_padded_call") >= old.count("padded")


@pytest.mark.full
def test_read_chunks(pair: Pair, tunables: Tunables) -> None:
    """The client reads replies that come as read chunks, and sends RDMA_DONE for each."""
    tunables.set(rdma_conf=0, rdma_read_chunks=1)
    with tracing.recording(pair.client, EVENTS) as trace:
        old = _work(pair, "none+chunks")
        seen = trace.events()
    assert old.count("data chunks")
    assert old.count("long replies")
    assert not old.count("odd done")
    # The connection may end before the last ones.
    owed = old.count("data chunks") + old.count("long replies") - old.count("done")
    assert 0 <= owed <= EXPOSED * old.count("connections")
    assert _named(seen, "xprtrdma_pull_reply") >= old.count("done")
    assert _named(seen, "xprtrdma_done_sent") >= old.count("done")


@pytest.mark.full
@pytest.mark.parametrize("misdeed", MISDEEDS)
def test_bad_read_chunks(pair: Pair, tunables: Tunables, misdeed: str) -> None:
    """A reply whose read chunks break a rule costs its RPC or the connection, and nothing else."""
    tunables.set(rdma_conf=0, rdma_read_chunks=1)
    with _old_server(pair, f"none+chunks+{misdeed}") as old:
        pair.client.sh(f"mkdir -p {MOUNT_POINT}")
        pair.client.run(f"timeout -s KILL 20 {MOUNT}", timeout=60)
        pair.client.run(f"mountpoint -q {MOUNT_POINT} || {MOUNT}", timeout=60)
        # The reply may be that to any call, of which one fails.
        pair.client.run(WORK, timeout=300)
        pair.client.sh(WORK, timeout=300)
        pair.client.sh(f"cd /; umount {MOUNT_POINT}", timeout=60)
    assert old.count("misdeeds") == 1


@pytest.mark.full
def test_no_reads(pair: Pair, tunables: Tunables) -> None:
    """A server without RDMA Reads gets calls that fit inline; others fail at once."""
    tunables.set(rdma_conf=1)
    with _old_server(pair, "4096,4,0") as old:
        pair.client.sh(f"mkdir -p {MOUNT_POINT}; {MOUNT}", timeout=60)
        name = f"{MOUNT_POINT}/no-reads"
        write = "dd if=/dev/zero of={} bs={} count=1 oflag=direct"
        pair.client.sh(write.format(name, 3000), timeout=60)
        assert pair.client.run(write.format(name, 9000), timeout=60).status
        pair.client.sh(f"cd /; umount {MOUNT_POINT}", timeout=60)
    assert not old.count("read chunks")
    assert not old.count("long calls")


@pytest.mark.parametrize("conf", ANSWERS)
def test_bad_answers(pair: Pair, tunables: Tunables, conf: str) -> None:
    """A connection whose server gives no valid answer is not used; a mount fails, and ends."""
    tunables.set(rdma_conf=1)
    before = _breaches(pair.client)
    with _old_server(pair, conf) as old:
        pair.client.sh(f"mkdir -p {MOUNT_POINT}")
        assert pair.client.run(f"timeout -s KILL 12 {MOUNT}", timeout=60).status
    assert old.count("asked") >= 1
    assert not old.count("inline")
    assert (_breaches(pair.client) > before) == (conf != "deaf")
    tunables.set(rdma_conf=0)
    pair.mount("3", options="nolock")
    pair.umount()
