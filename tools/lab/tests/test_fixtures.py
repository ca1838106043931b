# SPDX-License-Identifier: GPL-2.0
"""The tunables of a scenario are restored."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lab.agent import Exit
from lab.fixtures import TUNABLES, Cable, Tunables, server_counters
from lab.pair import Guest, Pair

INVALID = Exit(1, b"", b"write error: Invalid argument")


class FakeGuest:
    """A guest with files; it refuses values above 9."""

    def __init__(self, **files: str) -> None:
        """Has these tunables."""
        self.files = {f"{TUNABLES}/{name}": f"{value}\n" for name, value in files.items()}

    def read(self, path: str) -> str:
        """Returns the text of a file."""
        return self.files[path]

    def run(self, command: str) -> Exit:
        """Carries out `echo VALUE > FILE`."""
        _, value, _, path = command.split()
        if path not in self.files:
            return Exit(1, b"", b"No such file or directory")
        if int(value) > 9:
            return INVALID
        self.files[path] = f"{value}\n"
        return Exit(0, b"", b"")

    sh = run


def test_values_are_restored() -> None:
    guest = FakeGuest(depth="3", width="4")
    tunables = Tunables(cast(Guest, guest))
    tunables.set(depth=5)
    tunables.set(depth=6, width=7)
    assert tunables.get("depth") == 6
    assert not tunables.accepts("width", 10)
    tunables.restore()
    assert list(guest.files.values()) == ["3\n", "4\n"]


def test_a_refused_value_is_an_error() -> None:
    tunables = Tunables(cast(Guest, FakeGuest(depth="3")))
    with pytest.raises(AssertionError, match="depth=10"):
        tunables.set(depth=10)


class FakePair:
    """A pair that notes which captures began and ended."""

    def __init__(self) -> None:
        """The capture of the lab itself is in progress."""
        self.open = ["lab"]
        self.done: list[str] = []

    def capture(self, path: Any) -> None:
        """Begins a capture."""
        assert not self.open
        self.open.append(path.name)

    def end_capture(self) -> None:
        """Ends the capture."""
        self.done.append(self.open.pop())


def test_recordings_end_with_their_block(tmp_path: Any) -> None:
    """A capture of the lab continues after the block, even if the block fails."""
    pair = FakePair()
    cable = Cable(cast(Pair, pair), tmp_path)
    with cable.recording() as pcap:
        assert pair.open == [pcap.name]
    assert pcap.name in pair.done
    assert pair.open == ["rest-1.pcap"]
    with pytest.raises(ZeroDivisionError), cable.recording():
        raise ZeroDivisionError
    assert pair.open == ["rest-2.pcap"]


def test_counters_of_a_server() -> None:
    """Sysctls have names and values, breaches too; the pools of nfsd are added up."""
    text = (
        f"{TUNABLES}/svc_rdma/rdma_stat_recv:12\n{TUNABLES}/svc_rdma/rdma_stat_read:3\n"
        "malformed_header 4\n"
        "# pool packets-arrived sockets-enqueued threads-woken threads-timedout\n"
        "0 5 6 7 0\n1 10 10 10 0\n"
    )
    assert server_counters(text) == {
        "rdma_stat_recv": 12,
        "rdma_stat_read": 3,
        "malformed_header": 4,
        "messages": 15,
        "enqueued": 16,
        "woken": 17,
    }
