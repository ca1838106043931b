# SPDX-License-Identifier: GPL-2.0
"""The hostile peer as a requester: its connections, its memory, and the server's answers.

misrequests.py has the cases. A case that keeps a connection in a bad state prints ``holding``, and
goes on when the file /run/requester.release exists; with ``stall`` it asks for a server that cannot
look exports up, and waits for /run/requester.stalled.
"""

import os
import struct
import time

import nfs_calls
import second
from peer import ERR_CHUNK, ERR_VERS, ERROR, NOMSG, Peer, SilenceError, header, lists

SERVER, PORT = "10.0.0.1", 20049
#: Private data: 4096 bytes each way, with and without remote invalidation.
PLAIN, REMOTE = "f6ab0e1801000303", "f6ab0e1801010303"
#: Connection parameters: RDMA Reads that this side issues and serves, retries after RNR.
USUAL = (4, 4, 7)
#: Seconds without an answer that are silence; seconds for the honest call afterwards. The lab says
#: how many times slower than a quiet host this one is.
SILENT, HONEST = (seconds * float(os.environ.get("PATIENCE", "1")) for seconds in (3, 20))
RELEASE, STALLED = "/run/requester.release", "/run/requester.stalled"
ANSWERED, CLOSED, SILENCE, CHUNK = "answered", "closed", "silence", "ERR_CHUNK"
REFUSED = "refused"
#: The names of errors in version two.
ERRORS_OF_TWO = {second.ERR_BAD_HEADER: "BAD_HEADER", second.ERR_INVAL_OPTION: "INVAL_OPTION"}


class Requester(Peer):
    """The verbs program as a requester."""

    FIRST, ARGUMENTS = "ready", ("requester",)

    def __init__(self):
        super().__init__()
        self._count = 0

    def connect(self, private=PLAIN, receives=64, limits=USUAL, flags="-", server=SERVER):
        """Sends a request for a connection; returns its number and how that ended."""
        self._count += 1
        number = str(self._count)
        numbers = ",".join(map(str, limits))
        words_ = (server, PORT, private or "-", receives, numbers, flags)
        return number, self.tell("connect", number, *words_)

    def wait(self, number, timeout, *kinds):
        """Returns the next event of these kinds on one connection, as a list of words."""
        return self.event(timeout, *kinds, number=number)


class Region:
    """Memory that a connection exposes."""

    def __init__(self, index, handle, address, length):
        self.index, self.handle, self.address, self.length = index, handle, address, length

    def at(self, offset=0, length=None):
        """Returns a segment of it."""
        return (
            self.handle,
            self.length - offset if length is None else length,
            (self.address + offset),
        )


#: The 256 bytes at a multiple of 256, for each value of the higher bits.
_BLOCKS = [bytes(i ^ mask for i in range(256)) for mask in range(256)]


def pattern(offset, length):
    """Returns the initial contents of exposed memory, which the file `data` also holds."""
    first, last = offset >> 8, (offset + length + 255) >> 8
    blocks = b"".join(_BLOCKS[(i ^ i >> 8) & 255] for i in range(first, last))
    return blocks[offset & 255 : (offset & 255) + length]


class Reply:
    """A message of the server that answers a call."""

    def __init__(self, connection, data, invalidated):
        self.message, self.invalidated = data, invalidated
        self.xid, self.version, self.credits, self.kind = struct.unpack_from(">4I", data)
        message = second.Message(connection, data)
        self.error, self.opttype = message.error, message.opttype
        self.subsets = message.subsets
        parts = message.call
        self.writes, self.reply = (parts.writes, parts.reply) if parts else ([], None)
        self.body = parts.payload if parts else b""


class Link:
    """A connection, which is made again when the server has closed it."""

    def __init__(self, **parameters):
        self.peer = Requester()
        self._parameters = parameters
        self.number = None
        #: The version of honest calls.
        self.version = 1
        # Not the numbers of another case: the server would answer from its cache of replies.
        self._xid = struct.unpack(">I", os.urandom(4))[0] >> 1
        self._regions = 0
        self.export = nfs_calls.export_handle(SERVER, b"/export")
        self._handles = {}

    def xid(self):
        """Returns an XID that is not in use."""
        self._xid += 1
        return self._xid

    def open(self, **parameters):
        """Makes a new connection, by default with the parameters of the link; returns its number.

        # Errors
        `ConnectionRefusedError` when the server refuses it.
        """
        number, begun = self.peer.connect(**{**self._parameters, **parameters})
        if begun != "success":
            raise SystemExit(f"no request for a connection: {begun}")
        event = self.peer.wait(number, 20, "established", "response", "event", "disconnected")
        if event[0] not in ("established", "response"):
            raise ConnectionRefusedError(" ".join(event[2:]))
        self.number, self._regions = number, 0
        return number

    def ready(self):
        """Returns the number of a usable connection."""
        return self.number or self.open()

    def close(self):
        """Disconnects."""
        if self.number:
            self.peer.tell("disconnect", self.number)
            self.peer.tell("drop", self.number)
            self.number = None

    def expose(self, length, access="rw"):
        """Exposes memory that holds `pattern` on the current connection."""
        self.ready()
        done = self.peer.tell("expose", self.number, length, access)
        if done != "success":
            raise SystemExit(f"expose: {done}")
        _, _, handle, address = self.peer.wait(self.number, 1, "exposed")
        self._regions += 1
        return Region(self._regions - 1, int(handle, 16), int(address, 16), length)

    def peek(self, region, offset, length):
        """Returns what exposed memory holds."""
        self.peer.tell("peek", self.number, region.index, offset, length)
        return bytes.fromhex(self.peer.wait(self.number, 1, "data")[2])

    def poke(self, region, offset, data):
        """Changes what exposed memory holds."""
        self.peer.tell("poke", self.number, region.index, offset, data.hex())

    def handle(self, name=b"data"):
        """Returns the file handle of a name below the directory `hostile`."""
        if name not in self._handles:
            parent = self.export if name == b"hostile" else self.handle(b"hostile")
            reply = self.ask(nfs_calls.lookup(self.xid(), parent, name))
            results = nfs_calls.result(reply.body)
            failed, length = struct.unpack_from(">2I", results)
            if failed:
                raise SystemExit(f"LOOKUP of {name}: {failed}")
            self._handles[name] = results[8 : 8 + length]
        return self._handles[name]

    def directory(self):
        """Returns the file handle of the directory `hostile`."""
        return self.handle(b"hostile")

    def post(self, message):
        """Sends a message on the current connection; returns how the Send ended."""
        return self.peer.send(self.ready(), message)

    def answer(self, timeout=SILENT):
        """Returns the next message of the server.

        # Errors
        `SilenceError` without one; `ConnectionResetError` when the server closed the connection.
        """
        event = self.peer.wait(self.number, timeout, "received", "disconnected")
        if event[0] == "disconnected":
            self.number = None
            raise ConnectionResetError
        return Reply(self.number, bytes.fromhex(event[2]), int(event[3], 16))

    def ask(self, body, timeout=HONEST):
        """Sends an honest inline call and returns its reply."""
        (xid,) = struct.unpack_from(">I", body)
        one = header(xid) + lists() + body
        self.post(one if self.version == 1 else second.rpc(xid, second.CALL, body))
        while True:
            reply = self.answer(timeout)
            if reply.xid == xid:
                return reply

    def outcome(self, timeout=SILENT):
        """Returns the outcome of the message that was sent last, and the reply, if any."""
        try:
            reply = self.answer(timeout)
        except SilenceError:
            return SILENCE, None
        except ConnectionResetError:
            return CLOSED, None
        return outcome_of(reply), reply

    def judge(self, message, timeout=SILENT):
        """Sends a message; returns its outcome and the reply, if any.

        A connection that the server has not closed must serve the next honest call.
        """
        self.post(message)
        found, reply = self.outcome(timeout)
        return self.then_served(found), reply

    def then_served(self, found):
        """Returns `found`, with an addition if an open connection no longer serves honest calls."""
        if found == CLOSED:
            return found
        try:
            then = outcome_of(self.ask(nfs_calls.null(self.xid())))
        except SilenceError:
            self.close()
            return f"{found}, then stuck"
        except ConnectionResetError:
            return f"{found}, then closed"
        return found if then == ANSWERED else f"{found}, then {then}"

    def hold(self):
        """Keeps everything as it is until the scenario has done its work beside it."""
        meet("holding", RELEASE)

    def stall(self):
        """Waits until the scenario has stopped mountd."""
        meet("stall", STALLED)


def meet(word, path):
    """Prints a word for the scenario, and waits for the file that it makes then.

    # Errors
    `SystemExit` when it does not make the file.
    """
    print(word, flush=True)
    deadline = time.monotonic() + 200
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            raise SystemExit(f"nobody has made {path}")
        time.sleep(0.1)


def error_of(reply):
    """Names an error."""
    if reply.error == ERR_VERS:
        low, high = struct.unpack_from(">2I", reply.message, 20)
        return f"ERR_VERS {low}-{high}"
    names = ERRORS_OF_TWO if reply.version == 2 else {ERR_CHUNK: CHUNK}
    return names.get(reply.error, f"error {reply.error}")


def outcome_of(reply):
    """Names what kind of answer a message is."""
    if reply.kind == ERROR:
        return error_of(reply)
    if reply.opttype is not None:
        return second.NAMES.get(reply.opttype, f"operation {reply.opttype}")
    if reply.kind == NOMSG:
        return "long reply"
    try:
        nfs_calls.result(reply.body)
    except nfs_calls.RpcError as error:
        return str(error)
    except struct.error:
        return f"a reply of {len(reply.body)} bytes"
    return ANSWERED


class Case:
    """A case. `act(link)` yields (step, outcome).

    `ours`, `stock`: the outcomes that each server may have: one, a tuple of several, or a dict of
    these by the first word of the step, with the rest under "". `stock` is that of `ours` by
    default.
    """

    def __init__(self, number, name, act, ours, stock=None, **options):
        self.number, self.name, self.act = number, f"{number:02d}-{name}", act
        self.ours, self.stock = ours, ours if stock is None else stock
        #: The parameters of connections.
        self.parameters = options.pop("parameters", {})
        #: Whether mountd is stopped during the case, so that nfsd cannot look the export up.
        self.stalls = options.pop("stalls", False)
        #: Whether the case holds a connection in a bad state, and each server serves others then.
        self.holds = options.pop("holds", False)
        self.stock_starves = options.pop("stock_starves", False)
        #: Whether the stock server prints a report.
        self.stock_warns = options.pop("stock_warns", False)
        #: Whether the stock server keeps the connection after its requester has gone.
        self.stock_keeps = options.pop("stock_keeps", False)
        #: Whether the case is about version two, which a stock server does not know.
        self.of_two = options.pop("of_two", False)
        #: Whether the case is about messages of RFC 5666, which a stock server does not serve.
        self.of_old = options.pop("of_old", False)
        #: Whether the case is not played against a stock server.
        self.ours_alone = options.pop("ours_alone", False)
        assert not options, options

    def allowed(self, server, what):
        """Returns the outcomes that a server, `ours` or `stock`, may have for a step."""
        wanted = getattr(self, server)
        if isinstance(wanted, dict):
            wanted = wanted.get(what.split()[0], wanted.get("", ()))
        return (wanted,) if isinstance(wanted, str) else tuple(wanted)
