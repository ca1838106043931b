# SPDX-License-Identifier: GPL-2.0
"""Hostile requests of one message: headers and chunk lists that break a rule.

The numbers are those of the list in Documentation/lab-hostile.rst.
"""

import nfs_calls
from peer import DONE, ERROR, MSG, MSGP, NOMSG, header, lists, words
from requester import ANSWERED, CHUNK, CLOSED, SILENCE, Case, pattern

HUGE = 0xFFFFFFFF
#: The versions of a stock server or of a connection; those that ours knows.
VERSIONS, KNOWN = "ERR_VERS 1-1", "ERR_VERS 1-2"
#: A key that no memory region has.
BAD_KEY = 0xDEADBEEF
#: The inline threshold, and the largest payload of the lab's server.
INLINE, PAYLOAD = 4096, 1 << 20
#: The ends of a call that nfsd cannot decode, and of one whose reply it cannot encode.
FAILED = ("accept status 4", "accept status 5")
#: The memory of each link, with the connection that exposes it.
_EXPOSED = {}


def memory(link):
    """Returns memory of the largest payload that the current connection exposes."""
    number, region = _EXPOSED.get(link, (None, None))
    if number != link.ready():
        region = link.expose(PAYLOAD)
        _EXPOSED[link] = link.number, region
    return region


def null_with(link, body=None, kind=MSG, **fields):
    """Returns the NULL call with these chunk lists, or with `body` in their place."""
    xid = link.xid()
    return header(xid, kind, **fields) + (lists() if body is None else body) + nfs_calls.null(xid)


def shorter_than_a_header_word(link):
    for size in (0, 1, 4, 7):
        yield f"{size} bytes", link.judge(header(link.xid())[:size])[0]


def shorter_than_a_header(link):
    for size in (8, 12, 16, 20, 24, 27):
        yield f"{size} bytes", link.judge((header(link.xid()) + lists())[:size])[0]


def begin(link):
    """Makes the connection one of version one: a server answers in that version from then on."""
    link.ask(nfs_calls.null(link.xid()))


def versions(link):
    begin(link)
    for version in (0, 3, HUGE):
        yield f"version {version}", link.judge(null_with(link, version=version))[0]
    yield "version 2", link.judge(null_with(link, version=2))[0]


def version_two(link):
    """Sends messages of version two on a connection that has begun in version one."""
    begin(link)
    for kind in (0, 4, 5):
        message = words(link.xid(), 2, 32, kind, 0, 0, 0, 0, 0)
        name = "error" if kind == ERROR else "type"
        yield f"{name} {kind}", link.judge(message)[0]


def procedures(link):
    for kind in (MSGP, 5, 6, HUGE):
        yield f"type {kind}", link.judge(null_with(link, kind=kind))[0]


def no_calls(link):
    for kind in (DONE, ERROR):
        yield f"type {kind}", link.judge(header(link.xid(), kind) + words(2, 1, 1))[0]


def cut_lists(link):
    one = (BAD_KEY, 4, 0)
    whole = lists(reads=[(4, one)], writes=[[one]], reply=[one])
    for size in (4, 8, 20, 24, 28, 36, 40, 52, 56, 60):
        yield f"cut {size}", link.judge(header(link.xid()) + whole[:size])[0]
    yield "two write", link.judge(null_with(link, words(0, 2, 1, *one, 0, 0, 0)))[0]
    yield "two reply", link.judge(null_with(link, words(0, 0, 2, 1, *one, 0)))[0]
    yield "huge write", link.judge(null_with(link, words(0, HUGE, 1, *one, 0, 0, 0)))[0]


def no_segments(link):
    yield "write chunk", link.judge(null_with(link, lists(writes=[[]])))[0]
    yield "reply chunk", link.judge(null_with(link, lists(reply=[])))[0]


def endless_segments(link):
    one = words(BAD_KEY, 4, 0, 0)
    for count in (HUGE, 0x10000000, 0x08000001):
        yield f"write {count:#x}", link.judge(null_with(link, words(0, 1, count) + one * 9))[0]
        yield f"reply {count:#x}", link.judge(null_with(link, words(0, 0, 1, count) + one * 9))[0]


def write_call(link, size, parts, tail=b""):
    """Returns a WRITE of `size` bytes to the file `scratch` whose data is in Read chunks.

    `parts`: (offset in the data, segment), or (None and a position, segment).
    """
    handle = link.handle(b"scratch")
    xid = link.xid()
    body = nfs_calls.write_head(xid, handle, 0, size)
    reads = [(at[1] if isinstance(at, tuple) else len(body) + at, segment) for at, segment in parts]
    return header(xid) + lists(reads=reads) + body + tail


def positions(link):
    for position in (1, 2, 3, 127):
        region = link.expose(4096)
        message = write_call(link, 4096, [((None, position), region.at())])
        yield f"position {position}", link.judge(message)[0]


def positions_beyond(link):
    for position in (8192, 0x7FFFFFFC, 0xFFFFFFFC):
        region = link.expose(4096)
        message = write_call(link, 4096, [((None, position), region.at())])
        yield f"position {position:#x}", link.judge(message)[0]


def overlaps(link):
    region = link.expose(8192)
    parts = [(0, region.at(0, 4096)), (2048, region.at(4096, 4096))]
    yield "by half", link.judge(write_call(link, 8192, parts))[0]


def unordered(link):
    region = link.expose(8192)
    parts = [(4096, region.at(4096, 4096)), (0, region.at(0, 4096))]
    yield "second first", link.judge(write_call(link, 8192, parts))[0]


def zero_with_body(link):
    region = link.expose(4096)
    message = null_with(link, lists(reads=[(0, region.at(0, 40))]))
    yield "NULL inline", link.judge(message)[0]


def no_long_call(link):
    region = link.expose(4096)
    xid = link.xid()
    yield "chunks none", link.judge(header(xid, NOMSG) + lists())[0]
    empty = header(link.xid(), NOMSG) + lists(reads=[(0, region.at(0, 0))])
    yield "empty chunk", link.judge(empty)[0]
    inline = null_with(link, kind=NOMSG)
    yield "inline body", link.judge(inline)[0]


def data_is(link, size):
    """Returns whether the file `scratch` begins with what exposed memory holds."""
    count = min(size, 2048)
    reply = link.ask(nfs_calls.read(link.xid(), link.handle(b"scratch"), 0, count))
    return reply.body.endswith(pattern(0, count) + bytes(-count % 4))


def written(link, message, size):
    """Returns the outcome of an honest WRITE, which must have stored what it should."""
    found, reply = link.judge(message)
    if found != "answered" or nfs_calls.status(reply.body):
        return found if found != "answered" else f"status {nfs_calls.status(reply.body)}"
    return ANSWERED if data_is(link, size) else "wrong data"


def clear(link):
    """Writes zeros over the file `scratch`."""
    handle = link.handle(b"scratch")
    link.ask(nfs_calls.write_head(link.xid(), handle, 0, 2048) + bytes(2048))


def two_chunks(link):
    clear(link)
    region = link.expose(8192)
    parts = [(0, region.at(0, 4096)), (4096, region.at(4096, 4096))]
    yield "of one page each", written(link, write_call(link, 8192, parts), 8192)


def too_much(link):
    region = link.expose(2 * PAYLOAD)
    message = write_call(link, 2 * PAYLOAD, [(0, region.at())])
    yield "2 MiB", link.judge(message)[0]
    region = link.expose(4096)
    parts = [(0, (region.handle, 1 << 30, region.address))] * 8
    yield "8 GiB", link.judge(write_call(link, 4096, parts))[0]


def empty_segments(link):
    clear(link)
    region = link.expose(8192)
    parts = [(0, region.at(0, 4096)), (0, region.at(0, 0)), (0, region.at(4096, 4096))]
    yield "one of three", written(link, write_call(link, 8192, parts), 8192)
    region = link.expose(4096)
    yield "all of them", link.judge(write_call(link, 0, [(0, region.at(0, 0))] * 2))[0]


def read_call(link, size, **chunks):
    """Returns a READ of the file `data` with these chunks."""
    handle = link.handle()
    xid = link.xid()
    return header(xid) + lists(**chunks) + nfs_calls.read(xid, handle, 0, size)


def longest_segments(link):
    region = link.expose(4096)
    endless = (region.handle, HUGE, region.address)
    yield "read segment", link.judge(write_call(link, 4096, [(0, endless)]))[0]
    region = link.expose(4096)
    endless = (region.handle, HUGE, region.address)
    yield "write segment", link.judge(read_call(link, 4096, writes=[[endless]]))[0]


def wrapping(link):
    region = link.expose(4096)
    last = (region.handle, 4096, 0xFFFF_FFFF_FFFF_FF00)
    yield "read segment", link.judge(write_call(link, 4096, [(0, last)]))[0]
    region = link.expose(4096)
    last = (region.handle, 4096, 0xFFFF_FFFF_FFFF_FF00)
    yield "write segment", link.judge(read_call(link, 4096, writes=[[last]]))[0]


def long_with_data(link, order):
    """Sends a WRITE whose head is in a chunk at position zero and whose data is in another."""
    handle = link.handle(b"scratch")
    clear(link)
    xid = link.xid()
    body = nfs_calls.write_head(xid, handle, 0, 4096)
    head = link.expose(4096)
    link.poke(head, 0, body)
    data = link.expose(4096)
    reads = [(0, head.at(0, len(body))), (len(body), data.at())]
    message = header(xid, NOMSG) + lists(reads=reads if order else reads[::-1])
    return written(link, message, 4096)


def zero_and_others(link):
    yield "ordered chunks", long_with_data(link, True)
    yield "reversed chunks", long_with_data(link, False)


def bad_read_key(link):
    yield "WRITE", link.judge(write_call(link, 4096, [(0, (BAD_KEY, 4096, 0x1000))]), 20)[0]


def bad_write_key(link):
    for size in (4096, 65536):
        message = read_call(link, size, writes=[[(BAD_KEY, size, 0x1000)]])
        yield f"READ of {size}", link.judge(message, 20)[0]
    message = read_call(link, 65536, reply=[(BAD_KEY, 70000, 0x1000)])
    yield "READ by Reply chunk", link.judge(message, 20)[0]


def small_segments(link):
    clear(link)
    region = link.expose(4096)
    parts = [(0, region.at(at, 1)) for at in range(150)]
    yield "read 150", written(link, write_call(link, 150, parts), 150)
    region = link.expose(4096)
    chunk = [region.at(at, 1) for at in range(240)]
    yield "write 240", link.judge(read_call(link, 240, writes=[chunk]))[0]


def full_credit(link):
    """Sends as many WRITEs of the largest payload as there are credits, all at once."""
    reply = link.ask(nfs_calls.null(link.xid()))
    region = link.expose(PAYLOAD)
    count = min(reply.credits, 32)
    for _ in range(count):
        link.post(write_call(link, PAYLOAD, [(0, region.at())]))
    outcomes = {link.outcome(60)[0] for _ in range(count)}
    yield f"{count} WRITEs", link.then_served(" ".join(sorted(outcomes)))


def small_write_chunk(link):
    region = link.expose(4096)
    message = read_call(link, 4096, writes=[[region.at(0, 1024)]])
    yield "1024 for 4096", link.judge(message)[0]


def several_write_chunks(link):
    first, second = link.expose(8192), link.expose(4096)
    # The first call of NFSv4 may meet the server's grace period.
    body = nfs_calls.compound(
        xid := link.xid(),
        *nfs_calls.path4(b"export", b"hostile", b"data"),
        nfs_calls.read4(0, 8192),
        nfs_calls.read4(65536, 4096),
    )
    chunks = lists(writes=[[first.at()], [second.at()]])
    found, reply = link.judge(header(xid) + chunks + body)
    if found == ANSWERED:
        found = several_are_right(link, reply, second)
    yield "READs of 8192 and 4096", found


def several_are_right(link, reply, second):
    """Returns the outcome of two READs: lengths and contents of both chunks."""
    if nfs_calls.status(reply.body):
        return f"status {nfs_calls.status(reply.body)}"
    lengths = [sum(length for _, length, _ in chunk) for chunk in reply.writes]
    if lengths != [8192, 4096]:
        return f"lengths {lengths}"
    return ANSWERED if link.peek(second, 0, 4096) == pattern(65536, 4096) else "wrong data"


def unused_chunks(link):
    region = link.expose(4096)
    message = null_with(link, lists(writes=[[region.at(0, 1024), region.at(1024, 1024)]]))
    found, reply = link.judge(message)
    if found == ANSWERED:
        used = [length for chunk in reply.writes for _, length, _ in chunk]
        found = ANSWERED if used == [0, 0] else f"lengths {used}"
    yield "write chunk", found


def small_reply_chunk(link):
    region = link.expose(4096)
    yield "1024 for 8192", link.judge(read_call(link, 8192, reply=[region.at(0, 1024)]))[0]


def both_chunks(link):
    """Reads a file by a Write chunk and a long directory by the Reply chunk, in one call."""
    data, rest = link.expose(65536), link.expose(262144)
    body = nfs_calls.compound(
        xid := link.xid(),
        *nfs_calls.path4(b"export", b"hostile", b"data"),
        nfs_calls.read4(0, 65536),
        *nfs_calls.path4(b"export", b"hostile", b"names"),
        nfs_calls.readdir4(16384),
    )
    chunks = lists(writes=[[data.at()]], reply=[rest.at()])
    found, reply = link.judge(header(xid) + chunks + body)
    if found == "long reply":
        found = both_are_right(link, reply, rest)
    yield "READ and READDIR", found


def both_are_right(link, reply, rest):
    """Returns the outcome of a reply in both kinds of chunks."""
    (_, length, _), *_ = reply.reply
    text = link.peek(rest, 0, min(length, 65536))
    if nfs_calls.status(text):
        return f"status {nfs_calls.status(text)}"
    written_ = sum(length for chunk in reply.writes for _, length, _ in chunk)
    if written_ != 65536:
        return f"{written_} bytes in the Write chunk"
    return ANSWERED if 4096 < length < 65536 else "too long a Reply chunk"


def too_long_inline(link):
    for size in (8192, 65536):
        yield f"READ of {size}", link.judge(read_call(link, size))[0]


CASES = [
    Case(1, "less-than-8-bytes", shorter_than_a_header_word, SILENCE, CHUNK),
    Case(2, "less-than-28-bytes", shorter_than_a_header, CHUNK),
    Case(3, "versions", versions, VERSIONS),
    # An error is never answered, or two peers could answer each other endlessly.
    Case(4, "version-two", version_two, {"error": SILENCE, "": VERSIONS}, VERSIONS),
    Case(5, "unknown-types", procedures, CHUNK),
    Case(6, "no-calls", no_calls, SILENCE),
    Case(7, "cut-lists", cut_lists, CHUNK, {"two": (ANSWERED, CHUNK), "huge": ANSWERED, "": CHUNK}),
    Case(8, "no-segments", no_segments, CHUNK),
    Case(9, "endless-segments", endless_segments, CHUNK),
    Case(10, "odd-positions", positions, CHUNK),
    Case(11, "positions-beyond", positions_beyond, CHUNK),
    Case(12, "overlaps", overlaps, CHUNK),
    Case(13, "unordered", unordered, CHUNK, ANSWERED, stock_warns=True),
    Case(14, "zero-with-body", zero_with_body, CHUNK, SILENCE, stock_warns=True),
    Case(
        15,
        "no-long-call",
        no_long_call,
        CHUNK,
        {"chunks": SILENCE, "empty": CLOSED, "inline": ANSWERED},
    ),
    Case(16, "two-read-chunks", two_chunks, ANSWERED, stock_warns=True),
    Case(17, "too-much", too_much, CHUNK),
    Case(18, "empty-segments", empty_segments, {"one": ANSWERED, "all": CHUNK}, CLOSED),
    Case(19, "longest-segments", longest_segments, CHUNK, {"write": ANSWERED, "": CHUNK}),
    Case(20, "wrapping-addresses", wrapping, CHUNK, CLOSED),
    Case(
        21,
        "zero-and-others",
        zero_and_others,
        {"ordered": ANSWERED, "reversed": CHUNK},
        {"ordered": FAILED, "reversed": CHUNK},
    ),
    Case(22, "bad-key-for-reads", bad_read_key, CLOSED),
    Case(23, "bad-key-for-writes", bad_write_key, CLOSED),
    Case(24, "small-segments", small_segments, (ANSWERED, CHUNK)),
    Case(25, "full-credit", full_credit, ANSWERED),
    Case(26, "small-write-chunk", small_write_chunk, CHUNK, ours_alone=True),
    Case(27, "several-write-chunks", several_write_chunks, ANSWERED),
    Case(28, "unused-chunks", unused_chunks, ANSWERED),
    Case(29, "small-reply-chunk", small_reply_chunk, CHUNK),
    Case(30, "both-chunks", both_chunks, ANSWERED, "too long a Reply chunk"),
    Case(31, "too-long-inline", too_long_inline, CHUNK, (CHUNK, CLOSED)),
]
