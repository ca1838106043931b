# SPDX-License-Identifier: GPL-2.0
"""The file `connections` of debugfs shows the connections of both roles correctly."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from itertools import pairwise

import pytest

from lab import connections
from lab.fixtures import Counters
from lab.nfsrdma import TOOL, install
from lab.pair import CLIENT_ADDRESS, MOUNT_POINT, SERVER_ADDRESS, Guest, Pair

pytestmark = pytest.mark.needs_ours


def _eventually(guest: Guest, count: int) -> list[dict[str, str]]:
    """Returns the lines when there are `count` of them."""
    deadline = time.monotonic() + 60
    while len(connections.read(guest)) != count and time.monotonic() < deadline:
        time.sleep(0.2)
    assert len(connections.read(guest)) == count
    return connections.read(guest)


def test_line_of_a_client(pair: Pair, counters: Counters) -> None:
    """A mount has a line whose numbers fit each other, until it is unmounted."""
    _eventually(pair.client, 0)
    pair.mount("4.2")
    pair.client.sh(f"ls {MOUNT_POINT}")
    (line,) = connections.read(pair.client)
    assert (line["role"], line["state"]) == ("client", "up")
    assert line["peer"] == f"{SERVER_ADDRESS}:20049"
    assert line["device"] == f"{pair.setup.link}0"
    assert (line["port"], line["connects"], line["lost"]) == ("1", "1", "none")
    assert line["call_bytes"] == line["reply_bytes"] == "4096"
    regions = [int(line[f"regions_{state}"]) for state in ("idle", "used", "unusable")]
    assert sum(regions) == int(line["regions"]) == counters()["allocated"]
    assert 0 < int(line["credits"]) <= int(line["credit_limit"]) == 128
    assert int(line["receives_posted"]) <= int(line["receives"])
    for field in ("in_use", "silent", "probes", "breaches"):
        assert line[field] == "0", field
    pair.umount()
    _eventually(pair.client, 0)


@pytest.mark.full
def test_calls_under_way_are_counted(pair: Pair) -> None:
    """While many WRITEs are in progress, a line shows calls with read chunks and their regions."""
    pair.mount("4.2")
    copy = f"dd if=/dev/zero of={MOUNT_POINT}/f$i bs=1M count=40 oflag=direct 2>/dev/null"
    look = f"for n in $(seq 40); do cat {connections.FILE}; done"
    text = pair.client.sh(f"for i in 1 2 3 4; do {copy} & done; sleep 0.2; {look}; wait")
    lines = connections.parse(text)
    busy = [line for line in lines if int(line["read"])]
    assert busy, "no look has found a WRITE under way"
    assert all(int(line["regions_used"]) > 0 for line in busy)
    assert all(int(line["in_use"]) <= int(line["credits"]) for line in lines)
    pair.umount()


def test_failed_attempts_and_the_last_loss(pair: Pair) -> None:
    """Without the server's listener, the line gives the reason and counts the attempts."""
    pair.mount("4.2")
    threads = pair.server.read("/proc/fs/nfsd/threads").strip()
    pair.server.sh("rpc.nfsd 0")
    try:
        pair.client.sh(f"(ls {MOUNT_POINT}/x || true) > /dev/null 2>&1 &")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and connections.read(pair.client)[0]["failures"] == "0":
            time.sleep(0.5)
        (line,) = connections.read(pair.client)
        assert (line["state"], line["lost"]) == ("down", "peer")
        assert int(line["failures"]) > 0
        # ECONNREFUSED
        assert line["error"] == "-111"
        assert "device" not in line
    finally:
        pair.server.sh(f"rpc.nfsd {threads} && echo 'rdma 20049' > /proc/fs/nfsd/portlist")
    pair.client.sh(f"ls {MOUNT_POINT}", timeout=60)
    (line,) = connections.read(pair.client)
    assert (line["state"], line["connects"], line["failures"]) == ("up", "2", "0")
    pair.umount()


#: Prints the line of a connection, between two readings of the clock, again and again.
LOOK = f"cat /proc/uptime {connections.FILE} /proc/uptime"
LOOKS = f"for n in $(seq 60); do echo $({LOOK}); sleep 0.25; done"


@dataclass(frozen=True)
class Look:
    """The fields of a connection, and the seconds before and after they were read."""

    before: float
    after: float
    line: dict[str, str]

    @property
    def next_attempt(self) -> int:
        """Returns the seconds until the next attempt, as the line has them."""
        return int(self.line["next_attempt_s"])


def _look(text: str) -> Look:
    before, _, *fields, after, _ = text.split()
    return Look(float(before), float(after), connections.parse(" ".join(fields))[0])


@pytest.mark.full
def test_pauses_between_attempts(pair: Pair) -> None:
    """While a server refuses, the line says for how long, and when the next attempt begins."""
    install(pair).mount("4.2")
    pair.stop_nfsd()
    try:
        pair.client.sh(f"(ls {MOUNT_POINT}/x || true) > /dev/null 2>&1 &")
        # The pauses grow with the time.
        time.sleep(15)
        looks = [_look(text) for text in pair.client.sh(LOOKS, timeout=120).splitlines()]
        # An attempt may be due at a look, so there are several.
        look = f"until {TOOL} list | grep ' next attempt in '; do :; done"
        told = pair.client.sh(look, timeout=90)
    finally:
        pair.start_nfsd()
    _check_pauses(looks, 2 * pair.patience)
    assert re.search(r" down, \d+ failed, next attempt in \d+ s ", told), told
    pair.client.sh(f"ls {MOUNT_POINT}", timeout=60)
    (line,) = connections.read(pair.client)
    assert (line["state"], line["failures"]) == ("up", "0")
    assert "failing_s" not in line
    assert "next_attempt_s" not in line
    pair.umount()


def _check_pauses(looks: list[Look], slack: float) -> None:
    """Checks the fields against the time, and against when the next attempt began."""
    begin, end = looks[0], looks[-1]
    grown = int(end.line["failing_s"]) - int(begin.line["failing_s"])
    assert end.before - begin.after - 1.1 <= grown <= end.after - begin.before + 1.1
    assert int(begin.line["failing_s"]) >= 10
    announced = [(look, _until_attempt(looks, place)) for place, look in enumerate(looks)]
    pauses = [(look.next_attempt, *took) for look, took in announced if took]
    print("next_attempt_s, and the least and most seconds until it began:", pauses)
    assert max(seconds for seconds, _, _ in pauses) > 1
    for seconds, least, most in pauses:
        assert least <= seconds + slack
        assert most >= seconds - 1.1


def _until_attempt(looks: list[Look], place: int) -> tuple[float, float] | None:
    """Returns the least and most seconds from a look to the attempt that its line announces.

    Nothing if it announces none, or no later look shows one more attempt in progress or failed. An
    attempt whose request is lost takes four seconds.
    """
    look = looks[place]
    if look.next_attempt <= 0:
        return None
    for earlier, later in pairwise(looks[place:]):
        if later.next_attempt == 0 or later.line["failures"] != look.line["failures"]:
            return round(earlier.before - look.after, 2), round(later.after - look.before, 2)
    return None


@pytest.mark.needs_our_server
@pytest.mark.server
def test_line_of_a_server(pair: Pair) -> None:
    """The server has a line for each connection, which ends with it."""
    pair.mount("4.2")
    pair.client.sh(f"ls {MOUNT_POINT}")
    (line,) = connections.read(pair.server)
    assert (line["role"], line["state"]) == ("server", "up")
    assert line["peer"].startswith(f"{CLIENT_ADDRESS}:")
    assert line["device"] == f"{pair.setup.link}0"
    (ours,) = connections.read(pair.client)
    for field in ("version", "call_bytes", "reply_bytes", "invalidation", "backward", "credits"):
        assert line[field] == ours[field], field
    pair.umount()
    _eventually(pair.server, 0)


#: A file system that can be frozen, in the export.
HOLD = """
set -e; head -c 16M /dev/zero > /run/disk; mkfs.ext4 -q /run/disk
rm -rf /srv/export/*; mkdir /srv/export/held /srv/export/d1 /srv/export/d2
mount "$(losetup --find --show /run/disk)" /srv/export/held; chmod 1777 /srv/export/held
exportfs -o rw,no_root_squash,insecure,async,no_subtree_check,fsid=2 '*:/srv/export/held'
for n in 1 2 3 4; do head -c 64k /dev/zero > /srv/export/f$n; done
"""
RELEASE = """
exportfs -u '*:/srv/export/held'; exportfs -f; umount /srv/export/held; losetup -D; rm -f /run/disk
rm -rf /srv/export/*
"""
#: Calls of each form, for files that are open and attributes that are known.
HELD = f"""
cd {MOUNT_POINT}; exec 3< f1 4< f2 5< f3
ls . d1 d2 held > /dev/null; stat . d1 d2 f1 f2 f3 f4 held > /dev/null
echo 1 > /proc/sys/vm/drop_caches; touch /run/ready
until [ -e /run/go ]; do sleep 0.1; done
touch held/stuck &
for n in $(seq 100); do grep -qw reply=1 {connections.FILE} && break; sleep 0.1; done
for n in 3 4 5; do dd of=/dev/null bs=64k count=1 iflag=direct <&$n & done
ls d1 & ls d2 &
for n in 1 2 3 4; do stat --cached=never f$n & done
wait
"""


@pytest.mark.full
@pytest.mark.needs_our_server
@pytest.mark.server
def test_calls_that_the_server_holds(pair: Pair) -> None:
    """Calls of each form are in flight while the only thread of nfsd is stuck.

    A WRITE with read chunks is never held for long: test_calls_under_way_are_counted has it.
    """
    pair.server.sh(HOLD)
    pair.mount("4.2")
    pair.client.sh(f"rm -f /run/ready /run/go; ls {MOUNT_POINT}/held > /dev/null")
    pair.server.sh("echo 1 > /proc/fs/nfsd/threads")
    calls = pair.client.vm.start(HELD)
    pair.client.sh("until [ -e /run/ready ]; do sleep 0.1; done")
    pair.server.sh("fsfreeze -f /srv/export/held")
    try:
        pair.client.sh("touch /run/go")
        client, server = _held(pair)
    finally:
        pair.server.sh("fsfreeze -u /srv/export/held")
        pair.server.sh(f"echo {pair.setup.threads} > /proc/fs/nfsd/threads")
    assert pair.client.vm.agent.wait(calls, 60).status == 0
    print(client, server)
    # 4 GETATTRs; a SEQUENCE that renews the lease may be there. The OPEN of touch(1) has a reply
    # chunk as the READDIRs have.
    assert int(client["inline"]) - 4 in (0, 1)
    assert (client["read"], client["write"], client["reply"]) == ("0", "3", "3")
    under_way = sum(int(client[form]) for form in ("inline", "write", "reply"))
    assert int(client["in_use"]) == under_way
    # The thread has one call. The others wait in the Receives in which they arrived.
    assert (server["in_use"], server["inline"], server["reply"]) == ("1", "1", "0")
    waiting = int(server["receives"]) - int(server["receives_posted"])
    assert waiting >= int(client["in_use"]) - 1
    _at_rest(pair)
    pair.umount()
    pair.server.sh(RELEASE)


def _held(pair: Pair) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the lines of client and server when the server holds as many calls as it gets."""
    deadline = time.monotonic() + 60
    while True:
        (client,) = connections.read(pair.client)
        held = client["write"] == client["reply"] == "3" and int(client["inline"]) >= 4
        if held or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    # The last of them may still be on its way.
    time.sleep(1)
    (server,) = connections.read(pair.server)
    return client, server


def _at_rest(pair: Pair) -> None:
    """Checks that nothing is in progress, and that each call that is allowed has its Receive."""
    for guest in (pair.client, pair.server):
        line = _without_calls(guest)
        # The last three RDMA Writes are not signalled.
        assert int(line["write"]) <= 3
        assert 0 < int(line["credits"]) <= int(line["receives_posted"]) <= int(line["receives"])
        (again,) = connections.read(guest)
        assert line["receives_posted"] == again["receives_posted"]


def _without_calls(guest: Guest) -> dict[str, str]:
    """Returns the line when no call is in progress. The last CLOSEs come after their processes."""
    fields = ("in_use", "inline", "read", "reply", "fencing")
    deadline = time.monotonic() + 20
    while True:
        (line,) = connections.read(guest)
        busy = [field for field in fields if int(line[field])]
        if not busy:
            return line
        assert time.monotonic() < deadline, (guest.name, busy)
        time.sleep(0.2)


@pytest.mark.full
def test_ages(pair: Pair) -> None:
    """The age of a line grows until it ends; the age of its connection begins again with each."""
    pair.mount("4.2")
    pair.client.sh(f"ls {MOUNT_POINT}; sleep 4")
    (early,) = connections.read(pair.client)
    pair.client.sh("sleep 3")
    (late,) = connections.read(pair.client)
    for field in ("age_s", "state_s"):
        assert int(late[field]) - int(early[field]) >= 3
    assert int(early["state_s"]) >= 4
    # The seconds that it took to connect.
    assert int(early["age_s"]) - int(early["state_s"]) in range(4)
    pair.restart_nfsd()
    pair.client.sh(f"ls {MOUNT_POINT}/x || true", timeout=60)
    (again,) = connections.read(pair.client)
    assert (again["state"], again["connects"]) == ("up", "2")
    assert int(again["age_s"]) >= int(late["age_s"])
    assert int(again["state_s"]) <= int(again["age_s"]) - int(late["age_s"]) + 1
    assert int(again["state_s"]) < int(late["state_s"])
    pair.umount()


DEEP = (
    f"fio --name=d --filename={MOUNT_POINT}/deep --size=4m --direct=1 --ioengine=libaio"
    " --rw=randread --bs=4k --iodepth=64 --io_size=8m"
)


@pytest.mark.full
@pytest.mark.needs_our_server
@pytest.mark.server
def test_grant_follows_use(pair: Pair) -> None:
    """A client that keeps 64 calls in flight is granted as many, and one at a time is not."""
    pair.server.sh("head -c 4M /dev/zero > /srv/export/deep; chmod 666 /srv/export/deep")
    pair.mount("4.2")
    pair.client.sh(f"for n in $(seq 100); do stat -f {MOUNT_POINT} > /dev/null; done", timeout=120)
    (line,) = connections.read(pair.server)
    assert line["credits"] == "16"
    pair.client.sh(DEEP, timeout=200)
    (line,) = connections.read(pair.server)
    assert int(line["credits"]) >= 64
    pair.umount()


@pytest.mark.full
def test_readers_disturb_nothing(pair: Pair) -> None:
    """Connections are made and closed while three readers never stop."""
    pair.mount("4.2")
    reader = f"while [ -e /tmp/read ]; do cat {connections.FILE}; done > /dev/null"
    readers = f"for n in 1 2 3; do {reader} & done"
    pair.client.sh(f"touch /tmp/read; ({readers}) > /dev/null 2>&1")
    try:
        for _ in range(5):
            pair.umount()
            pair.mount("4.2")
            pair.client.sh(f"ls {MOUNT_POINT}")
    finally:
        pair.client.sh("rm -f /tmp/read")
    pair.umount()
