# SPDX-License-Identifier: GPL-2.0
"""A cable with faults: it joins the guests and harms only RDMA traffic.

netem or `ip link set down` would also stop mountd, rpcbind and the connection
manager's address resolution, and rxe does not survive the loss of its link. This
process forwards every other frame. It drops, duplicates, delays or swaps RDMA
frames; a seeded random generator decides which.

It runs as a process of its own (`python3 -m lab.relay`), takes one command a
line on standard input (``loss 0.01``, ``duplicate 0.01``, ``reorder 0.01``,
``blackout 1``) and prints ``ready`` once both ends may connect. ``tally`` has it print how many
frames each fault has harmed so far.
"""

from __future__ import annotations

import heapq
import itertools
import json
import random
import socket
import struct
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from .told import Told

ROCE_PORT = 4791
IWARP_PORT = 20049
#: Seconds by which a late frame is delayed.
LATENESS = 0.03
_LENGTH = struct.Struct(">I")
_PORTS = struct.Struct(">HH")


def carries_rdma(frame: bytes) -> bool:
    """Returns whether an Ethernet frame is RoCEv2, or iWARP to or from the NFS port."""
    kind = frame[12:14]
    if kind == b"\x08\x00" and len(frame) >= 34:
        protocol, offset = frame[23], 14 + (frame[14] & 15) * 4
    elif kind == b"\x86\xdd" and len(frame) >= 54:
        protocol, offset = frame[20], 54
    else:
        return False
    if len(frame) < offset + 4:
        return False
    ports = _PORTS.unpack_from(frame, offset)
    return (protocol == 17 and ports[1] == ROCE_PORT) or (protocol == 6 and IWARP_PORT in ports)


@dataclass
class Faults:
    """The faults of RDMA frames: probabilities from 0 to 1, and `delay` in seconds."""

    random: random.Random
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    late: float = 0.0
    delay: float = 0.0
    blackout: float = 0.0
    #: How many frames each fault has harmed so far.
    harmed: Counter[str] = field(default_factory=Counter)
    _held: list[bytes] = field(default_factory=list)

    def apply(self, frame: bytes) -> list[bytes]:
        """Returns the frames to forward in place of this one."""
        if not carries_rdma(frame):
            return [frame]
        if self.blackout:
            return self._harm("blackout", [])
        if self.random.random() < self.loss:
            return self._harm("loss", [])
        out = [frame]
        if self.random.random() < self.duplicate:
            out = self._harm("duplicate", [frame] * 2)
        if self._held:
            # The held frame goes out behind this one: only now have the two changed places.
            return self._harm("reorder", [*out, self._held.pop()])
        if self.random.random() < self.reorder:
            self._held.append(out.pop())
        return out

    def _harm(self, fault: str, frames: list[bytes]) -> list[bytes]:
        """Counts a frame that a fault has harmed; returns the frames to forward."""
        self.harmed[fault] += 1
        return frames

    def wait(self, frame: bytes) -> float:
        """Returns how many seconds to hold a frame back."""
        if not carries_rdma(frame):
            return 0.0
        if self.delay:
            self.harmed["delay"] += 1
        late = self.late > 0 and self.random.random() < self.late
        if late:
            self.harmed["late"] += 1
        return self.delay + (LATENESS if late else 0.0)


class Sender:
    """Sends frames into one guest, each when it is due."""

    def __init__(self, sink: socket.socket) -> None:
        """Starts a thread that sends into `sink`."""
        self._sink, self._queue = sink, list[tuple[float, int, bytes]]()
        self._count, self._changed = itertools.count(), threading.Condition()
        self._sending = threading.Lock()
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, frame: bytes, wait: float) -> None:
        """Sends a frame `wait` seconds from now."""
        if not wait and not self._queue:
            return self._send(frame)
        with self._changed:
            heapq.heappush(self._queue, (time.monotonic() + wait, next(self._count), frame))
            self._changed.notify()
        return None

    def _send(self, frame: bytes) -> None:
        with self._sending:
            self._sink.sendall(_LENGTH.pack(len(frame)) + frame)

    def _run(self) -> None:
        with self._changed:
            while True:
                left = self._queue[0][0] - time.monotonic() if self._queue else None
                if left is None or left > 0:
                    self._changed.wait(left)
                    continue
                try:
                    self._send(heapq.heappop(self._queue)[2])
                except OSError:
                    return


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = source.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _pump(source: socket.socket, sink: socket.socket, faults: Faults) -> None:
    """Forwards one direction until either guest closes its end."""
    sender = Sender(sink)
    try:
        while True:
            (length,) = _LENGTH.unpack(_exactly(source, _LENGTH.size))
            for frame in faults.apply(_exactly(source, length)):
                sender.put(frame, faults.wait(frame))
    except (EOFError, OSError):
        sink.close()


def _serve(paths: list[str], seed: int) -> None:
    listeners = []
    for path in paths:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(1)
        listeners.append(listener)
    print("ready", flush=True)
    ends = [listener.accept()[0] for listener in listeners]
    faults = [Faults(random.Random(seed + index)) for index in range(2)]
    for index in range(2):
        args = (ends[index], ends[1 - index], faults[index])
        threading.Thread(target=_pump, args=args, daemon=True).start()
    for line in sys.stdin:
        print(_obey(line, faults), flush=True)


def _obey(line: str, faults: list[Faults]) -> str:
    """Carries one command out; returns the answer."""
    name, *value = line.split()
    if name == "tally":
        return json.dumps(sum((direction.harmed for direction in faults), Counter()))
    for direction in faults:
        setattr(direction, name, float(value[0]))
    return name


class Relay(Told):
    """The relay process, seen from the lab.

    `tally` has how many frames each fault has harmed so far, both directions together.
    """

    def __init__(self, server_end: Path, client_end: Path, seed: int = 1) -> None:
        """Starts the process and waits until it listens."""
        super().__init__("relay", server_end, client_end, seed)

    def set(self, fault: str, value: float) -> None:
        """Changes a fault: loss, duplicate, reorder, late, delay or blackout."""
        self.tell(f"{fault} {value}")


if __name__ == "__main__":
    _serve(sys.argv[1:3], int(sys.argv[3]))
