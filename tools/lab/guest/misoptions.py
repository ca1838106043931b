# SPDX-License-Identifier: GPL-2.0
"""Hostile requests in version two, and of both versions on one connection.

The numbers are those of the list in Documentation/lab-hostile.rst. A stock server knows version
one only, so these cases are about ours.
"""

import time

import nfs_calls
import second
from misconnects import plain
from misheaders import KNOWN, VERSIONS, null_with
from peer import ERROR, MSG, NOMSG, SilenceError, header, lists, words
from requester import ANSWERED, REMOTE, SILENCE, Case

HUGE = 0xFFFFFFFF
BAD, INVALID = "BAD_HEADER", "INVAL_OPTION"


def begin(link):
    """Makes the connection one of version two, and takes the server's announcement."""
    link.version = 2
    link.ask(nfs_calls.null(link.xid()))
    first = link.answer()
    if first.opttype != second.INIT:
        raise SystemExit(f"the server announces nothing: {first.message.hex()}")


def operation(link, opttype, info, direction=second.CALL, payload=b""):
    """Returns an optional operation with a fresh XID."""
    return second.optional(link.xid(), direction, opttype, info, payload)


def announce(link, *values, **options):
    return operation(link, second.INIT, second.init(*values, **options))


def two_then_one(link):
    begin(link)
    yield "one", link.judge(null_with(link))[0]
    yield "three", link.judge(null_with(link, version=3))[0]


def one_then_two(link):
    link.ask(nfs_calls.null(link.xid()))
    xid = link.xid()
    yield "NULL in version two", link.judge(second.rpc(xid, 0, nfs_calls.null(xid)))[0]
    yield "INIT", link.judge(announce(link))[0]


def neither(link):
    """Calls in versions that the server does not know, before any other message."""
    for version in (0, 3, HUGE):
        link.close()
        link.open()
        yield f"version {version}", link.judge(null_with(link, version=version))[0]
    link.close()
    link.open()
    link.version = 2
    link.judge(null_with(link, version=3))
    yield "two after them", link.then_served(ANSWERED)


def odd_announcements(link):
    begin(link)
    unknown = [second.value(which, b"12345"[: which % 6]) for which in range(70, 130)]
    yield "unknown", link.judge(announce(link, *unknown))[0]
    experiments = [second.value(second.EXPERIMENTAL + n, n) for n in range(10)]
    yield "experiments", link.judge(announce(link, *experiments, fixed=(HUGE,) * 4))[0]
    twice = [second.value(second.RECEIVE_SIZE, size) for size in (8192, 4096)]
    yield "twice", link.judge(announce(link, *twice))[0]
    yield "nothing", link.judge(announce(link))[0]


def bad_announcements(link):
    begin(link)
    cut = {
        "empty": b"",
        "count alone": words(1),
        "short size": second.init(second.value(second.RECEIVE_SIZE, b"\0\0")),
        "no boolean": second.init(second.value(second.INVALIDATION, 7)),
        "no level": second.init(second.value(second.BACKWARD, 9)),
        "long value": words(1, second.RECEIVE_SIZE, 4000, 4096, 0),
        "count of 2^32": words(HUGE, second.RECEIVE_SIZE, 4, 4096, 0),
        "subset of 2^32": words(0, HUGE),
    }
    for name, info in cut.items():
        yield name, link.judge(operation(link, second.INIT, info))[0]


def small_receives(link):
    """Announces Receives that no peer may have. The mount's replies must still fit."""
    for size in (0, 100, 1023):
        link.close()
        link.version = 2
        link.open()
        begin(link)
        value = second.value(second.RECEIVE_SIZE, size)
        yield f"size {size}", link.judge(announce(link, value))[0]


def unknown_operations(link):
    begin(link)
    link.handle(b"scratch")
    for opttype in (0, 5, 77, HUGE):
        yield f"type {opttype}", link.judge(operation(link, opttype, b"abc"))[0]
    xid = link.xid()
    body = nfs_calls.create(xid, link.directory(), b"not-made")
    message = second.optional(xid, second.CALL, 77, b"", body)
    yield "with an RPC", link.judge(message)[0]
    reply = link.ask(nfs_calls.lookup(link.xid(), link.directory(), b"not-made"))
    yield "not executed", f"status {nfs_calls.status(reply.body)}"


def misformed_operations(link):
    begin(link)
    xid = link.xid()
    message = second.optional(xid, second.CALL, second.INIT, second.init(), nfs_calls.null(xid))
    yield "INIT with an RPC", link.judge(message)[0]
    wanted = second.request(second.value(second.RECEIVE_SIZE, 8192))
    yield "REQ as a reply", link.judge(operation(link, second.REQ, wanted, second.REPLY))[0]
    yield "direction 7", link.judge(operation(link, second.INIT, second.init(), 7))[0]
    message = header(link.xid(), second.OPTIONAL, version=2) + words(0, second.INIT, HUGE)
    yield "optinfo of 2^32", link.judge(message)[0]


def unasked_answers(link):
    begin(link)
    nothing = words(0, 0, 0)
    yield "RESP", link.judge(operation(link, second.RESP, nothing, second.REPLY))[0]
    yield "error", link.judge(second.error(link.xid(), second.ERR_INVAL_OPTION))[0]
    yield "error 9", link.judge(second.error(link.xid(), 9))[0]
    yield "a reply", link.judge(second.rpc(link.xid(), 1, words(1, 1, 0, 0, 0, 0)))[0]


def three_requests(link):
    """Asks for a size in the range, a change that cannot be, and an experiment."""
    begin(link)
    wanted = second.request(
        second.value(second.RECEIVE_SIZE, 4096),
        second.value(second.INVALIDATION, 1),
        second.value(second.EXPERIMENTAL, 1),
    )
    link.post(operation(link, second.REQ, wanted))
    answer = link.answer()
    subsets = answer.subsets() if answer.opttype == second.RESP else [(), (), ()]
    done, rejected, pending = (sum(subset[:1]) for subset in subsets)
    found = f"RESP of {done | rejected | pending:#b}"
    yield "three elements", link.then_served(found)
    yield "not possible", f"rejected {rejected & 6:#b}"
    for count in (33, 100):
        wanted = second.request(*(second.value(70 + n, n) for n in range(count)))
        link.post(operation(link, second.REQ, wanted))
        _, rejected, _ = link.answer().subsets()
        bits = sum(word << (32 * n) for n, word in enumerate(rejected))
        yield f"{count} elements", "all rejected" if bits == (1 << count) - 1 else f"{bits:#x}"


def many_operations(link):
    """Announces the same many times, as many at once as the server has Receives for calls."""
    begin(link)
    message = announce(link, second.value(second.RECEIVE_SIZE, 4096))
    for _ in range(4):
        # More would wait for Receives, and rxe can lose the messages behind the first that waits.
        link.peer.tell("flood", link.number, 16, message.hex())
        time.sleep(0.5)
    yield "64 INITs", link.then_served(SILENCE)
    wanted = second.request(second.value(second.RECEIVE_SIZE, 4096))
    link.peer.tell("flood", link.number, 16, operation(link, second.REQ, wanted).hex())
    answers = sum(link.answer().opttype == second.RESP for _ in range(16))
    yield "16 REQs", link.then_served(f"{answers} answers")


def bad_calls(link):
    begin(link)
    link.judge(announce(link))
    for kind in (2, 3, 6, HUGE):
        message = header(link.xid(), kind, version=2) + words(0) + lists()
        yield f"type {kind}", link.judge(message)[0]
    for size in (16, 20, 24, 28, 31):
        message = (header(link.xid(), version=2) + words(0) + lists())[:size]
        yield f"cut {size}", link.judge(message)[0]
    xid = link.xid()
    yield "direction 5", link.judge(second.rpc(xid, 5, nfs_calls.null(xid)))[0]
    # A reply by its header, and a call by its RPC message.
    xid = link.xid()
    yield "neither way", link.judge(second.rpc(xid, 1, nfs_calls.null(xid)))[0]
    empty = header(link.xid(), NOMSG, version=2) + words(0) + lists()
    yield "nothing long", link.judge(empty)[0]
    huge = header(link.xid(), MSG, version=2) + words(0, 0, 1, HUGE) + words(1, 4, 0, 0) * 9
    yield "huge write", link.judge(huge)[0]


def read_of(link):
    """Returns the outcome of a READ whose one chunk may be invalidated, and the reply."""
    region = link.expose(8192)
    handle, xid = link.handle(), link.xid()
    chunks = lists(writes=[[region.at()]])
    message = second.rpc(xid, 0, nfs_calls.read(xid, handle, 0, 8192), chunks)
    return link.judge(message)


def invalidation(link):
    """Announces remote invalidation in the private data, which are version one's."""
    link.open(private=REMOTE)
    begin(link)
    yield "one key", plain(*read_of(link))
    link.judge(announce(link, second.value(second.INVALIDATION, 0)))
    yield "one key refused", plain(*read_of(link))


def first_message_of_others(link):
    """Begins with a message that is no call: a server must not mistake it for one."""
    error = header(link.xid(), ERROR, version=2) + words(2)
    link.version = 2
    yield "an error", link.judge(error)[0]
    link.close()
    link.open()
    xid = link.xid()
    link.post(second.optional(xid, second.CALL, second.INIT, second.init()))
    answer = link.answer()
    same = "the same" if answer.xid == xid else "another"
    yield "INIT", f"operation {answer.opttype} with {same} XID"


#: The announcements of clients about calls in the backward direction.
LEVELS = {"unsaid": (), "unknown": (0,), "none": (1,), "limited": (2,), "general": (3,)}


class Session:
    """A session of NFSv4.1 whose callbacks come over the same connection."""

    def __init__(self, link):
        self._link, self._number = link, 0
        reply = link.ask(nfs_calls.exchange_id(link.xid(), b"%d" % link.xid()))
        self.client, sequence = nfs_calls.exchanged(reply.body)
        reply = link.ask(nfs_calls.create_session(link.xid(), self.client, sequence))
        self._session = nfs_calls.first_result(reply.body)[:16]
        self.ask(nfs_calls.reclaim_complete())

    def ask(self, *operations):
        """Calls, until the server's grace period has passed.

        # Errors
        `RpcError` when an operation fails.
        """
        while True:
            self._number += 1
            xid = self._link.xid()
            call = nfs_calls.in_session(xid, self._session, self._number, *operations)
            reply = self._link.ask(call)
            if nfs_calls.status(reply.body) != nfs_calls.GRACE:
                return nfs_calls.first_result(reply.body)
            time.sleep(1)


def called_back(link, name):
    """Takes a delegation for a new file, writes to the file, and waits for the recall."""
    link.ask(nfs_calls.create(link.xid(), link.directory(), name))
    handle, session = link.handle(name), Session(link)
    session.ask(*nfs_calls.open4(session.client, (b"export", b"hostile", name)))
    xid = link.xid()
    link.post(second.rpc(xid, second.CALL, nfs_calls.write_head(xid, handle, 0, 4) + b"data"))
    found = SILENCE
    while True:
        try:
            message = link.answer()
        except SilenceError:
            return found
        if message.body[4:8] == words(second.CALL):
            found = ANSWERED
            success = words(message.xid, 1, 0, 0, 0, 0)
            link.post(second.rpc(message.xid, second.REPLY, success))


def backward_support(link):
    """Says whether calls of the server are welcome, and brings one about."""
    for name, level in LEVELS.items():
        link.close()
        link.version = 2
        link.open()
        begin(link)
        link.judge(announce(link, *(second.value(second.BACKWARD, one) for one in level)))
        yield name, link.then_served(called_back(link, b"level-" + name.encode()))


CASES = [
    Case(56, "two-then-one", two_then_one, "ERR_VERS 2-2", of_two=True),
    Case(57, "one-then-two", one_then_two, VERSIONS, of_two=True),
    Case(58, "neither-version", neither, {"two": ANSWERED, "": KNOWN}, of_two=True),
    Case(59, "odd-announcements", odd_announcements, SILENCE, of_two=True),
    Case(60, "bad-announcements", bad_announcements, BAD, of_two=True),
    Case(61, "small-receives", small_receives, SILENCE, of_two=True),
    Case(
        62,
        "unknown-operations",
        unknown_operations,
        {"not": "status 2", "": INVALID},
        of_two=True,
    ),
    Case(63, "misformed-operations", misformed_operations, BAD, of_two=True),
    Case(64, "unasked-answers", unasked_answers, SILENCE, of_two=True),
    Case(
        65,
        "three-requests",
        three_requests,
        {"three": "RESP of 0b111", "not": "rejected 0b110", "": "all rejected"},
        of_two=True,
    ),
    Case(
        66,
        "many-operations",
        many_operations,
        {"16": "16 answers", "": SILENCE},
        of_two=True,
    ),
    Case(
        67,
        "bad-calls",
        bad_calls,
        {"neither": SILENCE, "": BAD},
        of_two=True,
    ),
    Case(68, "invalidation", invalidation, ANSWERED, of_two=True),
    Case(
        69,
        "no-first-call",
        first_message_of_others,
        {"INIT": "operation 1 with the same XID", "": SILENCE},
        of_two=True,
    ),
    Case(81, "backward-support", backward_support, {"none": SILENCE, "": ANSWERED}, of_two=True),
]
