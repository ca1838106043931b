#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A server that misbehaves in version two: misversions.py WAY [PRIVATE].

Answers calls truly, from nfsd over TCP, except as the class of the WAY says. PRIVATE is what it
says to a client that connects. Prints ``tried`` when the first message of version two arrives. Ends
when the file STOP exists, and then prints what it has seen as one line of JSON.
"""

import json
import os
import sys
import time

import second
from peer import ERR_CHUNK, GRANT, Peer, SilenceError, header, lists, system_error, words
from second import ERR_BAD_HEADER, ERR_INVAL_OPTION, ERR_VERS, REPLY

from hostile import RealServer

STOP, GO = "/run/misversions.stop", "/run/misversions.go"
#: Bytes of a reply that every client can take.
INLINE = 4096 - 32
#: Seconds after which no more calls come.
QUIET = 0.6


class Host:
    """The connections of the clients."""

    def __init__(self, way, private):
        self.peer, self.server = Peer(), RealServer()
        self.way, self._private = way, private
        self._began = time.monotonic()
        self.connections = []
        #: The text that is printed at the end.
        self.seen = {"connections": 0, "times": [], "one": 0, "two": 0, "operations": []}
        self.seen |= {"errors": [], "notes": []}

    def run(self):
        print("ready", flush=True)
        while not os.path.exists(STOP):
            try:
                event = self.peer.event(QUIET, "request", "received", "disconnected")
            except SilenceError:
                self.way.on_silence(self)
                continue
            self._take(*event)
        print(json.dumps(self.seen), flush=True)

    def _take(self, kind, connection, data="", *_rest):
        if kind == "request":
            self.seen["connections"] += 1
            self.seen["times"].append(round(time.monotonic() - self._began, 2))
            self.peer.accept(connection, self._private)
        elif kind == "received":
            self._take_message(second.Message(connection, bytes.fromhex(data)))

    def _take_message(self, message):
        self.seen["two" if message.version == 2 else "one"] += 1
        if self.seen["two"] == 1 and message.version == 2:
            print("tried", flush=True)
        if message.opttype is not None:
            self.seen["operations"].append(second.NAMES.get(message.opttype, "?"))
        if message.error is not None:
            self.seen["errors"].append(message.error)
        self.way.on_message(self, message)

    def note(self, text):
        """Keeps a line for the scenario."""
        self.seen["notes"].append(text)

    def send(self, message, data):
        return self.peer.send(message.connection, data)

    def leave(self, message):
        self.peer.tell("disconnect", message.connection)

    def answer(self, message, grant=32):
        """Answers a call in its version, by what nfsd says to it."""
        call = message.call
        reply = b"" if call.reads or call.writes else self.server.ask(call.payload)
        if not 0 < len(reply) <= INLINE:
            reply = system_error(call.xid)
        if message.version == 2:
            self.send(message, second.rpc(call.xid, REPLY, reply, grant=grant))
        else:
            self.send(message, header(call.xid, grant=grant) + lists() + reply)


class Honest:
    """A server of both versions."""

    def on_message(self, host, message):
        if message.call and message.direction != REPLY:
            self.on_call(host, message)
        elif message.opttype is not None:
            self.on_operation(host, message)

    def on_call(self, host, message):
        host.answer(message)

    def on_operation(self, host, message):
        pass

    def on_silence(self, host):
        pass


class Drops(Honest):
    """Ignores a call in version two."""

    def on_call(self, host, message):
        if message.version == 2:
            self.refuse(host, message)
        else:
            self.on_one(host, message)

    def on_one(self, host, message):
        host.answer(message)

    def refuse(self, host, message):
        pass


class Disconnects(Drops):
    """Disconnects at a call in version two."""

    def refuse(self, host, message):
        host.leave(message)


class RefusesAndLeaves(Drops):
    """Says that it knows version one only, and disconnects."""

    def refuse(self, host, message):
        host.send(message, second.error(message.xid, ERR_VERS, 1, 1))
        host.leave(message)


class BadHeader(Drops):
    """Answers every call in version two by an error in version two."""

    def refuse(self, host, message):
        host.send(message, second.error(message.xid, ERR_BAD_HEADER))


class PinsTwo(BadHeader):
    """Also refuses version one, on a connection that has begun in version two."""

    def __init__(self):
        self._pinned = set()

    def refuse(self, host, message):
        self._pinned.add(message.connection)
        super().refuse(host, message)

    def on_one(self, host, message):
        if message.connection in self._pinned:
            host.send(message, second.error(message.xid, ERR_VERS, 2, 2, version=1))
        else:
            super().on_one(host, message)


class Chunk(Drops):
    """Answers every call in version two by an error in version one."""

    def refuse(self, host, message):
        host.send(message, second.error(message.xid, ERR_CHUNK, version=1))


class ChunkAlways(Drops):
    """Answers every call by ERR_CHUNK in its version."""

    def on_call(self, host, message):
        host.send(message, second.error(message.xid, ERR_CHUNK, version=message.version))


class Later(Drops):
    """Answers in the form of a later draft: flags stand where the direction is."""

    def refuse(self, host, message):
        reply = host.server.ask(message.call.payload)
        host.send(message, second.rpc(message.xid, 0x10, reply))


class LaterError(Drops):
    """Answers by an error whose number this draft does not have."""

    def refuse(self, host, message):
        host.send(message, second.error(message.xid, 9, 0, 0))


class Three(Drops):
    """Says that it knows the versions 3 to 5; it knows version one nevertheless."""

    def refuse(self, host, message):
        host.send(message, second.error(message.xid, ERR_VERS, 3, 5))


class ThreeAlways(Drops):
    """Says to every call that it knows the versions 3 to 5."""

    def on_call(self, host, message):
        host.send(message, second.error(message.xid, ERR_VERS, 3, 5, version=message.version))


class NoOptions(Honest):
    """Knows no optional operation."""

    def on_operation(self, host, message):
        host.send(message, second.error(message.xid, ERR_INVAL_OPTION))


class Announces(Honest):
    """Announces characteristics after its first reply, once on each connection."""

    #: The contents of INIT_XCHAR.
    INFOS = ()

    def __init__(self):
        self._left = {}

    def on_call(self, host, message):
        host.answer(message)
        left = self._left.setdefault(message.connection, list(self.INFOS))
        if message.version == 2 and left:
            # One at a time: the client has a Receive for one message that it does not expect.
            data = second.optional(0x70000000 + len(left), REPLY, second.INIT, left.pop(0))
            host.send(message, data)
            host.note(f"INIT {len(self.INFOS) - len(left)}")


class OddInit(Announces):
    """Announces characteristics that the client does not know, and Receives of 8192 bytes."""

    INFOS = (
        second.init(
            second.value(second.UNKNOWN, b"12345"),
            second.value(second.EXPERIMENTAL, 1),
            second.value(0xFFFFFFFF, b""),
            second.value(second.RECEIVE_SIZE, 8192),
            second.value(second.UNKNOWN, b""),
            second.value(second.BACKWARD, 2),
            fixed=(0x3F, 0, 0xFFFFFFFF),
        ),
    )


class BadInit(Announces):
    """Announces values that are cut off or impossible."""

    INFOS = (
        b"",
        words(1),
        second.init(second.value(second.RECEIVE_SIZE, b"\0\0")),
        second.init(second.value(second.INVALIDATION, 7)),
        second.init(second.value(second.BACKWARD, 9)),
        words(1, second.RECEIVE_SIZE, 4000, 4096, 0),
        words(0xFFFFFFFF, second.RECEIVE_SIZE, 4, 4096, 0),
        second.init(second.value(second.RECEIVE_SIZE, 100)),
    )


class Torn(Honest):
    """Sends two messages before each true reply whose header and RPC message do not agree.

    One is a failure in a header with the direction CALL, the other a call in one with REPLY.
    """

    def __init__(self):
        self._answered = 0

    def on_call(self, host, message):
        if message.version == 2 and self._answered:
            xid = message.call.xid
            host.send(message, second.rpc(xid, second.CALL, system_error(xid)))
            call = words(xid, second.CALL, 2, 0x40000000, 1, 1, 0, 0, 0, 0)
            host.send(message, second.rpc(xid, REPLY, call))
        self._answered += 1
        host.answer(message)


class Grants(Honest):
    """Holds calls back and changes the grant, by replies and by operations between them.

    Begins when the file GO exists. Notes how many calls are unanswered after each step, and prints
    ``granted`` at the end.
    """

    #: The steps, and the credits that each grants.
    STEPS = (
        *(("all but one", 4), ("UPD", 4), ("UPD", 6), ("reply", 1), ("UPD", 1)),
        *(("all but one", 1), ("reply", 1), ("UPD", 1), ("reply", 0), ("UPD", 0), ("reply", 0)),
        *(("UPD", 3), ("reply", 1), ("all but one", 1), ("reply", 8)),
    )

    def __init__(self):
        self._held, self._left, self._done = [], list(self.STEPS), False

    def on_call(self, host, message):
        if not self._done and os.path.exists(GO) and message.version == 2:
            self._held.append(message)
        else:
            host.answer(message)

    def on_silence(self, host):
        if not self._held:
            return
        host.note(len(self._held))
        if not self._left:
            self._done = True
            print("granted", flush=True)
            while self._held:
                host.answer(self._held.pop(0))
            return
        what, grant = self._left.pop(0)
        if what == "UPD":
            info = second.update(second.value(second.BACKWARD, 2))
            data = second.optional(len(self._left), REPLY, second.UPD, info, grant=grant)
            host.send(self._held[0], data)
            return
        for _ in range(1 if what == "reply" else len(self._held) - 1):
            host.answer(self._held.pop(0), grant)


WAYS = {
    "honest": Honest,
    "drops": Drops,
    "disconnects": Disconnects,
    "refuses-and-leaves": RefusesAndLeaves,
    "bad-header": BadHeader,
    "pins-two": PinsTwo,
    "err-chunk": Chunk,
    "err-chunk-always": ChunkAlways,
    "later-draft": Later,
    "later-error": LaterError,
    "versions-3-5": Three,
    "versions-3-5-always": ThreeAlways,
    "no-options": NoOptions,
    "odd-init": OddInit,
    "bad-init": BadInit,
    "torn": Torn,
    "grants": Grants,
}


def main():
    for path in (STOP, GO):
        if os.path.exists(path):
            os.unlink(path)
    private = second.BOTH_VERSIONS if sys.argv[2:] == ["both"] else GRANT
    host = Host(WAYS[sys.argv[1]](), private)
    try:
        host.run()
    finally:
        host.peer.kill()


if __name__ == "__main__":
    main()
