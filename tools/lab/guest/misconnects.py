# SPDX-License-Identifier: GPL-2.0
"""Hostile requests of several messages: connections, credits, repetition, and vanishing.

The numbers are those of the list in Documentation/lab-hostile.rst.
"""

import time

import nfs_calls
from misheaders import BAD_KEY, PAYLOAD, clear, data_is, null_with, read_call, write_call, written
from peer import SilenceError, header, lists, words
from requester import ANSWERED, CHUNK, CLOSED, REFUSED, REMOTE, SILENCE, Case, pattern

#: Where the XID of an RPC message is in a message without chunks.
INNER = 28
UNHURT = "unhurt"
#: The largest payload of Linux' server.
LARGEST = 4 << 20


def hurt(link):
    """Returns whether a new connection is served, which is all that can be seen of some cases."""
    link.number = None
    link.open()
    return link.then_served(UNHURT)


def without_sizes(link):
    """Agrees on 1024 bytes: a reply of more needs a chunk, and none is invalidated remotely."""
    for private in ("-", "00" * 8, "f6ab0e18", "f6ab0e1802010303", "0102030405060708"):
        link.close()
        link.open(private=private)
        yield f"reply of 600 after {private}", link.judge(read_call(link, 400))[0]
        yield f"long reply after {private}", link.judge(read_call(link, 2000))[0]


def sizes_of_zero(link):
    link.open(private="f6ab0e1801000000")
    yield "reply of 600", link.judge(read_call(link, 400))[0]
    yield "long reply", link.judge(read_call(link, 2000))[0]


def no_read_depth(link):
    try:
        link.close()
        link.open(limits=(4, 0, 7))
        yield "no RDMA Read", link.then_served("accepted")
    except ConnectionRefusedError:
        yield "no RDMA Read", REFUSED


def plain(found, reply):
    """Returns the outcome of a call whose reply must not invalidate."""
    return f"invalidated {reply.invalidated:#x}" if reply and reply.invalidated else found


def unequal_keys(link):
    link.open(private=REMOTE)
    first, second = link.expose(4096), link.expose(4096)
    message = read_call(link, 8192, writes=[[first.at(), second.at()]])
    yield "two keys", plain(*link.judge(message))


def no_invalidation(link):
    link.open()
    region = link.expose(8192)
    yield "one key", plain(*link.judge(read_call(link, 8192, writes=[[region.at()]])))


def key_of_another(link):
    region = link.expose(65536)
    for _ in range(2):
        link.post(read_call(link, 65536, writes=[[region.at()]]))
    found = {link.outcome(20)[0] for _ in range(2)}
    yield "two READs", link.then_served(" ".join(sorted(found)))


def beyond_the_grant(link):
    """Sends 400 calls that nfsd cannot answer yet."""
    handle = link.handle()
    link.stall()
    xid = link.xid() << 12
    message = header(xid) + lists() + nfs_calls.getattr3(xid, handle)
    link.peer.tell("burst", link.number, 400, INNER, message.hex(), timeout=100)
    yield "400 calls", after_many(link, 400, 20)


def after_many(link, count, limit):
    """Returns the outcome of many calls: closed, silence, or answered if all were."""
    found = set()
    for _ in range(count):
        outcome, _ = link.outcome(limit)
        found.add(outcome)
        if outcome in (CLOSED, SILENCE):
            return outcome
    return " ".join(sorted(found))


def no_receives(link):
    """Accepts no reply at all, and makes the server's device retry endlessly."""
    # The handles are known from an honest connection.
    handle = link.handle()
    link.close()
    numbers = []
    for count in (1, 64):
        numbers.append((count, link.open(receives=0)))
        xid = link.xid() << 12
        message = header(xid) + lists() + nfs_calls.getattr3(xid, handle)
        link.peer.tell("burst", link.number, count, INNER, message.hex(), timeout=100)
    link.hold()
    for count, number in numbers:
        link.number = number
        yield f"{count} calls", link.outcome(100)[0]


def slow_reader(link):
    """Takes 4 replies, and the rest a while later."""
    handle = link.handle()
    link.close()
    link.open(receives=4, flags="r")
    xid = link.xid() << 12
    message = header(xid) + lists() + nfs_calls.getattr3(xid, handle)
    link.peer.tell("burst", link.number, 16, INNER, message.hex(), timeout=100)
    link.hold()
    for _ in range(4):
        link.peer.tell("receive", link.number, 4)
        time.sleep(0.5)
    yield "16 calls", after_many(link, 16, 20)


def request_flood(link):
    for _ in range(60):
        link.peer.connect(flags="m")
    yield "60 requests", hurt(link)


def half_open(link):
    for _ in range(4):
        link.peer.connect(flags="m")
    yield "4 requests", hurt(link)


def leaving(link):
    """Leaves at each step of a call."""
    handle = link.handle()
    link.handle(b"scratch")
    for _ in range(3):
        link.open()
        link.peer.tell("drop", link.number)
    for size in (65536, PAYLOAD):
        link.open()
        region = link.expose(size)
        link.post(write_call(link, size, [(0, region.at())]))
        link.peer.tell("drop", link.number)
        link.open()
        region = link.expose(size)
        link.post(read_call(link, size, writes=[[region.at()]]))
        link.peer.tell("drop", link.number)
    for _ in range(3):
        link.open()
        xid = link.xid() << 12
        message = header(xid) + lists() + nfs_calls.getattr3(xid, handle)
        link.peer.tell("burst", link.number, 16, INNER, message.hex())
        link.peer.tell("disconnect", link.number)
        link.peer.tell("drop", link.number)
    yield "10 connections", hurt(link)


def never_established(link):
    link.open(flags="e")
    xid = link.xid()
    link.post(header(xid) + lists() + nfs_calls.null(xid))
    yield "NULL", link.outcome(10)[0]


def early_call(link):
    link.open(flags="e")
    xid = link.xid()
    link.post(header(xid) + lists() + nfs_calls.null(xid))
    time.sleep(0.3)
    link.peer.tell("establish", link.number)
    yield "NULL", link.then_served(link.outcome(20)[0])


def replies(link):
    """Sends RPC replies where no call of the server is open."""
    xid = link.xid()
    yield "to no call", link.judge(header(xid) + lists() + words(xid, 1, 0, 0, 0, 0))[0]


def removed(link, name, xid):
    """Sends REMOVE of a file and returns the status of NFS."""
    return nfs_calls.status(link.ask(nfs_calls.remove(xid, link.directory(), name)).body)


def made(link, name):
    xid = link.xid()
    return nfs_calls.status(link.ask(nfs_calls.create(xid, link.directory(), name)).body)


def replayed(link):
    made(link, b"replayed")
    xid = link.xid()
    first, second = removed(link, b"replayed", xid), removed(link, b"replayed", xid)
    yield "REMOVE twice", ANSWERED if (first, second) == (0, 0) else f"status {first}, {second}"


def replayed_after_reconnect(link):
    made(link, b"again")
    xid = link.xid()
    first = removed(link, b"again", xid)
    link.close()
    second = removed(link, b"again", xid)
    yield "REMOVE twice", ANSWERED if (first, second) == (0, 0) else f"status {first}, {second}"


def twice_in_flight(link):
    made(link, b"twice")
    xid = link.xid()
    body = nfs_calls.remove(xid, link.directory(), b"twice")
    for _ in range(2):
        link.post(header(xid) + lists() + body)
    found, reply = link.outcome(20)
    status = nfs_calls.status(reply.body) if found == ANSWERED else -1
    link.outcome(1)
    yield "REMOVE", link.then_served(found if status == 0 else f"{found} {status}")


def deferred(link):
    """Sends calls that nfsd has to defer because it does not know the export."""
    handle = link.handle()
    link.stall()
    xid = link.xid() << 12
    message = header(xid) + lists() + nfs_calls.getattr3(xid, handle)
    link.peer.tell("burst", link.number, 16, INNER, message.hex(), timeout=100)
    link.hold()
    found = after_many(link, 16, 20)
    # nfsd may drop calls that it has deferred.
    yield "16 calls", link.then_served(ANSWERED if found == SILENCE else found)


def misuse_of_verbs(link):
    body = null_with(link)
    done = link.peer.tell("sendinv", link.ready(), f"{BAD_KEY:x}", body.hex())
    yield "invalidate a key", CLOSED if done != "success" else link.outcome(5)[0]
    link.close()
    done = link.peer.tell("write", link.open(), f"{BAD_KEY:x}", "1000", "00" * 16)
    yield "write to a key", CLOSED if done != "success" else f"written: {done}"
    link.close()
    done = link.peer.tell("read", link.open(), f"{BAD_KEY:x}", "1000", 16)
    yield "read from a key", CLOSED if done != "success" else f"read: {done}"
    link.close()
    link.peer.tell("sendimm", link.open(), null_with(link).hex())
    yield "immediate data", link.outcome(5)[0]
    link.close()
    done = link.peer.tell("writeimm", link.open(), "0", "0", "-")
    yield "immediate-write of nothing", link.outcome(5)[0]


def too_long(link):
    for size in (4097, 5000, 60000):
        yield f"{size} bytes", link.judge(null_with(link).ljust(size, b"\0"), 10)[0]


def unproven(link):
    """Opens more connections than a server keeps that have sent no call, and one that has."""
    for _ in range(70):
        link.open()
    time.sleep(2)
    closed = 0
    try:
        while True:
            link.peer.event(1, "disconnected")
            closed += 1
    except SilenceError:
        pass
    yield f"70 connections, {closed} closed", "some closed" if closed else "none closed"


def all_answered(link):
    """Uses 64 connections at once, each for 8 calls."""
    handle = link.handle()
    link.close()
    numbers = []
    for _ in range(64):
        number = link.open()
        numbers.append(number)
        # It proves the connection: the server closes connections beyond 64 that never called.
        link.ask(nfs_calls.null(link.xid()))
    for number in numbers:
        xid = link.xid() << 12
        message = header(xid) + lists() + nfs_calls.getattr3(xid, handle)
        link.peer.tell("burst", number, 8, INNER, message.hex(), timeout=100)
    found = set()
    for number in numbers:
        link.number = number
        found.add(after_many(link, 8, 20))
    link.hold()
    yield "64 connections", " ".join(sorted(found))


def largest_payload(link):
    """Writes and reads 4 MiB in one call each."""
    size = LARGEST
    clear(link)
    source = link.expose(size)
    yield "WRITE of 4 MiB", written(link, write_call(link, size, [(0, source.at())]), size)
    target = link.expose(size)
    handle, xid = link.handle(b"scratch"), link.xid()
    # Other contents than the exposed memory has already.
    body = nfs_calls.read(xid, handle, 4097, size - 4097)
    chunks = lists(writes=[[target.at()]])
    found, reply = link.judge(header(xid) + chunks + body, 20)
    used = sum(length for chunk in (reply.writes if reply else []) for _, length, _ in chunk)
    if found == ANSWERED and used != size - 4097:
        found = f"{used} bytes"
    for at in (0, 1 << 20, size - 8192):
        if found == ANSWERED and link.peek(target, at, 4000) != pattern(at + 4097, 4000):
            found = f"wrong data at {at}"
    yield "READ of 4 MiB", found


def many_segments(link):
    """Sends sixteen WRITEs at once that have thirty-two segments each.

    A device of iWARP needs a memory region of the server's for each of them.
    """
    clear(link)
    pages = [at << 12 for at in range(32)]
    region = link.expose(len(pages) << 12)
    parts = [(at, region.at(at, 4096)) for at in pages]
    message = write_call(link, region.length, parts)
    inner = message.index(message[:4], 4)
    link.peer.tell("burst", link.number, 16, inner, message.hex(), timeout=100)
    found = after_many(link, 16, 60)
    if found == ANSWERED and not data_is(link, region.length):
        found = "wrong data"
    yield "16 WRITEs", link.then_served(found)


def unanswered_reads(link):
    """Sends long calls over three connections, and serves none of the RDMA Reads that fetch them.

    Together they are longer than all that the server fetches at one time. The shorter ones fill
    what the long ones leave.
    """
    link.handle(b"scratch")
    link.close()
    numbers = []
    for size in (LARGEST, LARGEST, LARGEST >> 4):
        numbers.append(link.open(flags="t"))
        message = write_call(link, size, [(0, link.expose(size).at())])
        inner = message.index(message[:4], 4)
        link.peer.tell("burst", link.number, 16, inner, message.hex(), timeout=100)
        link.peer.tell("mute", link.number)
    link.hold()
    for number in numbers:
        link.number = number
        yield "16 calls", link.outcome(100)[0]


SHORT = {"reply": ANSWERED, "long": CHUNK}
VERBS = {
    "immediate": (ANSWERED, CLOSED),
    "immediate-write": (SILENCE, CLOSED),
    "": CLOSED,
}

CASES = [
    Case(32, "no-private-data", without_sizes, SHORT, {"": ANSWERED}),
    Case(33, "sizes-of-zero", sizes_of_zero, SHORT, {"": ANSWERED}),
    Case(34, "no-read-depth", no_read_depth, REFUSED),
    Case(35, "unequal-keys", unequal_keys, ANSWERED),
    Case(36, "no-invalidation", no_invalidation, ANSWERED),
    Case(37, "key-of-another", key_of_another, ANSWERED),
    Case(38, "beyond-the-grant", beyond_the_grant, CLOSED, SILENCE, stalls=True),
    Case(
        39,
        "no-receives",
        no_receives,
        CLOSED,
        (SILENCE, CLOSED),
        holds=True,
        stock_starves=True,
    ),
    Case(40, "slow-reader", slow_reader, ANSWERED, holds=True, stock_starves=True),
    Case(42, "request-flood", request_flood, UNHURT, stock_keeps=True),
    Case(43, "half-open", half_open, UNHURT, stock_keeps=True),
    Case(44, "leaving", leaving, UNHURT),
    Case(45, "never-established", never_established, ANSWERED, SILENCE),
    Case(46, "early-call", early_call, ANSWERED),
    Case(47, "replies", replies, SILENCE),
    Case(49, "replayed", replayed, ANSWERED),
    Case(50, "replayed-after-reconnect", replayed_after_reconnect, ANSWERED),
    Case(51, "twice-in-flight", twice_in_flight, ANSWERED),
    Case(52, "deferred", deferred, ANSWERED, stalls=True, holds=True),
    Case(53, "misuse-of-verbs", misuse_of_verbs, VERBS, {**VERBS, "immediate-write": CHUNK}),
    Case(54, "too-long", too_long, CLOSED),
    Case(55, "unproven", unproven, "some closed"),
]

#: Cases that break no rule.
LOADS = [
    Case(101, "sixty-four-connections", all_answered, ANSWERED),
    Case(102, "largest-payload", largest_payload, ANSWERED),
    Case(106, "unanswered-reads", unanswered_reads, CLOSED),
    Case(107, "many-segments", many_segments, ANSWERED),
]
