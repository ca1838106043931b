# SPDX-License-Identifier: GPL-2.0
"""Requests whose results do not fit, and what one call may leave to another one.

The server's rules: a Write chunk that does not hold the payload gets ERR_CHUNK; nothing of one call
is left to another one, neither in the server's files nor in what it answers.
"""

import itertools
import struct
import time

import nfs_calls
from misheaders import INLINE, PAYLOAD, memory, read_call, write_call
from peer import header, lists, words
from requester import ANSWERED, CHUNK, CLOSED, Case, Link, pattern

#: READs: bytes that are asked for, bytes of the Write chunk.
SMALL = [(4096, 1000), (4095, 1000), (4093, 1000), (65536, 1000), (65533, 3000), (8192, 2), (4, 1)]
#: The operations of NFSv4 that read.
READS = nfs_calls.V4_READ, nfs_calls.V4_READ_PLUS
#: The data that another client's WRITE leaves in the server's memory.
MARK = b"<not yours>"


def own_reads(link):
    """Reads two parts of `data` in one compound, by a Reply chunk; returns the outcome."""
    region = memory(link)
    reads = nfs_calls.read4(4096, 4096), nfs_calls.read4(65536, 4096)
    path = nfs_calls.path4(b"export", b"hostile", b"data")
    xid = link.xid()
    message = header(xid) + lists(reply=[region.at()]) + nfs_calls.compound(xid, *path, *reads)
    found, reply = link.judge(message, 20)
    if found != "long reply":
        return found
    text = link.peek(region, 0, reply.reply[0][1])
    missing = [at for at in (4096, 65536) if pattern(at, 4096) not in text]
    return f"not the bytes at {missing}" if missing else ANSWERED


def long_listing(link):
    """Lists a directory by a Reply chunk, with a compound whose head takes several pages."""
    region = memory(link)
    path = nfs_calls.path4(b"export", b"hostile", b"names")
    body = nfs_calls.compound(link.xid(), *path, nfs_calls.readdir4(16384))
    (xid,) = struct.unpack_from(">I", body)
    found, reply = link.judge(header(xid) + lists(reply=[region.at()]) + body, 20)
    return found if reply is None or found != "long reply" else ANSWERED


def long_attributes(link):
    """Requests enough attributes to fill several pages of the reply."""
    region = memory(link)
    path = nfs_calls.path4(b"export", b"hostile", b"data")
    attributes = words(nfs_calls.V4_GETATTR, 2, 0xFFF, 0x3A)
    xid = link.xid()
    body = nfs_calls.compound(xid, *path, *[attributes] * 40)
    found, _ = link.judge(header(xid) + lists(reply=[region.at()]) + body, 20)
    return found if found != "long reply" else ANSWERED


def honest(link, other):
    """Has both connections read and list, by turns, so that each thread of nfsd encodes replies."""
    for one in (link, other) * 8:
        for act in (own_reads, long_listing, long_attributes):
            found = act(one)
            if found != ANSWERED:
                return f"{act.__name__}: {found}"
    return ANSWERED


def after_grace(link):
    """Waits until the server lets READs of NFSv4 pass."""
    path = nfs_calls.path4(b"export", b"hostile", b"data")
    for _ in range(60):
        reply = link.ask(nfs_calls.compound(link.xid(), *path, nfs_calls.read4(0, 8)))
        if nfs_calls.status(reply.body) != nfs_calls.GRACE:
            return
        time.sleep(1)


def small_read3(link, size, room):
    region = memory(link)
    return link.judge(read_call(link, size, writes=[[region.at(0, room)]]), 20)[0]


def small_read4(link, size, room, *behind):
    """Reads by NFSv4 with a Write chunk that is too small, and with operations behind the READ."""
    region = memory(link)
    path = nfs_calls.path4(b"export", b"hostile", b"data")
    xid = link.xid()
    body = nfs_calls.compound(xid, *path, nfs_calls.read4(0, size), *behind)
    return link.judge(header(xid) + lists(writes=[[region.at(0, room)]]) + body, 20)[0]


class Session:
    """A session of NFSv4.1 or NFSv4.2."""

    def __init__(self, link, minor, owner, longest=4096):
        self._link, self._minor, self._number = link, minor, 0
        reply = link.ask(nfs_calls.exchange_id(link.xid(), owner, minor=minor))
        client, sequence = nfs_calls.exchanged(reply.body)
        sizes = {"minor": minor, "longest": longest}
        reply = link.ask(nfs_calls.create_session(link.xid(), client, sequence, **sizes))
        self._session = nfs_calls.first_result(reply.body)[:16]

    def judge(self, chunks, read, *behind):
        """Reads from `data` with these chunk lists; returns the outcome and the reply."""
        self._number += 1
        path = nfs_calls.path4(b"export", b"hostile", b"data")
        xid = self._link.xid()
        slot = xid, self._session, self._number
        body = nfs_calls.in_session(*slot, *path, read, *behind, minor=self._minor)
        return self._link.judge(header(xid) + chunks + body, 20)

    def read(self, read, room, *behind):
        """Reads from `data` with a Write chunk of `room` bytes; returns the outcome."""
        region = memory(self._link)
        return self.judge(lists(writes=[[region.at(0, room)]]), read, *behind)[0]

    def read_plus(self, offset, count, form):
        """Reads by READ_PLUS; returns whether the bytes are those of the file.

        `form`: ``inline``, ``write``, ``reply`` for the chunk that the call offers.
        """
        region = memory(self._link)
        offered = {
            "inline": {},
            "write": {"writes": [[region.at()]]},
            "reply": {"reply": [region.at()]},
        }
        read = nfs_calls.read4(offset, count, nfs_calls.V4_READ_PLUS)
        found, reply = self.judge(lists(**offered[form]), read)
        if reply is None or found not in (ANSWERED, "long reply"):
            return found
        filled = sum(chunk[0][1] for chunk in [*reply.writes, reply.reply] if chunk)
        text = reply.body + (self._link.peek(region, 0, filled) if filled else b"")
        wanted = pattern(offset, min(count, PAYLOAD - offset))
        return ANSWERED if wanted in text else f"{len(text)} bytes without those of the file"


def small_write_chunks(link):
    """READs whose data does not fit, each followed by honest work over two connections."""
    other = Link()
    after_grace(link)
    attributes = words(nfs_calls.V4_GETATTR, 2, 0x18, 0x30)
    one, two = (Session(link, minor, b"small chunks %d" % minor) for minor in (1, 2))
    for size, room in SMALL:
        read, plus = (nfs_calls.read4(0, size, kind) for kind in READS)
        yield f"NFSv3 {room} for {size}", small_read3(link, size, room)
        yield f"NFSv4 {room} for {size}", small_read4(link, size, room)
        yield f"NFSv4 {room} for {size}, and more", small_read4(link, size, room, attributes)
        yield f"NFSv4.1 {room} for {size}", one.read(read, room)
        yield f"NFSv4.2 {room} for {size}", two.read(read, room)
        yield f"NFSv4.2 {room} for {size} by READ_PLUS", two.read(plus, room)
        # The session's reply has to hold the data as well.
        plus = nfs_calls.read4(0, min(size, 2000), nfs_calls.V4_READ_PLUS)
        found = two.read(plus, min(room, 1000), attributes)
        yield f"NFSv4.2 {room} for {size}, and more", found
        yield f"honest work after {room} for {size}", honest(link, other)
    other.peer.kill()


def small_session(link):
    """READs that the session's largest reply does not hold, last or in front of an operation."""
    other = Link()
    after_grace(link)
    sessions = [Session(link, minor, b"small replies %d" % minor) for minor in (1, 2)]
    attributes = words(nfs_calls.V4_GETATTR, 2, 0x18, 0x30)
    for size in (3800, 3900, 3968, 4000, 4096, 8192):
        read, plus = (nfs_calls.read4(0, size, kind) for kind in READS)
        for minor, session in enumerate(sessions, 1):
            yield f"READ of {size} in 4.{minor}", session.read(read, PAYLOAD)
            yield f"READ of {size} in 4.{minor}, and more", session.read(read, PAYLOAD, attributes)
        yield f"READ_PLUS of {size}", sessions[1].read(plus, PAYLOAD)
        yield f"READ_PLUS of {size}, and more", sessions[1].read(plus, PAYLOAD, attributes)
        yield f"honest work after {size}", honest(link, other)
    other.peer.kill()


def read_plus(link):
    """Reads by READ_PLUS, which Linux does not send over RDMA, and compares the bytes."""
    after_grace(link)
    session = Session(link, 2, b"read plus", 1 << 17)
    for offset, count in ((256, 1000), (4097, 1), (4096, 3001), (PAYLOAD - 777, 2000)):
        for form in ("inline", "write", "reply"):
            yield f"{count} at {offset}, {form}", session.read_plus(offset, count, form)
    for offset in (4096, 70001):
        for form in ("write", "reply"):
            yield f"65536 at {offset}, {form}", session.read_plus(offset, 65536, form)


def read_link(link, length):
    """Makes a symbolic link, and reads it by NFSv4 with a Write chunk; returns the outcome."""
    name, path = b"target-%d" % length, (b"0123456789abcdef" * 64)[:length]
    head = nfs_calls.symlink_head(link.xid(), link.directory(), name, length)
    link.ask(head + path + bytes(-length % 4))
    region = memory(link)
    walk = nfs_calls.path4(b"export", b"hostile", name)
    xid = link.xid()
    body = nfs_calls.compound(xid, *walk, words(nfs_calls.V4_READLINK))
    found, reply = link.judge(header(xid) + lists(writes=[[region.at()]]) + body, 20)
    if found != ANSWERED:
        return found
    filled = reply.writes[0][0][1]
    return ANSWERED if link.peek(region, 0, filled) == path else "another path"


def links(link):
    """Reads links by NFSv4 with a Write chunk, which Linux does not offer for them."""
    after_grace(link)
    for length in (5, 8, 63, 800):
        yield f"link of {length}", read_link(link, length)


def no_result(link):
    """Replies that the transport cannot send after nfsd has produced them, and honest work."""
    other = Link()
    for size in (4096, 65533):
        yield f"none for {size}", link.judge(read_call(link, size), 20)[0]
        region = memory(link)
        message = read_call(link, size, reply=[region.at(0, 512)])
        yield f"reply chunk of 512 for {size}", link.judge(message, 20)[0]
        message = read_call(link, size, writes=[[(0xDEADBEEF, size, 0x1000)]])
        yield f"dead key for {size}", link.judge(message, 20)[0]
        # The connection goes while nfsd works.
        for _ in range(8):
            region = memory(link)
            link.post(read_call(link, size, writes=[[region.at()]]))
            link.close()
        yield f"honest work after {size}", honest(link, other)
    other.peer.kill()


def fill(link):
    """Leaves MARK in as much of the server's memory as WRITEs of this connection reach."""
    region = memory(link)
    for at in range(0, PAYLOAD, 2 * len(MARK) * 50):
        link.poke(region, at, (MARK * 100)[: PAYLOAD - at])
    count = min(link.ask(nfs_calls.null(link.xid())).credits, 24)
    for _ in range(count):
        link.post(write_call(link, PAYLOAD, [(0, region.at())]))
    for _ in range(count):
        found, _ = link.outcome(60)
        if found != ANSWERED:
            return found
    for _ in range(16):
        body = nfs_calls.write_head(link.xid(), link.handle(b"scratch"), 0, 3000)
        link.ask(body + (MARK * 300)[:3000])
    return ANSWERED


def targets(link, name, length, chunk):
    """Makes a symbolic link whose path of `length` bytes begins in a Read chunk of `chunk` bytes.

    Returns the outcome: the path as it was sent, or an error of NFS.
    """
    xid = link.xid()
    head = nfs_calls.symlink_head(xid, link.directory(), name, length)
    path = (b"0123456789abcdef" * 64)[:length]
    padded = path + bytes(-length % 4)
    region = memory(link)
    link.poke(region, 0, padded[:chunk])
    message = header(xid) + lists(reads=[(len(head), region.at(0, chunk))]) + head + padded[chunk:]
    found, reply = link.judge(message)
    if found != ANSWERED or nfs_calls.status(reply.body):
        return found if found != ANSWERED else ANSWERED
    reply = link.ask(
        nfs_calls.call(link.xid(), nfs_calls.READLINK, nfs_calls.opaque(link.handle(name)))
    )
    return ANSWERED if path in reply.body else f"another path: {reply.body[-length - 8 :]!r}"


def others_bytes(link):
    """Searches all replies that this connection can provoke for another connection's data."""
    other = Link()
    numbers = itertools.count()
    yield "filled", fill(other)
    for chunk, length in [(4, 64), (8, 64), (60, 64), (4, 1020), (4, 63), (100, 900)]:
        name = b"link-%d" % next(numbers)
        yield f"link of {length}, {chunk} in a chunk", targets(link, name, length, chunk)
    yield "filled again", fill(other)
    for what, message in errors(link):
        found, reply = link.judge(message)
        seen = reply is not None and MARK in reply.message
        yield what, "another's bytes" if seen else ANSWERED if found != CLOSED else found
    for size in (1, 5, 4095, 4096, 5000):
        yield f"READ of {size} behind the end", tail_is_clean(link, size)
    other.peer.kill()


def errors(link):
    """Yields calls that nfsd answers with an error, or with less than was asked for."""
    handle = link.handle()
    yield (
        "no such name",
        header(xid := link.xid()) + lists() + nfs_calls.lookup(xid, link.directory(), b"x" * 200),
    )
    yield "no handle", header(xid := link.xid()) + lists() + nfs_calls.getattr3(xid, handle[:8])
    region = memory(link)
    for length in (4, 44, 2000):
        body = nfs_calls.call(xid := link.xid(), nfs_calls.WRITE, nfs_calls.opaque(handle))
        reads = [(len(body), region.at(0, length))]
        yield f"cut WRITE with {length}", header(xid) + lists(reads=reads) + body
    yield "end of file", read_call(link, 4096, writes=[[region.at()]])


def tail_is_clean(link, size):
    """Writes `size` bytes by a chunk behind the end of `scratch`, and reads around them."""
    handle = link.handle(b"scratch")
    region = memory(link)
    xid = link.xid()
    at = 3 * PAYLOAD + 8192 * size
    body = nfs_calls.call(
        xid,
        nfs_calls.WRITE,
        nfs_calls.opaque(handle) + struct.pack(">QIII", at, size, 2, size),
    )
    found, _ = link.judge(header(xid) + lists(reads=[(len(body), region.at(0, size))]) + body)
    if found != ANSWERED:
        return found
    for offset in (at - 2048, at + size):
        reply = link.ask(nfs_calls.read(link.xid(), handle, offset, INLINE // 2))
        if MARK in reply.body:
            return "another's bytes"
    return ANSWERED


#: The cases of scenarios/test_results.py.
RESULTS = [
    Case(
        110,
        "small-write-chunks",
        small_write_chunks,
        dict.fromkeys(("NFSv3", "NFSv4", "NFSv4.1", "NFSv4.2"), CHUNK) | {"": ANSWERED},
    ),
    Case(111, "small-session", small_session, ANSWERED),
    Case(
        112, "no-result", no_result, {"none": CHUNK, "reply": CHUNK, "dead": CLOSED, "": ANSWERED}
    ),
    Case(115, "bytes-of-others", others_bytes, ANSWERED),
    Case(124, "read-plus", read_plus, ANSWERED),
    Case(125, "links", links, ANSWERED, "another path"),
]
