# SPDX-License-Identifier: GPL-2.0
"""The table of hostile requests agrees with its document, and messages with their names."""

from __future__ import annotations

import re
import struct
from typing import Any

import pytest

from lab import paths, requester

CASES, LOADS = requester.cases()
DOCUMENT = paths.ROOT / "Documentation/lab-hostile.rst"
NUMBERS = range(1, 83)


def _documented() -> dict[int, list[str]]:
    """Returns the cells of each row of the list by its number."""
    text = DOCUMENT.read_text().replace("\n       ", " ")
    rows = re.split(r"\n   \* - ", text)[1:]
    cells = [row.split("\n     - ") for row in rows]
    return {int(row[0]): [cell.strip() for cell in row[1:]] for row in cells if row[0].isdigit()}


def test_every_number_is_documented() -> None:
    assert sorted(_documented()) == list(NUMBERS)


def test_documented_cases_are_played() -> None:
    """A number without a case says in the list why it has none."""
    played = {case.number for case in CASES.values()}
    for number, cells in _documented().items():
        assert (number in played) == (cells[1] != "not played"), number
    assert len(played) == len(CASES)


def test_outcomes_of_a_case() -> None:
    """The first word of a step chooses among several outcomes."""
    case = next(case for case in CASES.values() if case.number == 18)
    assert case.allowed("ours", "one of three") == ("answered",)
    assert case.allowed("ours", "all of them") == ("ERR_CHUNK",)
    assert case.allowed("stock", "one of three") == ("closed",)


@pytest.mark.parametrize(("offset", "length"), [(0, 5), (255, 2), (65530, 300), (1 << 20, 512)])
def test_pattern(offset: int, length: int) -> None:
    """The contents of exposed memory are those that hostile/requester.c makes."""
    from requester import pattern  # noqa: PLC0415

    wanted = bytes((i ^ i >> 8 ^ i >> 16) & 0xFF for i in range(offset, offset + length))
    assert pattern(offset, length) == wanted


class FakeLink:
    """A link whose connection answers nothing: it notes the messages that it is to send."""

    number = "1"

    def __init__(self) -> None:
        """Has sent nothing."""
        self.sent: list[bytes] = []

    def xid(self) -> int:
        """Returns an XID."""
        return 7

    def handle(self, _name: bytes = b"data") -> bytes:
        """Returns a file handle."""
        return b"h" * 28

    def expose(self, length: int) -> Any:
        """Returns memory."""
        from requester import Region  # noqa: PLC0415

        return Region(0, 0x100, 0x7000_0000, length)

    def ask(self, _body: bytes) -> None:
        """Takes an honest call."""

    def judge(self, message: bytes, _timeout: float = 0) -> tuple[str, None]:
        """Notes a message."""
        self.sent.append(message)
        return "noted", None


def _messages(number: int) -> list[bytes]:
    link = FakeLink()
    case = next(case for case in CASES.values() if case.number == number)
    assert {outcome for _, outcome in case.act(link)} == {"noted"}
    return link.sent


@pytest.mark.parametrize("number", [1, 2])
def test_short_messages(number: int) -> None:
    limits = {1: (0, 8), 2: (8, 28)}[number]
    assert all(limits[0] <= len(message) < limits[1] for message in _messages(number))


@pytest.mark.parametrize("number", [3, 4])
def test_other_versions(number: int) -> None:
    assert all(struct.unpack_from(">I", message, 4)[0] != 1 for message in _messages(number))


def test_chunks_of_a_write() -> None:
    """The position of an overlapping chunk lies within the chunk before it."""
    (message,) = _messages(12)
    words = struct.unpack_from(">13I", message, 16)
    (one, first, _, length), (two, second) = words[:4], words[6:8]
    assert (one, two) == (1, 1)
    assert first < second < first + length
