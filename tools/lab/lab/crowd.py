# SPDX-License-Identifier: GPL-2.0
"""Many connections to the server at once (`tools/lab/crowd`).

One call is made on each, or as many as the server takes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from .errors import GuestError
from .pair import SERVER_ADDRESS, Guest, Pair

_OUTPUT = "/run/crowd.log"
_PATIENCE = 60.0


@contextmanager
def crowd(pair: Pair, count: int) -> Iterator[float]:
    """Keeps connections open inside the block; yields the seconds until all were established.

    # Errors
    `GuestError` if the server refused a connection.
    """
    handle = _handle(pair)
    before = queue_pairs(pair.server)
    command = f"exec /lab/crowd {SERVER_ADDRESS} {count} {handle} > {_OUTPUT}"
    pid = pair.client.vm.start(command)
    try:
        yield _established(pair, pid, count)
    finally:
        pair.client.run("pkill -x crowd")
        await_queue_pairs(pair.server, before)


#: The kinds of a crowd's connections: READs of 16 KiB and of 1 MiB, WRITEs of 1 MiB, and READs of
#: 1 MiB whose replies are not taken after a while.
KINDS = ("read16k", "read1m", "write1m", "stop")
#: The file that a crowd reads and writes.
FILE = "crowd"


@dataclass(frozen=True)
class Pressed:
    """How the connections of one kind fared."""

    #: Calls that were answered, and those of them that failed.
    answered: int
    failed: int
    #: Connections that were lost.
    lost: int
    #: The longest time of a call in seconds.
    longest: float


class Pressing:
    """A crowd whose connections ask for as much as the server grants."""

    def __init__(
        self, pair: Pair, count: int, seconds: float, kinds: Sequence[str] = KINDS
    ) -> None:
        """Starts `count` connections of these kinds, which press for `seconds`.

        # Errors
        `GuestError` if the server refused a connection.
        """
        self._pair, self._seconds = pair, seconds
        words = f"{SERVER_ADDRESS} {count} {_handle(pair)} {','.join(kinds)} {seconds}"
        pair.client.sh(f"rm -f {_OUTPUT}")
        self._pid = pair.client.vm.start(f"exec /lab/crowd {words} > {_OUTPUT}")
        #: Seconds until all connections were established.
        self.seconds = _established(pair, self._pid, count)

    def finish(self) -> dict[str, Pressed]:
        """Waits until the time is over; returns how each kind fared, and prints the losses."""
        deadline = time.monotonic() + self._seconds + _PATIENCE
        while "pressed" not in (text := _text(self._pair)):
            if self._pair.client.vm.agent.poll(self._pid) or time.monotonic() > deadline:
                raise GuestError(f"the crowd has not pressed: {text}")
            time.sleep(0.2)
        print(*(line for line in text.splitlines() if line.startswith("lost ")), sep="\n")
        return fared(text)

    def leave(self) -> None:
        """Ends the connections."""
        self._pair.client.run("pkill -x crowd")


def _handle(pair: Pair) -> str:
    """Returns the handle of the file, which the first call makes."""
    make = f"head -c 1M /dev/urandom > {FILE} && chmod 666 {FILE}"
    pair.server.sh(f"cd /srv/export && {{ [ -s {FILE} ] || {make}; }}")
    handle_of = f"nfs_calls.export_handle('{SERVER_ADDRESS}', b'/export/{FILE}')"
    look = f"import nfs_calls; print({handle_of}.hex())"
    return pair.client.sh(f'cd /lab && python3 -c "{look}"').strip()


def fared(text: str) -> dict[str, Pressed]:
    """Returns what `crowd` has printed about each kind."""
    words = text.splitlines()[-1].split()[2:]
    lines = zip(words[::5], words[1::5], words[2::5], words[3::5], words[4::5], strict=True)
    return {
        name: Pressed(int(answered), int(failed), int(lost), float(longest))
        for name, answered, failed, lost, longest in lines
    }


def _text(pair: Pair) -> str:
    return pair.client.run(f"cat {_OUTPUT}").stdout.decode()


def _established(pair: Pair, pid: int, count: int) -> float:
    deadline = time.monotonic() + _PATIENCE
    while not (text := _text(pair)):
        if pair.client.vm.agent.poll(pid) or time.monotonic() > deadline:
            raise GuestError(f"{count} connections were not answered in {_PATIENCE:.0f} s")
        time.sleep(0.1)
    return answered(text.splitlines()[0], count)


def answered(text: str, count: int) -> float:
    """Returns the seconds that `crowd` has printed.

    # Errors
    `GuestError` if not all connections were established.
    """
    found = re.match(r"established (\d+) refused 0 seconds ([\d.]+)$", text.strip())
    if not found or int(found[1]) != count:
        raise GuestError(f"crowd: {text.strip()} instead of {count} connections")
    return float(found[2])


def queue_pairs(guest: Guest) -> int:
    """Returns the number of a guest's queue pairs that serve connections."""
    return guest.sh("rdma resource show qp").count(" type RC ")


def await_queue_pairs(guest: Guest, count: int, limit: float = _PATIENCE) -> None:
    """Waits until a guest has no more than `count` queue pairs that serve connections.

    # Errors
    `GuestError` if it has more after `limit` seconds.
    """
    deadline = time.monotonic() + limit
    while (left := queue_pairs(guest)) > count:
        if time.monotonic() > deadline:
            raise GuestError(f"{left} queue pairs are left instead of {count}")
        time.sleep(0.2)
