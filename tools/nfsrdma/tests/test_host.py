# SPDX-License-Identifier: GPL-2.0
"""Tests of the command's reading of a real machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from nfsrdma.host import MISSING, Host


def _program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_program_of_the_administrator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The PATH of other users than root lacks /usr/sbin, where modinfo is."""
    _program(tmp_path, "modinfo-of-a-test", "echo found")
    monkeypatch.setattr("nfsrdma.host.ADMINISTRATION", str(tmp_path))
    done = Host().run("modinfo-of-a-test")
    assert (done.status, done.out) == (0, "found\n")


def test_output_that_is_no_text(tmp_path: Path) -> None:
    """The kernel's log may contain any bytes."""
    _program(tmp_path, "log", "printf 'a\\377b'")
    assert Host().run(str(tmp_path / "log")).out == "a\ufffdb"


def test_carriage_return_is_no_end_of_a_line(tmp_path: Path) -> None:
    """A server may choose a name with one, which is in the list of mounts."""
    (tmp_path / "file").write_bytes(b"a\r\nb\rc\xff\n")
    assert Host().read(str(tmp_path / "file")) == "a\r\nb\rc\ufffd\n"


def test_program_that_cannot_be_run(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no program")
    assert Host().run(str(tmp_path / "data")).status == MISSING
    assert Host().run(str(tmp_path / "absent")).status == MISSING


@pytest.mark.parametrize("name", [f"{'a' * 64}.example", "a..b", "\udcff"])
def test_name_that_cannot_be_asked_for(name: str) -> None:
    """Python refuses labels that are too long or empty, and what is no text, before it asks."""
    assert Host().addresses(name) == []


def test_address_of_a_link_keeps_its_interface() -> None:
    assert Host().addresses("fe80::1%lo") == ["fe80::1%lo"]
    assert Host().addresses("fe80::1%999999") == ["fe80::1%999999"]
    assert Host().addresses("fd00::1") == ["fd00::1"]


def test_files_that_are_not_there(tmp_path: Path) -> None:
    """Files of debugfs go away when the module does."""
    host = Host()
    assert host.read(str(tmp_path / "connections")) is None
    assert host.read(str(tmp_path)) is None
    assert host.names(str(tmp_path / "connections")) == []
    assert not host.is_denied(str(tmp_path / "connections"))


def test_write(tmp_path: Path) -> None:
    file = tmp_path / "file"
    assert Host().write(str(file), "10.0.0.101") == ""
    assert file.read_text() == "10.0.0.101"
    assert Host().write(str(tmp_path), "1") == "Is a directory"


def test_write_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe without a reader: opening it hangs."""
    monkeypatch.setattr("nfsrdma.host.PATIENCE", 0.4)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert Host().write(str(pipe), "1", 2) == "the kernel takes too long"
