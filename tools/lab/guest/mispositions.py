# SPDX-License-Identifier: GPL-2.0
"""Calls whose Read chunks lie at each word in turn, with and without Kerberos.

The server's rule: a Read chunk within the header of the RPC call gets ERR_CHUNK, and one behind the
header gets the right answer.
"""

import struct

import gss
import nfs_calls
from misheaders import INLINE, PAYLOAD, clear, data_is, memory
from peer import NOMSG, header, lists, words
from requester import ANSWERED, CHUNK, Case, pattern

#: Bytes of the WRITE whose chunks lie at each word, and of the one whose chunk has whole pages.
SIZE, PAGES = 64, 5000
#: The answers of newer and older nfsd to arguments that were changed after they were wrapped.
GARBAGE = "denied 1", "accept status 4"


class Sys:
    """Calls with the credential of root."""

    wraps = False

    def call(self, xid, procedure, arguments):
        """Returns a whole call, and the length of its header."""
        whole = nfs_calls.call(xid, procedure, arguments)
        return whole, len(whole) - len(arguments)

    def results(self, reply):
        return nfs_calls.result(reply)


class Cuts:
    """WRITEs of which parts are Read chunks."""

    def __init__(self, link, flavour):
        self._link, self._flavour = link, flavour
        self._handle = link.handle(b"scratch")
        #: Bytes of the last call, and of its header.
        self.total, self.head = (len(part) for part in self._call(SIZE))

    def _call(self, size):
        """Returns a WRITE of the pattern, and its header."""
        arguments = nfs_calls.write_arguments(self._handle, 0, size) + pattern(0, size)
        whole, head = self._flavour.call(self._link.xid(), nfs_calls.WRITE, arguments)
        return whole, whole[:head]

    def send(self, size, chunks, kind=0):
        """Sends a WRITE with these Read chunks: (position, length).

        Returns `answered` if the server has done what it must: refused a chunk within the header,
        stored the data, or found that the arguments were changed. A length that is no multiple of
        four leaves bytes out, which are zeros for the server.
        """
        clear(self._link)
        call, head = self._call(size)
        region = memory(self._link)
        reads, inline, at, sent = [], b"", 0, call
        for position, length in chunks:
            end = position + length + -length % 4
            self._link.poke(region, position, call[position : position + length])
            reads.append((position, region.at(position, length)))
            inline, at = inline + call[at:position], end
            sent = sent[: position + length] + bytes(-length % 4) + sent[end:]
        message = header(int.from_bytes(call[:4], "big"), kind) + lists(reads=reads) + inline
        found, reply = self._link.judge(message + call[at:], 20)
        if kind != NOMSG and chunks[0][0] < len(head):
            return ANSWERED if found == CHUNK else found
        return self._stored(size, found, reply) if sent == call else self._changed(found, reply)

    def _stored(self, size, found, reply):
        if found != ANSWERED:
            return found
        results = self._flavour.results(reply.body)
        if results[:4] != words(0):
            return f"status {int.from_bytes(results[:4], 'big')}"
        return ANSWERED if data_is(self._link, size) else "wrong data"

    def _changed(self, found, reply):
        """Judges the answer to a call whose arguments are others than those that were made."""
        if found == ANSWERED and not self._flavour.wraps:
            self._flavour.results(reply.body)
            return ANSWERED
        return ANSWERED if found in GARBAGE else f"{found} for changed arguments"


def each_position(link, flavour):
    """WRITEs whose Read chunks lie at each word of the call in turn."""
    cuts = Cuts(link, flavour)
    end = cuts.total
    for at in range(4, end, 4):
        for length in sorted({4, 3, 8, end - at}):
            if at + length <= end:
                yield f"{at}, {length} bytes", cuts.send(SIZE, [(at, length)])
        # A second chunk behind the first one, a word later, and at the end.
        for second in sorted({at + 4, at + 8, end - 4}):
            if at < second < end:
                yield f"{at} and {second}", cuts.send(SIZE, [(at, 4), (second, 4)])
    for at in range(4, end, 4):
        whole = [(0, at), (at, end - at)]
        yield f"long call cut at {at}", cuts.send(SIZE, whole, NOMSG)


def each_of_pages(link, flavour):
    """The same with a chunk of more than a page, which ends with the data or before it."""
    cuts = Cuts(link, flavour)
    last = cuts.total - SIZE
    for at in range(4, last + 64, 4):
        for length in (PAGES - 64, PAGES - 67):
            yield f"{at}, {length} bytes", cuts.send(PAGES, [(at, length)])


def write_chunks(link):
    """READs that offer a Write chunk, and perhaps a Reply chunk.

    A signed or encrypted reply has no data item, so it comes whole, and the Write chunk unused.
    """
    for name in gss.SERVICES:
        realm = gss.Realm(link, name)
        for size, room, reply in (
            (1000, 4096, 0),
            (1021, 4096, 0),
            (1024, 512, 0),
            (65536, 1 << 17, 0),
            (65535, 1 << 17, 1 << 17),
        ):
            found = read_by_chunk(link, realm, size, room, reply)
            yield f"{name} {size} with {room} and {reply}", found


def read_by_chunk(link, realm, size, room, reply_room):
    """Reads from `data`; returns `answered` if the right bytes came the right way."""
    region = memory(link)
    for at in (0, PAYLOAD // 2):
        link.poke(region, at, bytes(64))
    arguments = nfs_calls.opaque(link.handle()) + struct.pack(">QI", 0, size)
    call, _ = realm.call(xid := link.xid(), nfs_calls.READ, arguments)
    reply_chunk = [region.at(PAYLOAD // 2, reply_room)] if reply_room else None
    chunks = lists(writes=[[region.at(0, room)]], reply=reply_chunk)
    found, reply = link.judge(header(xid) + chunks + call, 20)
    if found == CHUNK:
        fits = size <= room if not realm.wraps else size <= INLINE // 2 or reply_room
        return CHUNK if fits else ANSWERED
    body = reply.body
    if found == "long reply":
        body = link.peek(region, PAYLOAD // 2, reply.reply[0][1])
    used = sum(length for chunk in reply.writes for _, length, _ in chunk)
    if used != (0 if realm.wraps else size):
        return f"{used} bytes in the Write chunk"
    data = realm.results(body) if realm.wraps else link.peek(region, 0, size) + bytes(-size % 4)
    return ANSWERED if data.endswith(pattern(0, size) + bytes(-size % 4)) else "wrong data"


def odd_lengths(link):
    """Long calls that are no whole number of XDR words."""
    for length in (41, 42, 43, 127):
        region = memory(link)
        xid = link.xid()
        link.poke(region, 0, nfs_calls.null(xid) + bytes(128))
        message = header(xid, NOMSG) + lists(reads=[(0, region.at(0, length))])
        yield f"long call of {length}", link.judge(message)[0]
    for odd in (1, 2, 3):
        message = header(xid := link.xid()) + lists() + nfs_calls.null(xid) + bytes(odd)
        yield f"{odd} bytes more", link.judge(message)[0]


def with_root(act):
    return lambda link: act(link, Sys())


def with_kerberos(act, name):
    return lambda link: act(link, gss.Realm(link, name))


#: The cases of scenarios/test_positions.py.
POSITIONS = [
    Case(113, "positions", with_root(each_position), ANSWERED),
    Case(114, "odd-lengths", odd_lengths, CHUNK),
    Case(116, "positions-of-pages", with_root(each_of_pages), ANSWERED),
    *(
        Case(117 + number, f"positions-{name}", with_kerberos(each_position, name), ANSWERED)
        for number, name in enumerate(gss.SERVICES)
    ),
    Case(123, "write-chunks", write_chunks, ANSWERED),
    *(
        Case(120 + number, f"pages-{name}", with_kerberos(each_of_pages, name), ANSWERED)
        for number, name in enumerate(gss.SERVICES)
    ),
]
