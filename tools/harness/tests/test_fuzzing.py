# SPDX-License-Identifier: GPL-2.0
"""The fuzzer's first inputs, without the program."""

from __future__ import annotations

import pytest
from lab.errors import LabError

from harness import fuzzing

EVENTS = ("start", "reply", "start", "all")


def test_input() -> None:
    assert fuzzing.encode(" start 0 0x10, all, reply 255", EVENTS) == b"\x00\x00\x10\x03\x01\xff"


def test_unknown_event() -> None:
    with pytest.raises(LabError, match="no event stop"):
        fuzzing.encode("start 1, stop", EVENTS)


def test_seeds_of_a_role() -> None:
    text = "# client: all\nclient: all\nserver: start\nclient_two: reply\n\n"
    assert fuzzing.seeds("client_one", EVENTS, text) == [b"\x03"]
    assert fuzzing.seeds("client_two", EVENTS, text) == [b"\x03", b"\x01"]
    assert fuzzing.seeds("server_one", EVENTS, text) == [b"\x00"]
