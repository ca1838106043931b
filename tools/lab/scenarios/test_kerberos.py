# SPDX-License-Identifier: GPL-2.0
"""Kerberos, with a key distribution centre on the server.

With krb5 data travels in chunks. With krb5i and krb5p data is part of the signed or encrypted
body, so no data chunk may appear on the cable: a call that exceeds the inline threshold travels in
a position-zero Read chunk, and such a reply in a Reply chunk.
"""

from __future__ import annotations

import re

import pytest

from lab import capture, realm, settings, tracing, wirecheck
from lab.fixtures import Cable
from lab.pair import CLIENT_ADDRESS, MOUNT_POINT, Pair

VERIFY = "python3 /lab/verify.py"
LIMIT = 400
CASES = [
    ("3", "krb5p"),
    pytest.param("4.2", "krb5", marks=pytest.mark.full),
    pytest.param("4.2", "krb5i", marks=pytest.mark.full),
    pytest.param("4.2", "krb5p", marks=pytest.mark.full),
    pytest.param("3", "krb5", marks=pytest.mark.full),
    pytest.param("3", "krb5i", marks=pytest.mark.full),
]


def _data_chunks(summary: wirecheck.Summary) -> tuple[int, int]:
    """Returns the numbers of Read chunks inside a message and of Write chunks."""
    return summary.read_chunks - summary.position_zero, summary.write_chunks


def _suites(version: str, flavour: str) -> tuple[str, str]:
    # NFSv4.2 with krb5p cannot make a symbolic link of 4,000 bytes (EIO), over any transport.
    return ("sizes", "many") if (version, flavour) == ("4.2", "krb5p") else ("sizes", "names")


# The scenario checks the packets itself: the dissector calls some bodies malformed.
@pytest.mark.breaks_rules
@pytest.mark.server
@pytest.mark.parametrize("pair", [realm.OPTIONS], indirect=True)
@pytest.mark.parametrize(("version", "flavour"), CASES)
def test_both_ways(pair: Pair, cable: Cable, version: str, flavour: str) -> None:
    """Files and names arrive byte for byte, with the chunks that the flavour permits."""
    pair.server.sh("rm -rf /srv/export/*")
    realm.join(pair)
    with cable.recording() as pcap:
        pair.mount(version, options=f"sec={flavour}")
        assert f"sec={flavour}" in pair.client.sh(f"findmnt -no OPTIONS {MOUNT_POINT}")
        for suite in _suites(version, flavour):
            pair.client.sh(f"{VERIFY} write {suite} {MOUNT_POINT}/{suite}", timeout=LIMIT)
            pair.server.sh(f"{VERIFY} check {suite} /srv/export/{suite}", timeout=LIMIT)
            pair.client.sh("echo 3 > /proc/sys/vm/drop_caches")
            pair.client.sh(f"{VERIFY} check {suite} {MOUNT_POINT}/{suite}", timeout=LIMIT)
        pair.umount()
    if settings.link() == "rxe":
        _check_chunks(wirecheck.check(capture.read(pcap), CLIENT_ADDRESS), flavour)


def _check_chunks(summary: wirecheck.Summary, flavour: str) -> None:
    reads, writes = _data_chunks(summary)
    print(f"{reads} Read and {writes} Write chunks of data in {summary.calls} calls")
    print(f"{summary.position_zero} at position zero, {summary.reply_chunks} Reply chunks")
    # The dissector calls a body that it cannot decrypt malformed.
    assert [text for text in summary.violations if "malformed" not in text] == []
    if flavour == "krb5":
        assert reads > 0
        assert writes > 0
    else:
        assert (reads, writes) == (0, 0)
        assert summary.position_zero > 0
        assert summary.reply_chunks > 0


#: More writers than the first memory regions suffice for: a call under krb5i takes three.
WRITERS = 40


# The debug kernel signs a dozen messages a second.
@pytest.mark.both_roles
@pytest.mark.full
@pytest.mark.plain_only
@pytest.mark.parametrize("pair", [realm.OPTIONS], indirect=True)
def test_many_writers(pair: Pair) -> None:
    """Many calls that need several memory regions each all end, across a restart of the server."""
    pair.server.sh("rm -rf /srv/export/*")
    realm.join(pair)
    pair.mount("3", options="sec=krb5i")
    write = f"dd if=/dev/urandom of={MOUNT_POINT}/f$i bs=64k count=24 oflag=direct 2>/run/dd$i"
    writing = pair.client.vm.start(f"for i in $(seq {WRITERS}); do {write} & done; wait")
    pair.client.sh(f"while [ ! -e {MOUNT_POINT}/f{WRITERS} ]; do sleep 0.2; done", timeout=100)
    pair.restart_nfsd(2)
    pair.client.vm.agent.wait(writing, 300)
    sizes = pair.server.sh("stat -c %s /srv/export/*").split()
    assert sizes == [str(24 * 65536)] * WRITERS, sizes
    pair.client.sh("echo 3 > /proc/sys/vm/drop_caches")
    here = pair.client.sh(f"cd {MOUNT_POINT} && sha256sum *", timeout=300)
    assert here == pair.server.sh("cd /srv/export && sha256sum *", timeout=300)
    pair.umount()


EVENTS = (
    "kmem:mm_page_alloc",
    "kmem:mm_page_free",
    "rpcgss:rpcgss_seqno",
    "rpcrdma:xprtrdma_mr_map",
    "rpcrdma:xprtrdma_mr_unmap",
)
#: A program that opens its file before the server is made slow.
TWO_WRITES = f"""
import os, time
fd = os.open("{MOUNT_POINT}/f", os.O_RDWR | os.O_CREAT)
for byte in b"a", b"b":
    os.pwrite(fd, byte * 65536, 0)
    os.fsync(fd)
    os.mkdir("/run/" + byte.decode())
    while not os.path.exists("/run/go"):
        time.sleep(0.1)
"""


@pytest.mark.full
@pytest.mark.needs_ours
@pytest.mark.parametrize("pair", [realm.OPTIONS], indirect=True)
def test_encoded_anew(pair: Pair) -> None:
    """The pages of a WRITE that is encrypted again are freed when the server cannot read them."""
    pair.server.sh("rm -rf /srv/export/*")
    realm.join(pair)
    pair.mount("3", options="sec=krb5p,nolock,timeo=30")
    pair.client.write("/run/two-writes.py", TWO_WRITES.encode())
    writing = pair.client.vm.start("python3 /run/two-writes.py")
    pair.client.sh("while [ ! -e /run/a ]; do sleep 0.2; done", timeout=60)
    with tracing.recording(pair.client, EVENTS) as trace:
        # nfsd has to ask mountd about the export.
        pair.server.sh("pkill -STOP mountd && exportfs -f")
        try:
            pair.client.sh("touch /run/go; sleep 8; [ ! -e /run/b ]")
        finally:
            pair.server.sh("pkill -CONT mountd")
        assert pair.client.vm.agent.wait(writing, 100).status == 0
        events = trace.events()
    assert sum(event.name == "rpcgss_seqno" for event in events) >= 2, (
        "the client encoded the call only once"
    )
    freed, early = _fate(events)
    print(f"{freed} pages freed, {early} of them while mapped")
    assert freed > 16
    assert early == 0
    assert pair.server.sh("fold -w 1024 /srv/export/f | sort -u").strip() == "b" * 1024
    pair.umount()


def _fate(events: list[tracing.Event]) -> tuple[int, int]:
    """Counts freed pages of the first encoding, and those among them freed with regions mapped.

    These pages are the ones that the encoding thread allocates between the choice of a sequence
    number and the first mapping of a region.
    """
    rest = iter(events)
    first = next(event for event in rest if event.name == "rpcgss_seqno")
    pages = set()
    for event in rest:
        if event.name == "xprtrdma_mr_map":
            break
        if event.name == "mm_page_alloc" and event.thread == first.thread:
            pages |= _page(event)
    freed = early = 0
    mapped = 1
    for event in rest:
        mapped += {"xprtrdma_mr_map": 1, "xprtrdma_mr_unmap": -1}.get(event.name, 0)
        if event.name == "mm_page_free" and pages & _page(event):
            pages -= _page(event)
            freed, early = freed + 1, early + (mapped > 0)
    return freed, early


def _page(event: tracing.Event) -> set[str]:
    return set(re.findall(r"pfn=(\w+)", event.text))
