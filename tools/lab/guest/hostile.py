#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A hostile NFS server: hostile.py GROUP VERSION.

Waits for the client that had a mount from the real server, and answers each call with the next
misdeed of a group (misdeeds.py). VERSION is that of NFS. Prints a line for each misdeed, ``did
COUNTER TIMES EVENTS NAME: how it ended``, and ends with status 0 when all are done. The group
``handshake`` is about connecting (handshakes.py); ``late`` answers truly but late (late.py).

Calls without data chunks that no misdeed is wanted for get true answers, from the real server over
TCP, so that the client gets as far as the calls with data. Such an answer goes inline; a reply
chunk may stay unused.
"""

import os
import socket
import struct
import sys
import time

import handshakes
import late
from misdeeds import group, honest
from peer import Call, Peer, SilenceError, header, lists, words

#: Seconds in which a client in use must connect, call, or close a broken connection.
COMING, CALLING, LEAVING = 90, 30, 3
#: Seconds that a call is kept until others arrive.
WAITING = 0.5
#: Results of the verbs part: the client had left before the first operation; no operation was
#: acknowledged; success.
GONE, UNHEARD, SUCCESS = "gone", "transport retry counter exceeded", "success"
#: With which NFSv4 ends the recovery of its state: the operation and its argument.
RECLAIM_COMPLETE = words(58, 0)
#: The most bytes of an inline reply.
INLINE = 4096 - 28


class RealServer:
    """The connection to nfsd over TCP: the length of each ONC RPC record precedes it."""

    def __init__(self):
        self._socket = None

    def ask(self, message):
        self._socket = self._socket or self._connect()
        self._socket.sendall(struct.pack(">I", 1 << 31 | len(message)) + message)
        while True:
            reply = self._record()
            # nfsd may send calls for the client here; they are not answered.
            if reply[:8] == message[:4] + struct.pack(">I", 1):
                return reply

    def _connect(self):
        # nfsd starts again at the same time as this peer, and may be up later.
        deadline = time.monotonic() + 20
        while True:
            try:
                return socket.create_connection(("127.0.0.1", 2049), 10)
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _record(self):
        record, last = b"", False
        while not last:
            (mark,) = struct.unpack(">I", self._exactly(4))
            record, last = record + self._exactly(mark & 0x7FFFFFFF), mark >> 31
        return record

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise SystemExit("nfsd has closed the connection")
            data += more
        return data


def answer(peer, server, call):
    """Returns the real server's answer, or an honest error if there is none."""
    reply = b"" if call.reads or call.writes else server.ask(call.payload)
    if 0 < len(reply) <= INLINE:
        peer.send(call.connection, header(call.xid) + lists() + reply)
    else:
        peer.send(call.connection, honest(call))


def say(misdeed, outcome):
    events = ",".join(misdeed.events) or "-"
    print("did", misdeed.counter, misdeed.times, events, f"{misdeed.name}: {outcome}", flush=True)


def welcome(peer):
    """Accepts the next connection."""
    connection = peer.event(COMING, "request")[1]
    if peer.accept(connection) == "success":
        return connection
    return welcome(peer)


def indulge(peer, server):
    """Gives true answers until NFSv4 has recovered its state and a call with data arrives.

    nfsd lost that state in its restart. State that is not recovered is lost permanently, open files
    first of all, and no transport is to blame. A call with data may well come before it.
    """
    recovered = False
    while True:
        connection = welcome(peer)
        while call := next_call(peer, connection, CALLING):
            answer(peer, server, call)
            recovered = recovered or call.payload.endswith(RECLAIM_COMPLETE)
            if recovered and (call.reads or call.writes):
                peer.tell("drop", connection)
                return


def next_call(peer, connection, timeout):
    """Returns the next call on this connection; None when the client has left."""
    while True:
        event = peer.event(timeout, "received", "disconnected")
        if event[1] != connection:
            continue
        if event[0] == "disconnected":
            return None
        call = Call(connection, bytes.fromhex(event[2]))
        # Answers to callbacks are ignored.
        if call.payload[4:8] != words(1):
            return call


def choose(misdeeds, calls):
    """Returns a misdeed and the call to answer with it; (None, None) if more calls are needed."""
    for misdeed in misdeeds:
        for call in calls:
            others = [other for other in calls if other is not call and other.handles]
            if misdeed.fits(call) and len(others) + 1 >= misdeed.calls:
                return misdeed, call
    return None, None


def call_is_wanted(misdeeds, call):
    """Returns whether to keep a call: a misdeed in answer to another call is to hit this one."""
    return any(misdeed.calls > 1 for misdeed in misdeeds) and (
        bool(call.handles) or any(misdeed.fits(call) for misdeed in misdeeds)
    )


def happened(misdeed, outcome):
    """Returns whether a misdeed has reached the client, as far as its Send's status shows that."""
    return outcome == SUCCESS or (misdeed.last and outcome not in (GONE, UNHEARD))


def part(peer, connection):
    """Waits for the end of the connection after a misdeed that it does not survive."""
    try:
        while next_call(peer, connection, LEAVING):
            pass
    except SilenceError:
        # A server whose queue pair has failed also disconnects.
        peer.tell("disconnect", connection)
        peer.tell("drop", connection)


def converse(peer, server, connection, misdeeds):
    """Does misdeeds until one of them ends the connection, or none is left."""
    first, calls = True, []
    while misdeeds:
        try:
            call = next_call(peer, connection, WAITING if calls else CALLING)
        except SilenceError:
            if not calls:
                raise
            answer(peer, server, calls.pop(0))
            continue
        if call is None:
            return None
        calls.append(call)
        if first:
            # The first true answer grants credits, and the client forgets its back-off.
            answer(peer, server, calls.pop())
            first = False
            continue
        misdeed, call = choose(misdeeds, calls)
        if misdeed is None:
            if not call_is_wanted(misdeeds, calls[-1]):
                answer(peer, server, calls.pop())
            continue
        calls.remove(call)
        outcome = misdeed.run(peer, call, calls)
        if not happened(misdeed, outcome):
            # What was sent before has cost the connection, after this call had come: once more.
            peer.tell("drop", connection)
            return None
        misdeeds.remove(misdeed)
        say(misdeed, outcome)
        if misdeed.last:
            return part(peer, connection)
        if not misdeed.ends:
            answer(peer, server, call)
    return None


class Host:
    """Serves one connection as late.py describes it."""

    def __init__(self, peer, server, connection):
        self.peer, self._server, self._connection = peer, server, connection

    def next_call(self, timeout):
        return next_call(self.peer, self._connection, timeout)

    def answer(self, call):
        answer(self.peer, self._server, call)


def be_late():
    """Gives honest answers late, over as many connections as the client makes."""
    peer, server = Peer(), RealServer()
    if os.path.exists(late.STOP):
        os.unlink(late.STOP)
    print("ready", flush=True)
    try:
        while True:
            if late.serve(Host(peer, server, welcome(peer))):
                return
    finally:
        peer.kill()


def main():
    if sys.argv[1] == "handshake":
        return handshakes.run()
    if sys.argv[1] == "late":
        return be_late()
    misdeeds = group(sys.argv[1])
    peer, server = Peer(), RealServer()
    print("ready", flush=True)
    try:
        if sys.argv[2] != "3":
            indulge(peer, server)
        while misdeeds:
            converse(peer, server, welcome(peer), misdeeds)
    except SilenceError as silence:
        sys.exit(f"the client went silent ({silence}) before: {[m.name for m in misdeeds]}")
    finally:
        peer.kill()


if __name__ == "__main__":
    main()
