# SPDX-License-Identifier: GPL-2.0
"""Contended locks: the plugin's records, the unwinder, and who waits."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from lab import orc
from lab.bench.server import contention
from lab.errors import GuestError, LabError

#: `inner` has just its return address on the stack; `outer` has also saved rbp, and has a local
#: variable; `framed` has its frame at rbp; `entry` begins with the registers of an interrupt.
ASSEMBLER = """
.text
inner: .fill 16
outer: .fill 16
framed: .fill 16
entry: .fill 16
.section .orc_unwind_ip,"a"
.long entry - .
.long outer - .
.long inner - .
.long framed - .
.section .orc_unwind,"a"
.short 0, 0, 0x303
.short 24, -16, 0x283
.short 8, 0, 0x203
.short 16, -16, 0x284
"""
INNER, OUTER, FRAMED, ENTRY = range(0, 64, 16)


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """Returns an object file with ORC tables, as a module has."""
    target = tmp_path / "module.o"
    command = ["gcc", "-c", "-x", "assembler", "-o", target, "-"]
    subprocess.run(command, input=ASSEMBLER.encode(), check=True)
    return target


def _stack(base: int) -> orc.Stack:
    top = 0x1000
    frame = top + 8 * 6
    words = (base + OUTER + 5, 7, frame, base + FRAMED + 5, 7, 7, 0, base + ENTRY + 5, 7)
    return orc.Stack(top, 1, words)


def test_stack_of_a_module(compiled: Path) -> None:
    base = 0xFFFFFFFFA0000000
    unwinder = orc.Unwinder(orc.of_module(compiled.read_bytes(), {".text": base}))
    assert unwinder.callers(_stack(base)) == [base + at + 5 for at in (OUTER, FRAMED, ENTRY)]
    # Words that are missing end the stack.
    short = orc.Stack(0x1000, 1, _stack(base).words[:3])
    assert unwinder.callers(short) == [base + OUTER + 5]
    # Sections that are not loaded have no places.
    assert not list(orc.of_module(compiled.read_bytes(), {".init.text": base}))


def test_stack_of_the_kernel(compiled: Path, tmp_path: Path) -> None:
    linked, base = tmp_path / "vmlinux", 0x400000
    command = ["ld", "-e0", f"-Ttext={base:#x}", "-o", linked, compiled]
    subprocess.run(command, check=True)
    places = sorted(orc.of_kernel(linked.read_bytes()))
    assert [place for place, _ in places] == [base + at for at in (INNER, OUTER, FRAMED, ENTRY)]
    stack = _stack(base)
    assert orc.Unwinder(places).callers(stack) == [base + at + 5 for at in (OUTER, FRAMED, ENTRY)]


def test_file_without_tables(compiled: Path) -> None:
    data = compiled.read_bytes().replace(b".orc_unwind_ip", b".orc_unwind_xx")
    with pytest.raises(LabError, match="no section"):
        list(orc.of_kernel(data))


def _record(function: int, *words: int) -> bytes:
    return struct.pack("=512Q", function, 0x1000, 7, len(words), *words, *[0] * (508 - len(words)))


def test_records_of_the_plugin(tmp_path: Path) -> None:
    file = tmp_path / "records"
    file.write_bytes(_record(2) + _record(10, 1, 2) + _record(11, 3))
    records = contention.Records(file)
    assert records.count() == 2
    assert list(records.after(1)) == [(11, orc.Stack(0x1000, 7, (3,)))]
    assert [function for function, _ in records.after(0)] == [10, 11]
    file.write_bytes(_record(1 << 17))
    with pytest.raises(GuestError, match="room"):
        list(records.after(0))


def test_who_waits() -> None:
    slow = "queued_spin_lock_slowpath"
    names = [slow, "_raw_spin_lock_bh", "take [rpcrdma]", "post [rpcrdma]", "svc_recv"]
    assert contention.kind(names) == f"{slow} < take [rpcrdma]"
    names = [slow, "rust_helper_spin_lock", "rxe_post_send", "post [rpcrdma]", "take [rpcrdma]"]
    assert contention.kind(names) == f"{slow} < rxe_post_send < post [rpcrdma]"
    names = [slow, "try_to_wake_up", "__ib_process_cq", "ib_cq_poll_work"]
    assert contention.kind(names) == f"{slow} < try_to_wake_up < __ib_process_cq"
    assert contention.is_inside(names) and not contention.is_inside(["ib_cq_poll_work"])
    assert contention.kind([slow, "_raw_spin_lock", "rxe_rcv"]) == f"{slow} < rxe_rcv"
    assert contention.kind([slow]) == slow
