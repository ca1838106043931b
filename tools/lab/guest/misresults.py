# SPDX-License-Identifier: GPL-2.0
"""Requests whose results do not fit, or whose chunks lie where no data item lies.

The server's rules: a Write chunk that does not hold the payload gets ERR_CHUNK, and so does a Read
chunk within the header of the RPC call; nothing of one call is left to another one, neither in the
server's files nor in what it answers.
"""

import itertools
import struct
import time

import nfs_calls
from misheaders import INLINE, PAYLOAD, clear, data_is, read_call, write_call
from peer import NOMSG, header, lists, words
from requester import ANSWERED, CHUNK, CLOSED, Case, Link, pattern

#: READs: bytes that are asked for, bytes of the Write chunk.
SMALL = [(4096, 1000), (4095, 1000), (4093, 1000), (65536, 1000), (65533, 3000), (8192, 2), (4, 1)]
#: Bytes of the header of an RPC call of nfs_calls.py.
RPC_HEADER = 64
#: The data that another client's WRITE leaves in the server's memory.
MARK = b"<not yours>"


#: The memory of each link, with the connection that exposes it.
_EXPOSED = {}


def memory(link):
    """Returns memory of the largest payload that the current connection exposes."""
    number, region = _EXPOSED.get(link, (None, None))
    if number != link.ready():
        region = link.expose(PAYLOAD)
        _EXPOSED[link] = link.number, region
    return region


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


def small_read4(link, size, room, *behind, minor=0):
    """Reads by NFSv4 with a Write chunk that is too small, and with operations behind the READ."""
    region = memory(link)
    path = nfs_calls.path4(b"export", b"hostile", b"data")
    xid = link.xid()
    body = nfs_calls.compound(xid, *path, nfs_calls.read4(0, size), *behind, minor=minor)
    return link.judge(header(xid) + lists(writes=[[region.at(0, room)]]) + body, 20)[0]


def small_read41(link, session, number, size, room):
    """Makes the case's calls in a session of NFSv4.1."""
    region = memory(link)
    path = nfs_calls.path4(b"export", b"hostile", b"data")
    xid = link.xid()
    body = nfs_calls.in_session(xid, session, number, *path, nfs_calls.read4(0, size))
    return link.judge(header(xid) + lists(writes=[[region.at(0, room)]]) + body, 20)[0]


def session_of(link, owner):
    """Makes a session of NFSv4.1; returns its identifier."""
    reply = link.ask(nfs_calls.exchange_id(link.xid(), owner))
    client, sequence = nfs_calls.exchanged(reply.body)
    reply = link.ask(nfs_calls.create_session(link.xid(), client, sequence))
    return nfs_calls.first_result(reply.body)[:16]


def small_write_chunks(link):
    """READs whose data does not fit, each followed by honest work over two connections."""
    other = Link()
    after_grace(link)
    attributes = words(nfs_calls.V4_GETATTR, 2, 0x18, 0x30)
    session, numbers = session_of(link, b"small chunks"), itertools.count(1)
    for size, room in SMALL:
        yield f"NFSv3 {room} for {size}", small_read3(link, size, room)
        yield f"NFSv4 {room} for {size}", small_read4(link, size, room)
        yield f"NFSv4 {room} for {size}, and more", small_read4(link, size, room, attributes)
        found = small_read41(link, session, next(numbers), size, room)
        yield f"NFSv4.1 {room} for {size}", found
        yield f"honest work after {room} for {size}", honest(link, other)
    other.peer.kill()


def small_session(link):
    """A READ that the session's largest reply does not hold, in front of another operation."""
    other = Link()
    after_grace(link)
    session = session_of(link, b"small replies")
    attributes = words(nfs_calls.V4_GETATTR, 2, 0x18, 0x30)
    path = nfs_calls.path4(b"export", b"hostile", b"data")
    for number, size in enumerate((3800, 3900, 3968, 4000, 4096, 8192), 1):
        region = memory(link)
        xid = link.xid()
        read = nfs_calls.read4(0, size)
        body = nfs_calls.in_session(xid, session, number, *path, read, attributes)
        chunks = lists(writes=[[region.at()]])
        yield f"session READ of {size}", link.judge(header(xid) + chunks + body, 20)[0]
        yield f"honest work after {size}", honest(link, other)
    other.peer.kill()


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


def positions3(link):
    """A WRITE whose Read chunk lies at each word of the call in turn."""
    size = 64
    handle = link.handle(b"scratch")
    whole = nfs_calls.write_head(0, handle, 0, size) + pattern(0, size)
    for position in range(4, len(whole) + 4, 4):
        for length in (4, 3, 8, len(whole) - position):
            if length <= 0 or position + length > len(whole):
                continue
            found = split(link, whole, size, [(position, length)])
            yield f"{position}, {length} bytes", as_wanted(position, found)
    for position in range(4, len(whole) - 12, 4):
        chunks = [(position, 4), (position + 8, 4)]
        yield f"{position}, two chunks", as_wanted(position, split(link, whole, size, chunks))


def as_wanted(position, found):
    """Returns `answered` if a chunk at this position has the outcome that it must have."""
    wanted = CHUNK if position < RPC_HEADER else ANSWERED
    return ANSWERED if found == wanted else found


def split(link, whole, size, chunks):
    """Sends a WRITE of which these parts are Read chunks: (position, length).

    Returns the outcome: ERR_CHUNK, or an answer and the right data. A length that is no multiple of
    four leaves bytes out, which are zeros for the server.
    """
    clear(link)
    xid = link.xid()
    call = words(xid) + whole[4:]
    region = memory(link)
    reads, inline, at, sent = [], b"", 0, call
    for number, (position, length) in enumerate(chunks):
        end = position + length + -length % 4
        link.poke(region, 256 * number, call[position : position + length])
        reads.append((position, region.at(256 * number, length)))
        inline, at = inline + call[at:position], end
        sent = sent[: position + length] + bytes(-length % 4) + sent[end:]
    inline += call[at:]
    found, reply = link.judge(header(xid) + lists(reads=reads) + inline)
    if found == ANSWERED and sent == call:
        if nfs_calls.status(reply.body):
            return f"status {nfs_calls.status(reply.body)}"
        return ANSWERED if data_is(link, size) else "wrong data"
    return ANSWERED if found.startswith("accept status") and sent != call else found


def odd_lengths(link):
    """Long calls that are no whole number of XDR words."""
    for length in (41, 42, 43, 127):
        region = memory(link)
        xid = link.xid()
        link.poke(region, 0, nfs_calls.null(xid) + bytes(128))
        message = header(xid, NOMSG) + lists(reads=[(0, region.at(0, length))])
        yield f"long call of {length}", link.judge(message)[0]
    for odd in (1, 2, 3):
        xid = link.xid()
        yield (
            f"{odd} bytes more",
            link.judge(header(xid) + lists() + nfs_calls.null(xid) + bytes(odd))[0],
        )


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
        {"NFSv3": CHUNK, "NFSv4": CHUNK, "NFSv4.1": CHUNK, "": ANSWERED},
    ),
    Case(111, "small-session", small_session, ANSWERED),
    Case(
        112, "no-result", no_result, {"none": CHUNK, "reply": CHUNK, "dead": CLOSED, "": ANSWERED}
    ),
    Case(113, "positions", positions3, ANSWERED),
    Case(114, "odd-lengths", odd_lengths, CHUNK),
    Case(115, "bytes-of-others", others_bytes, ANSWERED),
]
