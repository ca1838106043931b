# SPDX-License-Identifier: GPL-2.0
"""Tests full disks, with small file systems in memory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import Machine, hook
from test_faults import fails

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@contextmanager
def small_disk(at: Path, kilobytes: int) -> Iterator[None]:
    """Mounts a file system of this size at `at`."""
    at.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "t", at], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", at], check=True)


@needs_root
def test_no_room_to_work(machine: Machine) -> None:
    with small_disk(machine.work, 64):
        fails(machine, "no room", "--work")
    machine.succeeds()


@needs_root
def test_no_room_to_install(machine: Machine) -> None:
    """The disk is full at the last step: the tool removes the files that it has installed."""
    tree = machine.build / "rust"
    grow = 'mkdir -p "$2/rust"; head -c 300000 /dev/zero > "$2/rust/libz.rmeta"'
    hook(machine, grow)
    with small_disk(tree, 64):
        fails(machine, "no room left", str(machine.build))
    tree.rmdir()
    machine.succeeds()
