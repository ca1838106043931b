# SPDX-License-Identifier: GPL-2.0
"""The hostile peer's answers have the defects of their names, and the lab parses its reports."""

from __future__ import annotations

import socket
import sys

import pytest

from lab import hostile, paths, relay

sys.path.insert(0, str(paths.GUEST))
import misdeeds
import peer

WRITE = (0x100, 4096, 0x7_0000_0000)
READ = (0x200, 8192, 0x6_0000_0000)
REPLY = (0x300, 65536, 0x5_0000_0000)
BODY = peer.words(7, 0, 2, 100003, 3, 1)


def call(**fields: object) -> peer.Call:
    return peer.Call("1", peer.header(7) + peer.lists(**fields) + BODY)


def test_a_call_is_taken_apart() -> None:
    whole = call(reads=[(40, READ)], writes=[[WRITE]], reply=[REPLY, REPLY])
    assert (whole.xid, whole.version, whole.kind) == (7, 1, peer.MSG)
    assert whole.reads == [(40, READ)]
    assert whole.writes == [[WRITE]]
    assert whole.reply == [REPLY, REPLY]
    assert whole.payload == BODY
    assert whole.handles == [0x200, 0x100, 0x300, 0x300]
    assert call().handles == []


CALLS = (call(), call(reads=[(40, READ)]), call(writes=[[WRITE]]), call(reply=[REPLY]))


@pytest.mark.parametrize("group", misdeeds.GROUPS)
def test_each_misdeed_fits_a_call(group: str) -> None:
    found = misdeeds.group(group)
    assert len({misdeed.name for misdeed in found}) == len(found)
    for misdeed in found:
        fitting = [one for one in CALLS if misdeed.fits(one)]
        assert fitting, misdeed.name
        if isinstance(misdeed, misdeeds.Answer):
            assert all(misdeed.make(one) != misdeeds.honest(one) for one in fitting), misdeed.name


def test_truncations_are_of_an_honest_answer() -> None:
    honest = misdeeds.honest(CALLS[0])
    for misdeed in misdeeds.truncations():
        cut = misdeed.make(CALLS[0])
        assert honest.startswith(cut)
        assert misdeed.name == f"cut to {len(cut)}"


def test_reports_add_up() -> None:
    text = "ready\ndid reply_claim 1 xprtrdma_a,xprtrdma_b one: success\ndid - 1 - two: dead\n"
    found = hostile.deeds(f"{text}did bad_xids 200 xprtrdma_b three: success\n")
    assert [deed.text for deed in found] == ["one: success", "two: dead", "three: success"]
    moved, fired = hostile.expected(found)
    assert moved == {"reply_claim": 1, "bad_xids": 200}
    assert fired == {"xprtrdma_a": 1, "xprtrdma_b": 201}


def test_report_without_a_misdeed() -> None:
    with pytest.raises(AssertionError, match="committed no breach"):
        hostile.deeds("ready\n")


def test_held_frames_come_late_and_in_order() -> None:
    here, there = socket.socketpair()
    there.settimeout(20)
    sender = relay.Sender(here)
    sender.put(b"one", 0)
    sender.put(b"three", 0.5)
    sender.put(b"two", 0.25)
    assert there.recv(100) == b"\0\0\0\x03one"
    assert there.recv(7) == b"\0\0\0\x03two"
    assert there.recv(9) == b"\0\0\0\x05three"
