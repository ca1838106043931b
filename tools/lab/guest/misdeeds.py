# SPDX-License-Identifier: GPL-2.0
"""The answers of a hostile responder, and the required reactions of the client.

A misdeed is one answer to one call. It names the counter that must move, the trace events that
must fire, and whether it ends the RPC: if it does not, an honest error follows.
"""

import time

from peer import (
    DONE,
    ERR_CHUNK,
    ERR_VERS,
    ERROR,
    MSG,
    MSGP,
    NOMSG,
    chunk,
    header,
    lists,
    system_error,
    words,
)

MALFORMED = "malformed_header"
CLAIM = "reply_claim"
HEADER_EVENTS = ("xprtrdma_malformed_hdr", "xprtrdma_reply_hdr_err")
SHORT_EVENTS = ("xprtrdma_malformed_hdr", "xprtrdma_reply_short_err")
VERSION_EVENTS = ("xprtrdma_malformed_hdr", "xprtrdma_reply_vers_err")
CLAIM_EVENTS = ("xprtrdma_reply_violation",)
STRANGE_EVENTS = ("xprtrdma_reply_rqst_err",)
CALLBACK_EVENTS = ("xprtrdma_cb_call", "xprtrdma_cb_refused")
HUGE = 0xFFFFFFFF


class Misdeed:
    """A misdeed; `fits(call)` returns whether it can answer `call`. By default any call fits."""

    def __init__(self, name, counter="-", events=(), fits=bool, ends=False, last=False):
        self.name, self.counter, self.events = name, counter, events
        self.fits, self.ends, self.last = fits, ends, last
        self.times = 1
        self.calls = 1


class Answer(Misdeed):
    """A message, made from the call. `last`: the connection does not survive it."""

    def __init__(self, name, make, *args, **kwargs):
        super().__init__(name, *args, **kwargs)
        self.make = make

    def run(self, peer, call, _others):
        return peer.send(call.connection, self.make(call))


class Act(Misdeed):
    """A misdeed that is no answer: `act(peer, call)`, or `act(peer, call, victim)` for 2 calls."""

    def __init__(self, name, act, *args, times=1, calls=1, **kwargs):
        super().__init__(name, *args, **kwargs)
        self.act, self.times, self.calls = act, times, calls

    def run(self, peer, call, others):
        victims = [other for other in others if other.handles][: self.calls - 1]
        return self.act(peer, call, *victims)


def honest(call):
    """Returns an answer that breaks no rule and fails the RPC."""
    return header(call.xid) + lists() + system_error(call.xid)


def _reply(call, body=None, kind=MSG, **fields):
    return header(call.xid, kind, **fields) + (lists() if body is None else body)


def _with(call, **fields):
    """Returns a reply with these chunk lists."""
    return _reply(call, lists(**fields)) + system_error(call.xid)


def has_write(call):
    return bool(call.writes)


def has_reply(call):
    return call.reply is not None


def has_read(call):
    return bool(call.reads)


def has_none(call):
    return not call.handles


def callback(xid, version=2, program=0x40000000, procedure=0):
    """Returns a call of NFSv4's callback service: by default its NULL procedure."""
    return words(xid, 0, version, program, 1, procedure, 0, 0, 0, 0)


def _longer(segments):
    """Makes the first segment claim a byte more than was offered."""
    (handle, length, offset), *rest = segments
    return [(handle, length + 1, offset), *rest]


def _claiming(segments, length):
    return [(handle, length, offset) for handle, _, offset in segments]


def truncations():
    for size in (0, 3, 4, 8, 12, 15):
        yield Answer(f"cut to {size}", lambda c, n=size: honest(c)[:n], MALFORMED, SHORT_EVENTS)
    for size in (16, 17, 20, 24, 27):
        yield Answer(
            f"cut to {size}", lambda c, n=size: honest(c)[:n], MALFORMED, HEADER_EVENTS, ends=True
        )
    # Whole header, RPC reply cut off: the transport's duty ends before it. SUNRPC calls again, for
    # NFSv4 on another connection.
    for size in (28, 32, 36, 44):
        yield Answer(f"cut to {size}", lambda c, n=size: honest(c)[:n], ends=True, last=True)


def headers():
    one = (1, 1, 0)

    def bad(name, make):
        return Answer(name, make, MALFORMED, HEADER_EVENTS, ends=True)

    for version in (0, 2, 3, HUGE):
        yield Answer(
            f"version {version}",
            lambda c, v=version: _reply(c, version=v) + system_error(c.xid),
            MALFORMED,
            VERSION_EVENTS,
        )
    for kind in (5, 6, HUGE):
        yield bad(f"type {kind}", lambda c, k=kind: _reply(c, kind=k))
    for value in (2, HUGE):
        for field in range(3):
            item = words(*[0] * field, value, *[0] * (2 - field))
            yield bad(f"list {field} begins with {value}", lambda c, i=item: _reply(c, i))
    yield bad("read list", lambda c: _with(c, reads=[(0, one)]))
    yield bad("long read list", lambda c: _with(c, reads=[(4, one)] * 100))
    yield bad("two write chunks", lambda c: _with(c, writes=[[one], [one]]))
    yield bad("17 segments", lambda c: _with(c, writes=[[one] * 17]))
    yield bad("200 segments", lambda c: _with(c, reply=[one] * 200))
    yield bad("endless segments", lambda c: _reply(c, words(0, 1, HUGE)) + chunk([one] * 9))
    yield bad("endless reply chunk", lambda c: _reply(c, words(0, 0, 1, HUGE)))
    yield bad("write list without end", lambda c: _reply(c, words(0, 1, 1, 1, 1, 0, 0)))


def types():
    def claim(name, make):
        return Answer(name, make, CLAIM, CLAIM_EVENTS, ends=True)

    padding = words(0, 0)
    yield claim("padded", lambda c: _reply(c, padding + lists(), MSGP) + system_error(c.xid))
    yield claim("done", lambda c: header(c.xid, DONE))
    yield claim("no message at all", lambda c: _reply(c, kind=NOMSG))


def claims():
    """Replies with chunks that the call has not offered, or with larger ones."""

    def claim(name, fits, **make):
        build = make.pop("build", None)
        return Answer(
            name,
            build or (lambda c: _with(c, **{k: f(c) for k, f in make.items()})),
            CLAIM,
            CLAIM_EVENTS,
            fits,
            ends=True,
        )

    one = (0x1234, 1, 0)
    yield claim("write chunk for nothing", has_none, writes=lambda c: [[one]])
    yield claim("reply chunk for nothing", has_none, reply=lambda c: [one])
    yield claim("write chunk, a byte more", has_write, writes=lambda c: [_longer(c.writes[0])])
    yield claim(
        "write chunk, all there is", has_write, writes=lambda c: [_claiming(c.writes[0], HUGE)]
    )
    yield claim("write chunk, a segment more", has_write, writes=lambda c: [[*c.writes[0], one]])
    yield claim("write chunk of no segment", has_write, writes=lambda c: [[]])
    yield claim("reply chunk for a write chunk", has_write, reply=lambda c: c.writes[0])
    yield claim("reply chunk, a byte more", has_reply, reply=lambda c: _longer(c.reply))
    yield claim("reply chunk, a segment more", has_reply, reply=lambda c: [*c.reply, one])
    yield claim("write chunk for a reply chunk", has_reply, writes=lambda c: [c.reply])
    yield claim(
        "long reply of all there is",
        has_reply,
        build=lambda c: _reply(c, lists(reply=_claiming(c.reply, HUGE)), NOMSG),
    )


def errors():
    """RDMA_ERROR of each kind."""

    def error(*fields):
        return lambda c: header(c.xid, ERROR) + words(*fields)

    for low, high in ((1, 1), (2, 3), (HUGE, 0)):
        name = f"speaks versions {low} to {high}"
        event = ("xprtrdma_err_vers",)
        yield Answer(name, error(ERR_VERS, low, high), "bad_reply", event, ends=True)
    yield Answer("bad chunks", error(ERR_CHUNK), "bad_reply", ("xprtrdma_err_chunk",), ends=True)
    for fields in ((), (0,), (3,), (HUGE,), (ERR_VERS,), (ERR_VERS, 1)):
        name = f"error of {fields}"
        yield Answer(name, error(*fields), MALFORMED, HEADER_EVENTS, ends=True)


def transactions():
    """Replies to calls that the client has not made, or several to one call. For NFSv3."""
    for name, change in (
        ("xid + 1", lambda xid: xid + 1),
        ("xid inverted", lambda xid: ~xid),
        ("xid 0", lambda xid: 0),
        ("xid turned round", lambda xid: int.from_bytes(xid.to_bytes(4, "big"), "little")),
    ):
        yield Answer(
            name,
            lambda c, f=change: header(f(c.xid)) + lists() + system_error(f(c.xid)),
            "bad_xids",
            STRANGE_EVENTS,
        )

    def repeat(peer, call):
        # At once: after the first of them NFSv4 may leave. So often, because SUNRPC sends a call
        # that has met a system error twice more, under the same XID.
        return peer.tell("flood", call.connection, 4, honest(call).hex())

    yield Act("the same reply four times", repeat, "bad_xids", STRANGE_EVENTS, ends=True)
    yield Answer(
        "inner xid of another call",
        lambda c: _reply(c) + system_error(c.xid ^ HUGE),
        ends=True,
        last=True,
    )
    # The RPC message has the direction. With NFSv3 the client serves no calls of the server.
    yield Answer("a call", lambda c: _reply(c) + callback(c.xid), "-", CALLBACK_EVENTS)


def grants():
    """Grants of every size."""
    event = ("xprtrdma_bad_credits",)
    yield Answer(
        "no credit",
        lambda c: _reply(c, grant=0) + system_error(c.xid),
        "bad_credits",
        event,
        ends=True,
    )
    for grant in (HUGE, 0x80000000, 129):
        yield Answer(
            f"{grant} credits",
            lambda c, g=grant: _reply(c, grant=g) + system_error(c.xid),
            ends=True,
        )


def floods():
    def flood(count, make):
        def act(peer, call):
            return peer.tell("flood", call.connection, count, make(call).hex() or "-", timeout=120)

        return act

    def unasked(call):
        return header(call.xid ^ HUGE) + lists() + system_error(call.xid ^ HUGE)

    yield Act("flood of replies", flood(2000, unasked), "bad_xids", STRANGE_EVENTS, times=2000)
    yield Act("flood of nothing", flood(300, lambda c: b""), MALFORMED, SHORT_EVENTS[1:], times=300)
    yield Act(
        "flood of long headers",
        flood(200, lambda c: header(c.xid ^ HUGE) + words(0, 1, HUGE) + bytes(3900)),
        MALFORMED,
        HEADER_EVENTS,
        times=200,
    )


def accesses():
    """RDMA accesses to memory that was not offered, not for that access, or no longer."""

    def refused(status):
        """By the client's device; anything else is no proof, and no end either."""
        known = {"success": "REACHED CLIENT MEMORY", "remote access error": "refused"}
        return known.get(status, "gone")

    def beyond(peer, call):
        handle, length, offset = call.writes[0][-1]
        return refused(
            peer.tell("write", call.connection, f"{handle:x}", f"{offset + length - 2:x}", "ee" * 4)
        )

    def into_read_chunk(peer, call):
        handle, _, offset = call.reads[0][1]
        return refused(peer.tell("write", call.connection, f"{handle:x}", f"{offset:x}", "ee" * 4))

    def out_of_write_chunk(peer, call):
        handle, _, offset = call.writes[0][0]
        return refused(peer.tell("read", call.connection, f"{handle:x}", f"{offset:x}", 16))

    def stale(peer, call):
        handle, _, offset = call.writes[0][0]
        peer.send(call.connection, honest(call))
        # The client takes away the permission when it handles the reply.
        time.sleep(2)
        return refused(peer.tell("write", call.connection, f"{handle:x}", f"{offset:x}", "ee" * 4))

    def with_immediate(peer, call):
        handle, _, offset = call.writes[0][0]
        return peer.tell("writeimm", call.connection, f"{handle:x}", f"{offset:x}", "ee" * 4)

    # It uses up a Receive, in which there is an older message, if any.
    yield Act(
        "write with immediate data",
        with_immediate,
        "not_a_send",
        ("xprtrdma_not_a_send",),
        has_write,
        last=True,
    )
    yield Act("write past the end", beyond, fits=has_write, last=True)
    yield Act("write into a read chunk", into_read_chunk, fits=has_read, last=True)
    yield Act("read from a write chunk", out_of_write_chunk, fits=has_write, last=True)
    yield Act("write after the reply", stale, fits=has_write, ends=True, last=True)


def invalidations():
    """Send With Invalidate of an R_key that the call did not offer."""
    foreign = ("xprtrdma_reminv_foreign",)

    def invalidate(peer, call, handle, message=None):
        data = (message or honest(call)).hex()
        return peer.tell("sendinv", call.connection, f"{handle:x}", data)

    def of_another(peer, call, victim):
        return invalidate(peer, call, victim.handles[0])

    def for_nobody(peer, call):
        message = header(call.xid ^ HUGE) + lists() + system_error(call.xid ^ HUGE)
        return invalidate(peer, call, call.handles[0], message)

    def twice(peer, call):
        invalidate(peer, call, call.handles[0])
        return invalidate(peer, call, call.handles[0])

    def its_own(peer, call):
        return invalidate(peer, call, call.handles[0])

    def exposes(call):
        return bool(call.handles)

    yield Act("its own key", its_own, "-", ("xprtrdma_mr_reminv",), exposes, ends=True)
    yield Act(
        "key of another call",
        of_another,
        "foreign_rkey",
        foreign,
        has_none,
        calls=2,
        ends=True,
        last=True,
    )
    yield Act(
        "key of a call in a reply to none",
        for_nobody,
        "foreign_rkey",
        foreign,
        exposes,
        ends=True,
        last=True,
    )
    yield Act("key of no call", lambda p, c: invalidate(p, c, 0xDEADBEEF), last=True)
    yield Act("the same key twice", twice, fits=exposes, last=True)


def callbacks():
    """Backward calls, for a client that serves them."""

    def call(name, make, *args):
        return Answer(f"callback: {name}", make, *args)

    # A sensible one, and some that the service must make sense of: RPC has errors for them.
    yield call("NULL", lambda c: _reply(c) + callback(c.xid), "-", CALLBACK_EVENTS[:1])
    yield call("no such program", lambda c: _reply(c) + callback(c.xid, program=77))
    yield call("no such procedure", lambda c: _reply(c) + callback(c.xid, procedure=99))
    yield call("no such RPC version", lambda c: _reply(c) + callback(c.xid, version=9))
    yield call(
        "COMPOUND of noise", lambda c: _reply(c) + callback(c.xid, procedure=1) + b"\xa5" * 99
    )
    yield call("cut off", lambda c: _reply(c) + callback(c.xid)[:12])
    one = (0x1234, 64, 0)
    yield call(
        "with a chunk",
        lambda c: _reply(c, lists(writes=[[one]])) + callback(c.xid),
        "backward_call",
        CALLBACK_EVENTS,
    )
    yield call(
        "of two minds",
        lambda c: _reply(c) + callback(c.xid ^ HUGE),
        "backward_call",
        CALLBACK_EVENTS,
    )

    def with_key(peer, call):
        message = _reply(call) + callback(call.xid)
        return peer.tell("sendinv", call.connection, f"{call.handles[0]:x}", message.hex())

    # It answers nothing, so no key is its to invalidate. The connection goes.
    yield Act(
        "callback: with a key",
        with_key,
        "foreign_rkey",
        ("xprtrdma_reminv_foreign",),
        lambda c: bool(c.handles),
        last=True,
    )

    def flood(peer, call):
        message = _reply(call) + callback(call.xid)
        begun = peer.send(call.connection, message)
        # The connection ends amid them, so the last ones are never acknowledged.
        peer.tell("flood", call.connection, 1000, message.hex(), timeout=120)
        return begun

    # More than were ever granted: the connection goes.
    yield Act("callback: a thousand", flood, "backward_call", CALLBACK_EVENTS, last=True)


def oversized():
    for size in (4097, 8192, 60000):
        yield Answer(
            f"a message of {size} bytes",
            lambda c, n=size: honest(c).ljust(n, b"\0"),
            "connect_count",
            last=True,
        )


def endings():
    """The server ends the connection instead of replying."""
    yield Act("disconnect", lambda p, c: p.tell("disconnect", c.connection), last=True)
    yield Act("gone without a word", lambda p, c: p.tell("drop", c.connection), last=True)


def silences():
    """A device that refuses a probe: this costs one connection and no second one."""
    probed = ("xprtrdma_probe", "xprtrdma_wc_probe")

    def until_left(peer, call):
        forbidden = peer.tell("forbid", call.connection)
        began = time.monotonic()
        peer.event(30, "disconnected")
        return f"{forbidden}, left after {time.monotonic() - began:.0f} s"

    def patiently(peer, call):
        forbidden = peer.tell("forbid", call.connection)
        time.sleep(22)
        return forbidden

    yield Act("silence of a device that refuses probes", until_left, "-", probed, last=True)
    yield Act("silence of the same device", patiently)


GROUPS = {
    "headers": (truncations, headers, types, errors),
    "claims": (claims, transactions, grants),
    "floods": (floods, oversized, endings),
    "memory": (accesses, invalidations),
    "silence": (silences,),
    # For NFSv4.1 and later.
    "callbacks": (callbacks,),
}


def group(name):
    """Returns the misdeeds of a group, in order."""
    return [misdeed for make in GROUPS[name] for misdeed in make()]
