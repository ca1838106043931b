# SPDX-License-Identifier: GPL-2.0
"""Tests of asking a port: the structures of the connection manager's device, and the answers."""

from __future__ import annotations

import struct

import pytest
from nfsrdma.ucm import Answer

from nfsrdma import ucm


def test_addresses() -> None:
    v4, v6 = ucm._sockaddr("10.0.0.1", 20049), ucm._sockaddr("fd00::1", 20049)
    assert len(v4) == len(v6) == 28
    assert v4[:8] == b"\x02\x00\x4e\x51\x0a\x00\x00\x01"
    assert v6[:8] == b"\x0a\x00\x4e\x51\x00\x00\x00\x00"
    assert v6[8:24] == b"\xfd" + bytes(14) + b"\x01"
    with pytest.raises(ValueError, match="nonsense"):
        ucm._sockaddr("nonsense", 1)


def test_interface_of_an_address_of_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel needs its number: each interface has the same prefix."""
    monkeypatch.setattr(ucm.socket, "if_nametoindex", {"eth0": 7}.__getitem__)
    address = ucm._sockaddr("fe80::1%eth0", 20049)
    assert len(address) == 28
    assert address[8:24] == b"\xfe\x80" + bytes(13) + b"\x01"
    assert struct.unpack_from("=I", address, 24) == (7,)


def test_request() -> None:
    """The structure has the size of struct rdma_ucm_connect, and each field its place."""
    request = ucm._connect(77)
    assert len(request) == 288
    assert struct.unpack_from("=I", request, 0) == (0xFFFFFE,)
    # responder_resources, initiator_depth; retry_count, rnr_retry_count, valid
    assert request[266:268] == b"\x01\x01"
    assert request[269:272] == b"\x07\x07\x01"
    assert struct.unpack_from("=I", request, 272) == (77,)


@pytest.mark.parametrize(
    ("event", "status", "answer"),
    [
        (5, 0, Answer.LISTENS),
        (9, 0, Answer.LISTENS),
        (8, 8, Answer.REFUSED),
        (8, -111, Answer.REFUSED),
        (8, 28, Answer.REJECTED),
        (7, -110, Answer.SILENT),
        (6, -1, Answer.SILENT),
        (None, 0, Answer.SILENT),
    ],
)
def test_verdict(event: int | None, status: int, answer: Answer) -> None:
    assert ucm.verdict(event, status) == answer


@pytest.mark.parametrize(
    ("denied", "answer"), [(3, Answer.UNRESOLVED), (4, Answer.UNRESOLVED), (6, Answer.UNASKED)]
)
def test_command_that_is_denied(
    denied: int, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No way leads to the address, or, over iWARP, a connection needs a queue pair."""

    def command(_device: int, number: int, _payload: bytes, _out: int = 0) -> None:
        if number == denied:
            raise OSError
        events.append({3: 0, 4: 2}.get(number))

    events: list[int | None] = []
    monkeypatch.setattr(ucm, "DEVICE", "/dev/null")
    monkeypatch.setattr(ucm, "_command", command)
    monkeypatch.setattr(ucm, "_event", lambda _device: (events[-1], 0))
    assert ucm.ask("10.0.0.1", 1) == answer


def test_without_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ucm, "DEVICE", "/nonexistent")
    assert ucm.ask("10.0.0.1", 1) == Answer.UNKNOWN


def test_device_that_refuses_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ucm, "DEVICE", "/dev/full")
    assert ucm.ask("10.0.0.1", 1) == Answer.UNASKED
    assert ucm.ask("nonsense", 1) == Answer.UNASKED
