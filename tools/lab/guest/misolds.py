# SPDX-License-Identifier: GPL-2.0
"""A requester of RFC 5666: RDMA_MSGP, RDMA_DONE and the program 100417, honest and hostile.

The numbers are those of the list in Documentation/lab-hostile.rst. A stock server serves nothing of
this, so these cases are about ours.
"""

import struct

import nfs_calls
from misheaders import BAD_KEY, clear, write_call
from peer import DONE, MSGP, Call, header, lists, words
from requester import ANSWERED, CHUNK, SILENCE, Case, pattern

HUGE = 0xFFFFFFFF
CONF, CONF_RDMA = 100417, 1
#: Parameters of connections: no private data, as clients of that generation connect.
OLD = {"private": ""}
#: Bytes of the header of RDMA_MSGP without chunks.
HEADER = 36
#: Bytes of data that fit a reply without an agreement on longer ones.
PIECE = 512
#: An operation of NFSv4 whose arguments the server knows, and one whose arguments it does not.
V4_WRITE, V4_OPEN = 38, 18


def padded(xid, numbers, head, data=b"", pad=None, body=None):
    """Returns an RDMA_MSGP. `head` ends with the length of `data`, which is padded by `numbers`.

    `pad` is the padding that is really sent.
    """
    align = numbers[0]
    if pad is None:
        pad = -(HEADER + len(head)) % align if len(data) >= numbers[1] else 0
    data += bytes(-len(data) % 4)
    message = header(xid, MSGP) + words(*numbers) + (lists() if body is None else body)
    # Padding need not be zeros.
    return message + head + b"\x55" * pad + data


def write_padded(link, size, numbers, **options):
    """Returns a WRITE to the file `scratch` with its data inline and padded."""
    handle = link.handle(b"scratch")
    xid = link.xid()
    head = nfs_calls.write_head(xid, handle, 0, size)
    return padded(xid, numbers, head, pattern(0, size), **options)


def stored(link, size):
    """Returns whether the file `scratch` begins with the pattern, and has zeros behind it."""
    wanted = pattern(0, size) + bytes(PIECE)
    pieces = [wanted[at : at + PIECE] for at in range(0, size + 1, PIECE)]
    return all(holds(link, at * PIECE, piece) for at, piece in enumerate(pieces))


def holds(link, offset, data):
    """Returns whether the file `scratch` has these bytes, which fit a short reply."""
    reply = link.ask(nfs_calls.read(link.xid(), link.handle(b"scratch"), offset, len(data)))
    return reply.body.endswith(data + bytes(-len(data) % 4))


def written(link, message, size):
    """Returns the outcome of a padded WRITE, which must have stored its data and no padding."""
    clear(link)
    found, reply = link.judge(message)
    if found != ANSWERED:
        return found
    if failed := nfs_calls.status(reply.body):
        return f"status {failed}"
    return ANSWERED if stored(link, size) else "wrong data"


def padded_writes(link):
    link.handle(b"scratch")
    for align in (4, 8, 64, 256, 512, 1024, 2048):
        for size in (1024, 1023):
            message = write_padded(link, size, (align, 512))
            yield f"aligned to {align}, {size} bytes", written(link, message, size)
    # At the threshold, and just below it.
    for size in (600, 599):
        message = write_padded(link, size, (512, 600))
        yield f"{size} bytes with a threshold of 600", written(link, message, size)


def padded_fourth(link):
    """A COMPOUND of version 4 with operations before and behind the WRITE."""
    clear(link)
    size = 777
    xid = link.xid()
    walk = nfs_calls.path4(b"export", b"hostile", b"scratch")
    operations = [*walk, words(V4_WRITE, 0, 0, 0, 0) + struct.pack(">QII", 0, 2, size)]
    head = nfs_calls.opaque(b"") + words(0, len(operations) + 1) + b"".join(operations)
    head = nfs_calls.call(xid, nfs_calls.COMPOUND, head, version=4)
    tail = words(nfs_calls.V4_GETATTR, 1, 0x10)
    message = padded(xid, (512, 700), head, pattern(0, size)) + tail
    found, reply = link.judge(message)
    if found == ANSWERED and nfs_calls.status(reply.body):
        found = f"status {nfs_calls.status(reply.body)}"
    yield (
        "WRITE and GETATTR",
        "wrong data" if found == ANSWERED and not stored(link, size) else found,
    )


def padded_others(link):
    """Calls with padding that have nothing to pad, or whose names are padded."""
    xid = link.xid()
    yield "NULL", link.judge(padded(xid, (512, 512), nfs_calls.null(xid)))[0]
    handle = link.handle()
    xid = link.xid()
    yield "GETATTR", link.judge(padded(xid, (512, 512), nfs_calls.getattr3(xid, handle)))[0]
    xid = link.xid()
    name, target = b"padded-link", b"t" * 600
    link.ask(nfs_calls.remove(link.xid(), link.directory(), name))
    head = nfs_calls.symlink_head(xid, link.directory(), name, len(target))
    found, _ = link.judge(padded(xid, (256, 512), head, target))
    reply = link.ask(nfs_calls.lookup(link.xid(), link.directory(), name))
    results = nfs_calls.result(reply.body)
    (length,) = struct.unpack_from(">I", results, 4)
    made = link.ask(nfs_calls.call(link.xid(), nfs_calls.READLINK, results[4 : 8 + length]))
    link.ask(nfs_calls.remove(link.xid(), link.directory(), name))
    right = found == ANSWERED and made.body.endswith(target)
    yield "SYMLINK", found if right else "wrong target"


def bad_padding(link):
    for align in (0, 1, 2, 3, 12, 4097, HUGE):
        message = write_padded(link, 1024, (align, 512), pad=0)
        yield f"aligned to {align}", link.judge(message)[0]
    for align in (4096, 1 << 31):
        message = write_padded(link, 1024, (align, 512), pad=0)
        yield f"aligned to {align:#x}, beyond the end", link.judge(message)[0]
    xid = link.xid()
    head = nfs_calls.write_head(xid, link.handle(b"scratch"), 0, 1024)
    yield "cut off", link.judge(padded(xid, (64, 512), head, pattern(0, 1024))[:-100])[0]
    endless = head[:-4] + words(HUGE)
    yield "endless data", link.judge(padded(xid, (64, 512), endless, pattern(0, 1024), pad=0))[0]
    reads = lists(reads=[(len(head), (BAD_KEY, 1024, 0))])
    message = padded(xid, (64, 512), head, pattern(0, 1024), body=reads)
    yield "read chunk", link.judge(message)[0]
    xid = link.xid()
    other = nfs_calls.call(xid, 1, words(1024), version=1, program=200000)
    yield "unknown program", link.judge(padded(xid, (64, 512), other, bytes(1024)))[0]
    xid = link.xid()
    compound = nfs_calls.opaque(b"") + words(0, 1, V4_OPEN, 1024)
    other = nfs_calls.call(xid, nfs_calls.COMPOUND, compound, version=4)
    yield "unknown operation", link.judge(padded(xid, (64, 512), other, bytes(1024)))[0]


def replies_with_padding(link):
    xid = link.xid()
    answer = words(xid, 1, 0, 0, 0, 0)
    yield "reply", link.judge(header(xid, MSGP) + words(64, 512) + lists() + answer)[0]


def dones(link):
    link.ask(nfs_calls.null(link.xid()))
    xid = link.xid()
    for what in ("for no call", "the same once more"):
        yield what, link.judge(header(xid, DONE))[0]
    reply = link.ask(nfs_calls.null(link.xid()))
    yield "for an answered call", link.judge(header(reply.xid, DONE))[0]
    yield "with bytes behind it", link.judge(header(link.xid(), DONE) + bytes(400))[0]


def first_done(link):
    link.close()
    link.open()
    yield "first message", link.judge(header(link.xid(), DONE))[0]


def flood_of_dones(link):
    link.ask(nfs_calls.null(link.xid()))
    for _ in range(500):
        link.post(header(link.xid(), DONE))
    yield "500 of them", link.then_served(link.outcome()[0])


def conf(xid, procedure, *values, version=1):
    """Returns a call of the Connection Configuration Protocol."""
    return nfs_calls.call(xid, procedure, words(*values), version, CONF)


def configured(link, *values):
    """Sends CONF_RDMA; returns the server's answer, or the failure of the call."""
    xid = link.xid()
    found, reply = link.judge(header(xid) + lists() + conf(xid, CONF_RDMA, *values))
    if found != ANSWERED:
        return found
    results = nfs_calls.result(reply.body)
    calls, align, reads = struct.unpack(">3I", results)
    return f"{calls} {align} {'some' if 0 < reads < 256 else reads}"


def configurations(link):
    for values in ((4096, 4096, 4), (0, 0, 0), (HUGE, HUGE, HUGE), (1024, 1, 1)):
        yield f"values {values}", configured(link, *values)
    yield "garbage, too short", configured(link, 4096, 4096)
    yield "garbage, too long", configured(link, 4096, 4096, 4, 4)


def configuration_calls(link):
    def ask(*arguments, **options):
        xid = link.xid()
        return link.judge(header(xid) + lists() + conf(xid, *arguments, **options))[0]

    yield "NULL", ask(0)
    yield "procedure 2", ask(2)
    yield "procedure of no one", ask(HUGE)
    yield "version 0", ask(0, version=0)
    yield "version 2", ask(1, 1, 2, 3, version=2)
    xid = link.xid()
    protected = words(xid, 0, 2, CONF, 1, 0, 6, 4, 1, 0, 0)
    yield "flavor 6", link.judge(header(xid) + lists() + protected)[0]
    xid = link.xid()
    plain = words(xid, 0, 2, CONF, 1, 0, 0, 0, 0, 0)
    yield "NULL without a credential", link.judge(header(xid) + lists() + plain)[0]
    xid = link.xid()
    other = words(xid, 0, 3, CONF, 1, 0, 0, 0, 0, 0)
    yield "another version of RPC", link.judge(header(xid) + lists() + other)[0]


def longer_replies(link):
    """The inline threshold follows the client's announcement."""

    def ask(size):
        handle = link.handle()
        xid = link.xid()
        message = header(xid) + lists() + nfs_calls.read(xid, handle, 0, size)
        found, reply = link.judge(message)
        right = found != ANSWERED or reply.body.endswith(pattern(0, size))
        return found if right else "wrong data"

    yield "short before", ask(512)
    yield "early", ask(2048)
    yield "request", configured(link, 4096, 4096, 4)
    yield "short after", ask(512)
    yield "late", ask(2048)
    yield "too long after", ask(4096)
    yield "request", configured(link, 4096, 0, 4)
    yield "early again", ask(2048)


def limited_reads(link):
    """Says how many RDMA Reads may be active, and writes by Read chunks."""
    for reads, size in ((64, 4096), (1, 4096), (1, 65536), (0, 4096)):
        yield "request", configured(link, 4096, 4096, reads)
        region = link.expose(size)
        half = size // 2
        parts = [(0, region.at(0, half)), (half, region.at(half, half))]
        yield f"{reads} reads, {size} bytes", link.judge(write_call(link, size, parts))[0]
    yield "inline", link.then_served(ANSWERED)


def exposed_reply(link, size):
    """Reads this number of bytes without a chunk; returns the outcome, XID and segments."""
    handle = link.handle()
    xid = link.xid()
    link.post(header(xid) + lists() + nfs_calls.read(xid, handle, 0, size))
    found, reply = link.outcome()
    if found != "long reply":
        return found, xid, []
    parts = Call(link.number, reply.message)
    return found, xid, [segment for position, segment in parts.reads if position == 0]


def fetched(link, segments):
    """Returns what RDMA Read finds in segments of the server's memory."""
    data = b""
    for handle, length, offset in segments:
        done = link.peer.tell("read", link.number, f"{handle:x}", f"{offset:x}", length)
        if done != "success":
            return done
        data += bytes.fromhex(link.peer.wait(link.number, 5, "data")[2])
    return data


def exposures(link):
    """Replies as read chunks, which the requester reads and acknowledges."""
    for size in (2048, 4096, 65536, 131073):
        found, xid, segments = exposed_reply(link, size)
        data = fetched(link, segments)
        if found != "long reply" or isinstance(data, str):
            yield f"{size} bytes", f"{found}, {data}"
            continue
        right = data[:4] == words(xid) and data.endswith(pattern(0, size) + bytes(-size % 4))
        yield f"{size} bytes", link.then_served(ANSWERED if right else "wrong data")
        yield "done", link.judge(header(xid, DONE))[0]
        yield "done again", link.judge(header(xid, DONE))[0]
        gone = fetched(link, segments)
        yield "read after it", "closed" if isinstance(gone, str) else "it still has the data"
        link.close()


def hoarded(link):
    """Replies that are read and never acknowledged: a bounded number is exposed."""
    found = [exposed_reply(link, 2048) for _ in range(12)]
    kinds = [kind for kind, _, _ in found]
    yield "first", kinds[0]
    yield "last", kinds[-1]
    yield "NULL", link.then_served(ANSWERED)
    for _, xid, segments in found:
        if segments:
            link.post(header(xid, DONE))
    yield "first after RDMA_DONE", exposed_reply(link, 2048)[0]


def undone(link):
    """A reply whose RDMA_DONE never comes."""
    yield "reply", exposed_reply(link, 2048)[0]
    yield "wait", link.outcome(60)[0]


SOME = "4096 4 some"
#: The server exposes replies as read chunks in these, as a setting says.
EXPOSING = [
    Case(
        103,
        "exposed-replies",
        exposures,
        {"done": SILENCE, "read": "closed", "": ANSWERED},
        of_old=True,
        parameters=OLD,
    ),
    Case(
        104,
        "hoarded-replies",
        hoarded,
        {"first": "long reply", "last": CHUNK, "": ANSWERED},
        of_old=True,
        parameters=OLD,
    ),
    Case(105, "undone", undone, {"reply": "long reply", "": "closed"}, of_old=True, parameters=OLD),
]
CASES = [
    Case(70, "padded-writes", padded_writes, ANSWERED, of_old=True, parameters=OLD),
    Case(71, "padded-compound", padded_fourth, ANSWERED, of_old=True, parameters=OLD),
    Case(72, "padded-others", padded_others, ANSWERED, of_old=True, parameters=OLD),
    Case(73, "bad-padding", bad_padding, CHUNK, of_old=True, parameters=OLD),
    Case(74, "padded-reply", replies_with_padding, SILENCE, of_old=True, parameters=OLD),
    Case(75, "done", dones, SILENCE, of_old=True, parameters=OLD),
    Case(76, "done-first", first_done, SILENCE, of_old=True, parameters=OLD),
    Case(77, "done-flood", flood_of_dones, SILENCE, of_old=True, parameters=OLD),
    Case(
        78,
        "configurations",
        configurations,
        {"values": SOME, "garbage,": "accept status 4"},
        of_old=True,
        parameters=OLD,
    ),
    Case(
        79,
        "configuration-calls",
        configuration_calls,
        {
            "NULL": ANSWERED,
            "procedure": "accept status 3",
            "version": "accept status 2",
            "": "denied 1",
        },
        of_old=True,
        parameters=OLD,
    ),
    Case(
        80,
        "longer-replies",
        longer_replies,
        {"short": ANSWERED, "late": ANSWERED, "request": SOME, "": CHUNK},
        of_old=True,
        parameters=OLD,
    ),
    Case(
        82,
        "limited-reads",
        limited_reads,
        {"request": SOME, "0": CHUNK, "": ANSWERED},
        of_old=True,
        parameters=OLD,
    ),
]
