# SPDX-License-Identifier: GPL-2.0
"""Faults before the first call: each attempt of the client to connect meets one of them.

Prints ``did - 1 EVENTS NAME: how it ended`` for each, and ``agreed ANNOUNCED SEND RECEIVE`` for
each connection in the order accepted: the values that the client must have understood.
"""

import os

from peer import ERR_CHUNK, ERROR, GRANT, Call, Peer, SilenceError, header, words

#: Seconds in which the next mount must try to connect, or the client send a message.
COMING, CALLING = 90, 10
#: The most private data in InfiniBand's ConnectReply, and in its reject.
LONGEST, LONGEST_REJECT = 196, 148

_MAGIC = "f6ab0e18"
#: InfiniBand's messages have a fixed size: zeros fill up the private data.
PADDED = os.path.exists("/sys/class/infiniband/rxe0")
#: Private data, and what it announces: remote invalidation, bytes it sends and receives; None if
#: it is no message of ours and the defaults hold.
PRIVATE = (
    ("", None),
    ("f6", None),
    (_MAGIC, None),
    (f"{_MAGIC}010003", (0, 4096, 1024) if PADDED else None),
    (f"{_MAGIC}01000303", (0, 4096, 4096)),
    (f"{_MAGIC}01010303", (1, 4096, 4096)),
    (f"{_MAGIC}01fe0000", (0, 1024, 1024)),
    (f"{_MAGIC}01ffffff", (1, 262144, 262144)),
    (f"{_MAGIC}01000700", (0, 8192, 1024)),
    (f"{_MAGIC}00000303", None),
    (f"{_MAGIC}02000303", None),
    (f"{_MAGIC}ff000303", None),
    ("180eabf601000303", None),
    ("ff" * LONGEST, None),
    ("00" * LONGEST, None),
    (_MAGIC * (LONGEST // 4), None),
    (f"{'aa' * 10}{_MAGIC}01010102", (1, 2048, 3072)),
    (f"{'aa' * (LONGEST - 8)}{_MAGIC}01010102", (1, 2048, 3072)),
    (f"{'aa' * (LONGEST - 7)}{_MAGIC}010101", None),
)
REJECTS = ("", "00", _MAGIC, GRANT, "ff" * LONGEST_REJECT)


class Hosts:
    """Meets the client's attempts to connect, one after the other."""

    def __init__(self):
        self.peer = Peer()
        print("ready", flush=True)

    def attempt(self):
        return self.peer.event(COMING, "request")[1]

    def first_call(self, connection):
        """The first message, refused, so that the mount fails at once; how long it was."""
        event = ["", ""]
        try:
            # Earlier connections may have ended.
            while event[1] != connection:
                event = self.peer.event(CALLING, "received", "disconnected")
        except SilenceError:
            return "silence"
        if event[0] == "disconnected":
            return "disconnected"
        call = Call(connection, bytes.fromhex(event[2]))
        self.peer.send(connection, header(call.xid, ERROR) + words(ERR_CHUNK))
        return f"call of {len(call.data)} bytes"

    def private_data(self):
        for private, understood in PRIVATE:
            connection = self.attempt()
            self.peer.accept(connection, private)
            outcome = self.first_call(connection)
            self.peer.tell("drop", connection)
            shown = private if len(private) < 40 else f"{private[:36]}…"
            done(f"private data '{shown}'", outcome)
            invalidation, send, receive = understood or (0, 1024, 1024)
            announced = "default" if understood is None else "announced"
            print("agreed", announced, invalidation, send, receive, flush=True)

    def rejects(self):
        for private in REJECTS:
            outcome = self.peer.tell("reject", self.attempt(), private or "-")
            done(f"reject with '{private[:20]}'", outcome)

    def endings(self):
        """Ends the connection, or leaves the client without an answer, at each step."""
        self.attempt()
        done("no answer at all", "silence")
        connection = self.attempt()
        done("gone before an answer", self.peer.tell("drop", connection))
        connection = self.attempt()
        self.peer.accept(connection)
        done("gone right after accepting", self.peer.tell("drop", connection))
        connection = self.attempt()
        self.peer.accept(connection)
        done("disconnected right after accepting", self.peer.tell("disconnect", connection))
        connection = self.attempt()
        self.peer.accept(connection)
        self.peer.event(CALLING, "established", "disconnected", "received")
        done("gone once established", self.peer.tell("drop", connection))
        connection = self.attempt()
        self.peer.accept(connection, receives=0)
        done("no Receive for the first call", self.first_call(connection))

    def deaths(self):
        """Kills the verbs part at each step and starts another one."""
        for step in ("request", "accept", "call"):
            connection = self.attempt()
            if step != "request":
                self.peer.accept(connection)
            if step == "call":
                self.peer.event(CALLING, "received", "disconnected")
            self.peer.kill()
            done(f"killed after {step}", "dead")
            self.peer = Peer()


def done(name, outcome):
    print("did - 1 -", f"{name}: {outcome}", flush=True)


def run():
    hosts = Hosts()
    try:
        hosts.private_data()
        hosts.rejects()
        hosts.endings()
        hosts.deaths()
    finally:
        hosts.peer.kill()
