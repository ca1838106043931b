# SPDX-License-Identifier: GPL-2.0
"""The conversation of the hostile peer with a client that consists of events."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import suppress

from lab import paths

sys.path.insert(0, str(paths.GUEST))
import misdeeds
import peer

# The lab also has a module named `hostile`.
_spec = importlib.util.spec_from_file_location("hostile_peer", paths.GUEST / "hostile.py")
assert _spec is not None and _spec.loader is not None
hostile_peer = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(hostile_peer)

CALL = peer.header(7) + peer.lists(writes=[[(0x100, 4096, 0)]]) + peer.words(7, 0, 2, 100003, 3, 1)


class Client:
    """A client that sends calls one after the other and then leaves or is silent."""

    def __init__(self, calls: int, *, leaves: bool, outcome: str = "success") -> None:
        """`leaves`: it disconnects after the calls. `outcome`: that of all requests but Sends."""
        self._calls, self._leaves, self._outcome = calls, leaves, outcome
        self.sent: list[bytes] = []
        self.told: list[str] = []

    def event(self, _timeout: float, *_kinds: str) -> list[str]:
        """Returns the next event in the form that the verbs program prints."""
        if self._calls:
            self._calls -= 1
            return ["received", "1", CALL.hex()]
        if self._leaves:
            return ["disconnected", "1"]
        raise peer.SilenceError("nothing more")

    def send(self, _connection: str, message: bytes) -> str:
        """Keeps the message."""
        self.sent.append(message)
        return "success"

    def tell(self, command: str, *_: object) -> str:
        """Keeps the command."""
        self.told.append(command)
        return self._outcome


class Recovering:
    """An NFSv4 client that connects and sends these messages."""

    def __init__(self, *messages: bytes) -> None:
        """Sends the messages in this order over one connection."""
        self._events = [["request", "1"], *(["received", "1", m.hex()] for m in messages)]
        self.told: list[str] = []

    def event(self, _timeout: float, *_kinds: str) -> list[str]:
        """Returns the next event in the form that the verbs program prints."""
        if self._events:
            return self._events.pop(0)
        raise peer.SilenceError("nothing more")

    def accept(self, _connection: str) -> str:
        """Succeeds always."""
        return "success"

    def send(self, _connection: str, _message: bytes) -> str:
        """Succeeds always."""
        return "success"

    def tell(self, command: str, *_: object) -> str:
        """Keeps the command."""
        self.told.append(command)
        return "success"

    def ask(self, _message: bytes) -> bytes:
        """Answers as the real server does."""
        return bytes(24)


def misdeed(*outcomes: str, last: bool = False) -> misdeeds.Act:
    left = list(outcomes)
    return misdeeds.Act("wrong", lambda *_: left.pop(0), last=last)


def test_no_misdeed_before_nfsv4_has_recovered_its_state() -> None:
    done = peer.header(8) + peer.lists() + peer.words(8, 0, 2, 100003, 4, 1, 53, 58, 0)
    early = Recovering(CALL, CALL, done)
    with suppress(peer.SilenceError):
        hostile_peer.indulge(early, early)
    assert early.told == []
    recovered = Recovering(CALL, done, CALL)
    hostile_peer.indulge(recovered, recovered)
    assert recovered.told == ["drop"]


def converse(client: Client, wanted: list[misdeeds.Misdeed]) -> None:
    hostile_peer.converse(client, None, "1", wanted)


def test_first_call_gets_an_answer_and_the_second_a_misdeed() -> None:
    wanted: list[misdeeds.Misdeed] = [misdeed("success")]
    client = Client(2, leaves=True)
    converse(client, wanted)
    assert wanted == []
    # The misdeed does not end the call, so an honest answer follows.
    assert len(client.sent) == 2


def test_misdeed_to_a_client_that_had_left_is_done_again() -> None:
    wanted: list[misdeeds.Misdeed] = [misdeed(hostile_peer.GONE, "success")]
    converse(Client(2, leaves=True), wanted)
    assert len(wanted) == 1
    converse(Client(2, leaves=True), wanted)
    assert wanted == []


def test_misdeed_that_was_lost_on_its_way_is_done_again() -> None:
    for last in (False, True):
        wanted: list[misdeeds.Misdeed] = [misdeed(hostile_peer.UNHEARD, last=last)]
        client = Client(2, leaves=True)
        converse(client, wanted)
        assert len(wanted) == 1
        assert client.told == ["drop"]


def test_access_counts_as_refused_only_if_the_device_says_so() -> None:
    wanted = [one for one in misdeeds.group("memory") if one.name == "write past the end"]
    for outcome, left in (("no completion", 1), ("remote access error", 0)):
        converse(Client(2, leaves=True, outcome=outcome), wanted)
        assert len(wanted) == left


def test_departure_ends_the_conversation_and_no_misdeed() -> None:
    wanted: list[misdeeds.Misdeed] = [misdeed("success")]
    converse(Client(1, leaves=True), wanted)
    assert len(wanted) == 1


def test_silence_is_reported() -> None:
    wanted: list[misdeeds.Misdeed] = [misdeed("success")]
    try:
        converse(Client(1, leaves=False), wanted)
    except peer.SilenceError:
        return
    raise AssertionError("a silent client was waited for")
