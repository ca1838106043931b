# SPDX-License-Identifier: GPL-2.0
"""Files, names and attributes are compared byte for byte, in both directions.

Each suite of guest/verify.py is written on the client and checked on the
server's own file system, then written on the server and checked on the client
with nothing cached. Each suite must use the chunks that CHUNKS names, by the
transport's counters. Small operations, one for each form that a call or a reply
can have, prove these forms with each NFS version by trace events and packets.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab import capture, mountstats, settings, tracing, wirecheck
from lab.fixtures import Tunables
from lab.pair import CLIENT_ADDRESS, MOUNT_POINT, Pair

SUITES = ("sizes", "direct", "mmap", "append", "offsets", "names", "xattrs", "big")
VERIFY = "python3 /lab/verify.py"
DROP_CACHES = "sync; echo 3 > /proc/sys/vm/drop_caches"
VERSIONS = [
    pytest.param("3", marks=pytest.mark.full),
    pytest.param("4.2", marks=pytest.mark.debug_kernel),
]
#: Seconds; the debug kernel takes eight times as long as the plain one.
LIMIT = 400

#: The chunks that each suite must use, by their names in mountstats; `nomsg` counts calls with a
#: Read chunk at position zero.
DATA = ("read_chunks", "write_chunks")
CHUNKS = {
    **dict.fromkeys(("sizes", "direct", "mmap", "append", "offsets", "big"), DATA),
    "names": ("read_chunks", "reply_chunks"),
    "xattrs": ("reply_chunks", "nomsg"),
}

#: The suite of the short run, on both kernels: long READs and WRITEs of odd places and lengths.
#: Other scenarios of the short run write files of all sizes.
SHORT = ("4.2", "direct")


def _cases() -> list[object]:
    """Returns every suite with every version."""
    cases = []
    for version in ("3", "4.0", "4.1", "4.2"):
        for suite in SUITES:
            if suite == "xattrs" and version != "4.2":
                continue
            short = [pytest.mark.debug_kernel, pytest.mark.server_long]
            marks = short if (version, suite) == SHORT else [pytest.mark.full]
            if suite == "xattrs":
                marks.append(pytest.mark.needs_lists)
            cases.append(pytest.param(version, suite, marks=marks))
    return cases


@pytest.mark.export
@pytest.mark.both_roles
@pytest.mark.parametrize(("version", "suite"), _cases())
def test_both_ways(pair: Pair, version: str, suite: str) -> None:
    """Each side reads the data that the other wrote, and the suite uses its chunks."""
    pair.server.sh("rm -rf /srv/export/*", timeout=LIMIT)
    pair.mount(version)
    pair.client.sh(f"{VERIFY} write {suite} {MOUNT_POINT}/up", timeout=LIMIT)
    pair.client.sh(f"sync -f {MOUNT_POINT}/up", timeout=LIMIT)
    pair.server.sh(f"{VERIFY} check {suite} /srv/export/up", timeout=LIMIT)
    pair.client.sh(f"{DROP_CACHES}; {VERIFY} check {suite} {MOUNT_POINT}/up", timeout=LIMIT)
    pair.server.sh(f"{VERIFY} write {suite} /srv/export/down", timeout=LIMIT)
    pair.client.sh(f"{DROP_CACHES}; {VERIFY} check {suite} {MOUNT_POINT}/down", timeout=LIMIT)
    pair.client.sh(f"rm -r {MOUNT_POINT}/up", timeout=LIMIT)
    assert pair.server.sh("ls -A /srv/export").split() == ["down"]
    stats = mountstats.parse(pair.client.read("/proc/self/mountstats"), MOUNT_POINT)
    counts = {name: stats[name] for name in (*DATA, "reply_chunks", "nomsg")}
    print(counts)
    assert all(counts[name] for name in CHUNKS[suite]), f"{suite}: {counts}"
    pair.umount()


#: Operations in a directory of the mount, each with the form of its call and that of its reply as
#: the event xprtrdma_marshal prints them: regular expressions. An access control list is the only
#: argument without a user's data that is too long for an inline call with every version.
FORMS = {
    "inline": ("chmod 600 small", "(inline|pullup|mapped)/inline"),
    "Read chunk": (
        "dd if=/dev/zero of=data bs=65533 count=1 conv=notrunc oflag=direct",
        "read list/inline",
    ),
    "Write chunk": ("dd if=data of=/dev/null bs=64k iflag=direct", ".*/write list"),
    "Reply chunk": ("ls names | wc -l", ".*/reply chunk"),
    "position-zero Read chunk": (
        "python3 /lab/long_acl.py set small {version}",
        r"\*read list/(inline|reply chunk)",
    ),
}
#: The users that guest/long_acl.py names.
USERS = 330
PREPARE = """
rm -rf /srv/export/*; mkdir -p /srv/export/forms/names; cd /srv/export/forms
head -c 65536 /dev/urandom > data; touch small
for i in $(seq 200); do : > names/$i-$(printf %080d 0); done
"""


def _marshalled(pair: Pair, command: str) -> list[str]:
    """Runs a command in the directory; returns the forms of its calls and replies."""
    with tracing.recording(pair.client, ["rpcrdma:xprtrdma_marshal"]) as trace:
        pair.client.sh(f"cd {MOUNT_POINT}/forms && {command}")
        events = trace.events("xprtrdma_marshal")
    found = [re.search(r" xdr=\S+ (.*/.*)$", event.text) for event in events]
    return [match[1] for match in found if match]


@pytest.mark.dma
@pytest.mark.needs_lists
@pytest.mark.both_roles
@pytest.mark.parametrize(
    "version",
    [*(pytest.param(version, marks=pytest.mark.full) for version in ("3", "4.0", "4.1")), "4.2"],
)
def test_chunk_forms(pair: Pair, version: str, tmp_path: Path) -> None:
    """Each form of a call and of a reply is made: by the transport's event and on the cable."""
    pair.server.sh(PREPARE)
    pair.end_capture()
    pcap = tmp_path / "forms.pcap"
    pair.capture(pcap)
    pair.mount(version)
    for form, (command, wanted) in FORMS.items():
        made = _marshalled(pair, command.format(version=version))
        print(f"{form}: {made}")
        assert any(re.fullmatch(wanted, one) for one in made), f"no {form}: {made}"
    pair.umount()
    count = "python3 /lab/long_acl.py count /srv/export/forms/small"
    assert int(pair.server.sh(count)) == USERS
    if settings.link() != "rxe":
        return
    pair.end_capture()
    summary = wirecheck.check(capture.read(pcap), CLIENT_ADDRESS)
    pair.capture(tmp_path / "rest.pcap")
    _on_the_cable(summary)


def _on_the_cable(summary: wirecheck.Summary) -> None:
    """Checks that the packets hold each form, and RDMA Reads and Writes for the chunks."""
    assert summary.violations == []
    found = {
        "inline": summary.without_chunks,
        "Read chunk": summary.read_chunks - summary.position_zero,
        "Write chunk": summary.write_chunks,
        "Reply chunk": summary.long_replies,
        "position-zero Read chunk": summary.position_zero,
    }
    print(f"on the cable: {found}, {summary.reads} RDMA Reads, {summary.writes} RDMA Writes")
    assert found.keys() == FORMS.keys()
    assert all(found.values()), found
    # The stock client sends the round-up of 65,533 bytes in a segment of its own.
    if settings.client() == "ours":
        assert summary.round_ups == 0
    # An RDMA Read or more for each of the two calls with a Read chunk; the same for the replies.
    assert summary.reads >= 2
    assert summary.writes >= 2


@pytest.mark.export
@pytest.mark.both_roles
@pytest.mark.server_long
@pytest.mark.parametrize("version", VERSIONS)
def test_large_directory(pair: Pair, version: str) -> None:
    """The client lists a directory of 5,000 entries with names of up to 255 bytes."""
    pair.server.sh("rm -rf /srv/export/*", timeout=LIMIT)
    pair.server.sh(f"{VERIFY} write many /srv/export/many", timeout=LIMIT)
    pair.mount(version)
    pair.client.sh(f"{VERIFY} check many {MOUNT_POINT}/many", timeout=LIMIT)
    pair.umount()


@pytest.mark.full
@pytest.mark.both_roles
@pytest.mark.parametrize("version", VERSIONS)
def test_small_inline_thresholds(pair: Pair, tunables: Tunables, version: str) -> None:
    """Names and small files with 1 KiB inline thresholds: inline messages now need chunks."""
    pair.server.sh("rm -rf /srv/export/*", timeout=LIMIT)
    tunables.set_thresholds(1024)
    if settings.client() == "ours":
        # Version two has no smaller threshold than 4 KiB towards the client.
        tunables.set(rdma_version=1)
    pair.mount(version)
    for suite in ("sizes", "names"):
        pair.client.sh(f"{VERIFY} write {suite} {MOUNT_POINT}/{suite}", timeout=LIMIT)
        pair.client.sh(
            f"{DROP_CACHES}; {VERIFY} check {suite} {MOUNT_POINT}/{suite}", timeout=LIMIT
        )
        pair.server.sh(f"{VERIFY} check {suite} /srv/export/{suite}", timeout=LIMIT)
    _chunked(pair)
    pair.umount()


def _chunked(pair: Pair) -> None:
    """Checks that 2 KiB need a chunk each way, which they do not with the usual thresholds."""
    pair.client.sh(f"mkdir {MOUNT_POINT}/forms; head -c 2048 /dev/zero > {MOUNT_POINT}/forms/f")
    wrote = _marshalled(pair, "dd if=/dev/zero of=f bs=2k count=1 conv=notrunc oflag=direct")
    assert "read list/inline" in wrote, wrote
    read = _marshalled(pair, "dd if=f of=/dev/null bs=2k count=1 iflag=direct")
    assert any(form.endswith("/write list") for form in read), read
