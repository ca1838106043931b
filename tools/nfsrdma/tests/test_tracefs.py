# SPDX-License-Identifier: GPL-2.0
"""Tests of a recording, with a folder in place of tracefs and a FIFO in place of the pipe."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nfsrdma.errors import UsageError
from nfsrdma.trace.tracefs import Recording
from recorded import GETATTR, lines

NAMES = ["rpcrdma:xprtrdma_marshal", "rpcrdma:xprtrdma_new"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tracefs whose instances have what those of the kernel have."""
    (tmp_path / "events/rpcrdma").mkdir(parents=True)
    (tmp_path / "instances").mkdir()
    make = Path.mkdir

    def make_instance(self: Path, *args: object, **options: object) -> None:
        make(self, *args, **options)
        if self.parent == tmp_path / "instances":
            event = self / "events/rpcrdma/xprtrdma_marshal"
            make(event, parents=True)
            (event / "enable").write_text("0")
            os.mkfifo(self / "trace_pipe")

    monkeypatch.setattr(Path, "mkdir", make_instance)
    return tmp_path


@pytest.fixture
def pipe(root: Path) -> Iterator[Callable[[str], None]]:
    """Writes to the pipe of the instance."""
    opened: list[int] = []

    def write(text: str) -> None:
        (file,) = (root / "instances").glob("*/trace_pipe")
        if not opened:
            opened.append(os.open(file, os.O_RDWR | os.O_NONBLOCK))
        os.write(opened[0], text.encode())

    yield write
    for file in opened:
        os.close(file)


def _instance(root: Path, name: str) -> str:
    (file,) = (root / "instances").glob(f"*/{name}")
    return file.read_text()


def test_events_are_enabled(root: Path) -> None:
    with Recording(NAMES, root) as recording:
        assert _instance(root, "events/rpcrdma/xprtrdma_marshal/enable") == "1"
        assert _instance(root, "trace_clock") == "mono"
        assert recording.missing == ["rpcrdma:xprtrdma_new"]
        recording.set_filter("!(task_id & 3)", NAMES[:1])
        assert _instance(root, "events/rpcrdma/xprtrdma_marshal/filter") == "!(task_id & 3)"
        recording.stop()
        assert _instance(root, "tracing_on") == "0"
    assert _instance(root, "events/enable") == "0"


@pytest.mark.parametrize(
    ("processors", "size"),
    [(2, 4096), (16, 4096), (64, 1024), (256, 256), (512, 256), (None, 4096)],
)
def test_buffers_of_many_processors(
    root: Path, monkeypatch: pytest.MonkeyPatch, processors: int | None, size: int
) -> None:
    """All buffers together have 64 MiB at most, as long as each has 256 KiB."""
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    with Recording(NAMES, root):
        assert int(_instance(root, "buffer_size_kb")) == size


def test_events_end_with_the_module(root: Path) -> None:
    """They are not enabled when it is loaded again."""
    recording = Recording(NAMES, root)
    assert not recording.is_live
    with recording:
        assert recording.is_live
        (enable,) = (root / "instances").glob("*/events/rpcrdma/xprtrdma_marshal/enable")
        enable.write_text("0")
        assert not recording.is_live
        enable.unlink()
        assert not recording.is_live


def test_events_that_no_module_has_cannot_end(root: Path) -> None:
    with Recording(["rpcrdma:xprtrdma_new", "sunrpc:rpc_new"], root) as recording:
        assert recording.is_live


def test_lines_that_come_in_parts(root: Path, pipe: Callable[[str], None]) -> None:
    first, second, third = lines(GETATTR)[:3]
    with Recording(NAMES, root) as recording:
        assert recording.read() == []
        pipe(f"{first}\n{second[:30]}")
        assert [event.name for event in recording.read()] == ["rpc_request"]
        pipe(f"{second[30:]}\nCPU:1 [LOST 7 EVENTS]\n{third}\n")
        names = [event.name for event in recording.read(1)]
        assert names == ["xprtrdma_marshal", "xprtrdma_post_send"]
        assert recording.lost == 7


def test_events_that_arrive_faster_than_they_are_read(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read ends although the pipe is never empty, and keeps the part of a line at its end."""
    text = f"{lines(GETATTR)[0]}\n".encode()
    given = 0

    def endless(_pipe: int, count: int) -> bytes:
        nonlocal given
        assert given < 1 << 24
        begin = given % len(text)
        given += count
        return (text * (count // len(text) + 2))[begin : begin + count]

    with Recording(NAMES, root) as recording:
        with monkeypatch.context() as patch:
            patch.setattr(os, "read", endless)
            events = recording.read() + recording.read()
        assert given == 2 << 22
        assert len(events) == given // len(text)
        assert {event.name for event in events} == {"rpc_request"}


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_signal_while_events_are_enabled(
    root: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    """The events do not stay on."""

    def interrupted(_recording: Recording, _name: str) -> None:
        raise kind

    monkeypatch.setattr(Recording, "_enable", interrupted)
    with pytest.raises(kind), Recording(NAMES, root):
        pass
    assert _instance(root, "events/enable") == "0"


def test_task_with_an_odd_name(root: Path, pipe: Callable[[str], None]) -> None:
    """It hides no event."""
    with Recording(NAMES, root) as recording:
        pipe("  a\x0b\x1c\u2028b-7 [000] ..... 1.000000: rpc_request: task:0000002a@00000005\n")
        assert [event.thread for event in recording.read(1)] == ["a\x0b\x1c\u2028b-7"]


def test_without_tracefs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="are you root"), Recording(NAMES, tmp_path):
        pass


def test_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path, **_options: object) -> None:
        raise PermissionError

    recording = Recording(NAMES, tmp_path)
    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(UsageError, match="are you root"):
        recording.__enter__()


def test_without_the_module(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    with pytest.raises(UsageError, match="modprobe rpcrdma"), Recording(NAMES, tmp_path):
        pass


def test_kernel_without_instances(tmp_path: Path) -> None:
    (tmp_path / "events/rpcrdma").mkdir(parents=True)
    with pytest.raises(UsageError, match="cannot record"), Recording(NAMES, tmp_path):
        pass


def _given(root: Path, folder: Path) -> None:
    """Makes an instance without the files with which no directory can be removed."""
    (root / "new").mkdir()
    (root / "new").rename(folder)


def test_instance_of_a_command_that_had_the_same_number(root: Path) -> None:
    """A container that is started again after SIGKILL has process 1 again."""
    _given(root, root / "instances" / f"nfsrdma.{os.getpid()}")
    with Recording(NAMES, root):
        assert _instance(root, "events/rpcrdma/xprtrdma_marshal/enable") == "1"


def test_instance_of_another_container(root: Path) -> None:
    """The kernel does not let it go, and it continues to record."""
    folder = root / "instances" / f"nfsrdma.{os.getpid()}"
    _given(root, folder)
    (folder / "events").mkdir()
    (folder / "events/enable").write_text("1")
    with pytest.raises(UsageError, match="is in use, perhaps by"), Recording(NAMES, root):
        pass
    assert _instance(root, "events/enable") == "1"


def test_instance_of_a_command_that_was_killed(root: Path) -> None:
    """It would record endlessly."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    stale = root / "instances" / f"nfsrdma.{ended.pid}"
    alive, foreign = root / "instances/nfsrdma.1", root / "instances/other.7"
    for folder in (stale, alive, foreign):
        _given(root, folder)
    with Recording(NAMES, root):
        assert not stale.exists()
        assert alive.exists()
        assert foreign.exists()
