# SPDX-License-Identifier: GPL-2.0
"""Mounts by RDMA and by TCP of one export at a time, on the same client and on two clients.

The second client is the server's own guest, which mounts its export over TCP.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from lab.harness import Options
from lab.pair import MOUNT_POINT, Guest, Pair
from lab.worker import Worker

pytestmark = [pytest.mark.server, pytest.mark.full, pytest.mark.any_link]

DISK = pytest.mark.parametrize("pair", [Options(disk=True)], indirect=True)
VERIFY, LOCKS, LIMIT = "python3 /lab/verify.py", "python3 /lab/locks.py", 400
TCP = "/mnt/tcp"
#: Versions of NFS over RDMA and over TCP, and whether one client has both mounts. It has no mounts
#: of the same version 4 over both: see `test_one_transport`.
PAIRS = [
    ("4.2", "3", True),
    ("3", "4.2", True),
    ("4.0", "4.2", True),
    ("4.2", "4.0", True),
    ("3", "3", False),
    ("4.0", "4.0", False),
    ("4.2", "4.2", False),
]


def _cases(*pairs: tuple[str, str, bool]) -> pytest.MarkDecorator:
    """Returns the parameters for these versions, with names such as ``4.2-3-same``."""
    ids = [f"{rdma}-{tcp}-{'same' if same else 'two'}" for rdma, tcp, same in pairs]
    return pytest.mark.parametrize(("rdma", "tcp", "same"), pairs, ids=ids)


@dataclass(frozen=True)
class Place:
    """A mount of the export."""

    guest: Guest
    at: str

    def locks(self, words: str, *, timeout: float = 60) -> str:
        """Runs guest/locks.py, whose file is in this mount; returns what it prints."""
        command, name, *rest = words.split()
        text = " ".join([LOCKS, command, f"{self.at}/{name}", *rest])
        return self.guest.sh(text, timeout=timeout).strip()


@contextmanager
def _mounted(pair: Pair, rdma: str, tcp: str, *, same: bool, options: str = "") -> Iterator[list]:
    """Mounts the empty export over RDMA, and over TCP on the same client or on another."""
    pair.server.sh("rm -rf /srv/export/*")
    guest = pair.client if same else pair.server
    source = "server:/export" if same else "127.0.0.1:/export"
    if "3" in (rdma, tcp):
        pair.server.sh("pgrep -x rpc.statd || rpc.statd")
    pair.mount(rdma, options=options)
    words = ",".join(filter(None, [f"vers={tcp},proto=tcp,nosharecache", options]))
    guest.sh(f"mkdir -p {TCP}; mount -t nfs -o {words} {source} {TCP}", timeout=LIMIT)
    found = guest.read("/proc/self/mountstats").partition(f" mounted on {TCP} ")[2]
    assert "xprt:\ttcp" in found.partition("\ndevice ")[0], f"{TCP} does not use TCP"
    assert "xprt:\trdma" in pair.client.read("/proc/self/mountstats"), "no mount uses RDMA"
    yield [Place(pair.client, MOUNT_POINT), Place(guest, TCP)]
    guest.sh(f"umount {TCP}", timeout=LIMIT)
    pair.umount()


@DISK
@_cases(*(each for each in PAIRS if each[2]))
def test_data(pair: Pair, rdma: str, tcp: str, same: bool) -> None:
    """Both mounts of a client see the same bytes, and work at a time."""
    with _mounted(pair, rdma, tcp, same=same) as places:
        workers = Worker(pair, "by-rdma"), Worker(pair, "by-tcp", at=TCP)
        for suite, (writer, reader) in zip(
            ("sizes", "offsets"), (places, places[::-1]), strict=True
        ):
            writer.guest.sh(f"{VERIFY} write {suite} {writer.at}/{suite}", timeout=LIMIT)
            writer.guest.sh("sync")
            reader.guest.sh(f"{VERIFY} check {suite} {reader.at}/{suite}", timeout=LIMIT)
        for worker in workers:
            worker.await_progress(60, LIMIT)
            assert "errors=0" in worker.finish()


#: How often each side takes the lock.
TURNS = 40


@_cases(*PAIRS)
def test_locks(pair: Pair, rdma: str, tcp: str, same: bool) -> None:
    """A lock excludes the other transport, and its next holder sees what the last one wrote."""
    with _mounted(pair, rdma, tcp, same=same) as places:
        pair.server.sh(": > /srv/export/turns; chmod 666 /srv/export/turns")
        running = [
            place.guest.vm.start(f"exec {LOCKS} turns {place.at}/turns {TURNS}") for place in places
        ]
        for place, process in zip(places, running, strict=True):
            done = place.guest.vm.agent.wait(process, LIMIT)
            assert done.status == 0, done
        made = pair.server.sh("od -A n -t u1 -j 6 -N 2 /srv/export/turns").split()
        assert made == ["0", str(2 * TURNS)]


def _hold(place: Place, name: str) -> int:
    """Starts a process that waits for the lock of a file."""
    place.guest.sh(f"rm -f /run/{name}.*")
    return place.guest.vm.start(f"exec {LOCKS} hold {place.at}/{name} /run/{name}")


def _await_held(place: Place, name: str) -> None:
    """Waits until the process of `_hold` has the lock."""
    place.guest.sh(f"until [ -e /run/{name}.held ]; do sleep 0.1; done")


def _let_go(place: Place, name: str, process: int) -> float:
    """Has the process give the lock back; returns how long it had waited for it."""
    place.guest.sh(f"touch /run/{name}.free")
    done = place.guest.vm.agent.wait(process, 60)
    assert done.status == 0, done
    return float(done.stdout)


@_cases(("4.0", "4.2", True), ("4.2", "4.0", True), ("4.0", "4.0", False), ("4.2", "4.2", False))
def test_locks_over_restart(pair: Pair, rdma: str, tcp: str, same: bool) -> None:
    """After a restart of nfsd both clients claim their locks again before others can take them."""
    with _mounted(pair, rdma, tcp, same=same) as places:
        names = "by-rdma", "by-tcp"
        held = [_hold(place, name) for place, name in zip(places, names, strict=True)]
        for place, name in zip(places, names, strict=True):
            _await_held(place, name)
        pair.restart_nfsd(1)
        for place, name in zip(places, reversed(names), strict=True):
            assert place.locks(f"try {name}") == "locked"
        for place, name, process in zip(places, names, held, strict=True):
            _let_go(place, name, process)
        for place, name in zip(places, reversed(names), strict=True):
            assert place.locks(f"try {name}") == "free"


#: Seconds in which the holder of a delegation or a waiter for a lock has to react. The lease is
#: 10 s, and a waiter that hears nothing asks again after 30 s.
PROMPT = 5.0
#: Seconds that a waiter waits at least: without the announcement of nfsd it would ask after 1, 3, 7
#: and 15 s.
UNHEARD = 9.0


@_cases(("4.2", "4.2", False), ("4.1", "4.1", False))
def test_lock_is_announced(pair: Pair, rdma: str, tcp: str, same: bool) -> None:
    """Who waits for a lock over one transport hears when it is free, by CB_NOTIFY_LOCK."""
    with _mounted(pair, rdma, tcp, same=same) as places:
        for holder, waiter in (places, places[::-1]):
            holding = _hold(holder, "wanted")
            _await_held(holder, "wanted")
            # The holder's guest may be that of the waiter's files.
            waiter.guest.sh("rm -f /run/waits.*")
            command = f"exec {LOCKS} hold {waiter.at}/wanted /run/waits"
            waiting = waiter.guest.vm.start(command)
            time.sleep(UNHEARD)
            _let_go(holder, "wanted", holding)
            began = time.monotonic()
            _await_held(waiter, "waits")
            took = time.monotonic() - began
            print(f"the waiter has the lock after {took:.1f} s")
            _let_go(waiter, "waits", waiting)
            assert took < PROMPT


#: Bytes that the holder of a write delegation has in its page cache.
DIRTY = 300001
OPENED = f"""
import random, sys
with open(sys.argv[1], "rb") as file:
    found = file.read()
if found != random.Random("dirty").randbytes({DIRTY}):
    sys.exit(f"{{len(found)}} bytes, wanted {DIRTY}")
"""
#: Opens a file, writes to the page cache if it is told to, says so, and keeps the file open.
KEEP = f"""
import os, random, sys, time
file = open(sys.argv[1], "r+b" if sys.argv[2] == "w" else "rb", buffering=0)
if sys.argv[2] == "w":
    file.write(random.Random("dirty").randbytes({DIRTY}))
os.close(os.open("/run/kept", os.O_CREAT))
time.sleep(1000)
"""


def _delegated(pair: Pair, kind: str) -> bool:
    """Whether a client has a delegation, `r` or `w`, of the file."""
    states = pair.server.run("cat /proc/fs/nfsd/clients/*/states").stdout.decode()
    lines = [each for each in states.splitlines() if "type: deleg" in each and "held" in each]
    return any(f"access: {kind}" in each for each in lines)


def _keep_open(pair: Pair, place: Place, kind: str) -> int:
    """Opens the file until there is a delegation of it; returns the process that has it open."""
    place.guest.write("/run/keep.py", KEEP.encode())
    deadline = time.monotonic() + 60 * pair.patience
    while True:
        place.guest.sh("rm -f /run/kept")
        process = place.guest.vm.start(f"exec python3 /run/keep.py {place.at}/held {kind}")
        place.guest.sh("until [ -e /run/kept ]; do sleep 0.1; done")
        if _delegated(pair, kind):
            return process
        _end(place, process)
        time.sleep(0.5)
        assert time.monotonic() < deadline, f"no delegation {kind}"


def _end(place: Place, process: int) -> None:
    """Ends a process of `_keep_open`."""
    place.guest.sh(f"kill {process}")
    place.guest.vm.agent.wait(process, 30)


#: Versions of NFS over RDMA and over TCP, who has the delegation, and its kind. nfsd gives clients
#: of NFSv4.0 none for writing.
RECALLS = [
    (rdma, "4.2", holder, kind)
    for rdma in ("4.0", "4.1", "4.2")
    for holder in ("rdma", "tcp")
    for kind in ("r", "w")
    if (rdma, holder, kind) != ("4.0", "rdma", "w")
]


@pytest.mark.parametrize(("rdma", "tcp", "holder", "kind"), RECALLS)
def test_recall(pair: Pair, rdma: str, tcp: str, holder: str, kind: str) -> None:
    """An open over one transport recalls the delegation of a client that uses the other one.

    The callbacks of NFSv4.0 come over TCP, those of later versions over the client's transport.
    """
    with _mounted(pair, rdma, tcp, same=False) as places:
        keeper, opener = places if holder == "rdma" else places[::-1]
        pair.server.sh(": > /srv/export/held; chmod 666 /srv/export/held")
        process = _keep_open(pair, keeper, kind)
        began = time.monotonic()
        added = "echo second >&3" if kind == "r" else ":"
        opener.guest.sh(f"exec 3<>{opener.at}/held; {added}", timeout=100)
        took = time.monotonic() - began
        print(f"the conflicting open took {took:.1f} s")
        assert took < PROMPT
        assert not _delegated(pair, kind)
        if kind == "r":
            assert keeper.guest.sh(f"cat {keeper.at}/held") == "second\n"
        else:
            keeper.guest.sh("sync")
            opener.guest.sh(f"python3 - {opener.at}/held", stdin=OPENED.encode(), timeout=100)
        _end(keeper, process)


#: Makes, moves and removes names by one mount, and looks for each by the other one.
NAMES = """
import itertools, os, sys
here, there, count = sys.argv[1:4]
for number in itertools.count():
    if number >= int(count) and os.path.exists("/run/names.end"):
        break
    for mine, other in ((here, there), (there, here)):
        name = f"n{number}-{len(mine)}"
        with open(f"{mine}/{name}", "w") as file:
            file.write(name)
        with open(f"{other}/{name}") as file:
            if file.read() != name:
                sys.exit(f"{name}: other contents")
        os.mkdir(f"{other}/{name}.d")
        os.rename(f"{mine}/{name}", f"{mine}/{name}.d/moved")
        if os.stat(f"{other}/{name}.d/moved").st_size != len(name):
            sys.exit(f"{name}: other size")
        os.unlink(f"{other}/{name}.d/moved")
        if os.path.exists(f"{mine}/{name}.d/moved") or os.path.exists(f"{mine}/{name}"):
            sys.exit(f"{name}: still there")
        os.rmdir(f"{mine}/{name}.d")
        if os.path.exists(f"{other}/{name}.d"):
            sys.exit(f"{name}.d: still there")
"""


@_cases(*(each for each in PAIRS if each[2]))
def test_names(pair: Pair, rdma: str, tcp: str, same: bool) -> None:
    """A name that one mount makes exists in the other, also while nfsd restarts."""
    with _mounted(pair, rdma, tcp, same=same, options="lookupcache=none,noac") as places:
        pair.client.write("/run/names.py", NAMES.encode())
        # A client of NFSv3 asks again after 5 s while the server recalls a delegation.
        count = 4 if "3" in (rdma, tcp) else 40
        command = f"exec python3 /run/names.py {places[0].at} {places[1].at} {count}"
        for pause in (None, 1):
            pair.client.sh("rm -f /run/names.end")
            process = pair.client.vm.start(command)
            if pause:
                time.sleep(3)
                pair.restart_nfsd(pause)
            pair.client.sh("touch /run/names.end")
            done = pair.client.vm.agent.wait(process, LIMIT)
            assert done.status == 0, done
        assert pair.server.sh("ls -A /srv/export") == ""


@pytest.mark.parametrize("version", ["4.0", "4.2"])
@pytest.mark.parametrize("first", ["rdma", "tcp"])
def test_one_transport(pair: Pair, version: str, first: str) -> None:
    """A client has one transport to a server for each version 4: that of its first mount."""
    pair.server.sh("rm -rf /srv/export/*")
    places = {"rdma": (MOUNT_POINT, "proto=rdma,port=20049"), "tcp": (TCP, "proto=tcp,port=2049")}
    order = [places.pop(first), *places.values()]
    for at, transport in order:
        words = f"{transport},vers={version},nosharecache"
        pair.client.sh(f"mkdir -p {at}; mount -t nfs -o {words} server:/export {at}", timeout=120)
        pair.client.sh(f"echo here > {at}/f; sync {at}/f")
        assert pair.server.read("/srv/export/f") == "here\n"
    stats = pair.client.read("/proc/self/mountstats")
    assert stats.count(f"xprt:\t{first} ") == 2
    for at, _ in reversed(order):
        pair.umount(at)
