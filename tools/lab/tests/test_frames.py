# SPDX-License-Identifier: GPL-2.0
"""Stack frames, from made-up disassembly."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab import frames

TEXT = """
rpcrdma.o:     file format elf64-x86-64

Disassembly of section .text:

0000000000000000 <small>:
       0:\tendbr64
       4:\tjmp    9 <small+0x9>

0000000000000010 <<rpcrdma::Client as Transport>::connect>:
      10:\tpush   %rbp
      11:\tpush   %r15
      13:\tsub    $0x3f8,%rsp
      1a:\tadd    $0x3f8,%rsp
      21:\tpop    %r15
      23:\tret
      24:\tpush   %rbx
      25:\tadd    $0x3f8,%rsp

0000000000000030 <by_addition>:
      30:\tadd    $0xffffffffffffff80,%rsp

0000000000000040 <compares>:
      40:\tsub    $0x10,%rsi
      44:\tlea    -0x8(%rsp),%rdi
"""


def test_a_frame_has_the_pushed_registers_and_the_return_address() -> None:
    assert frames.sizes(TEXT.splitlines()) == {
        "<rpcrdma::Client as Transport>::connect": 0x3F8 + 3 * 8,
        "by_addition": 0x80 + 8,
    }


ARM64 = """
0000000000000000 <stores>:
       0:\tstp\tx29, x30, [sp, #-96]!
       4:\tstp\tx20, x19, [sp, #80]
       8:\tsub\tsp, sp, #0x1, lsl #12
       c:\tsub\tsp, sp, #0x2a0
      10:\tadd\tsp, sp, #0x2a0

0000000000000020 <subtracts>:
      20:\tsub\tsp, sp, #0x40
      24:\tsub\tx0, sp, #0x40
"""


def test_frames_for_arm64() -> None:
    assert frames.sizes(ARM64.splitlines()) == {"stores": 96 + 0x1000 + 0x2A0, "subtracts": 0x40}


@pytest.mark.parametrize(("size", "good"), [(frames.LIMIT, True), (frames.LIMIT + 1, False)])
def test_limit(size: int, good: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert frames.check({"small": 64, "large": size}) == good
    assert ("FAIL" in capsys.readouterr().out) != good


def test_an_object_without_frames_fails() -> None:
    assert not frames.check({})


def test_compiled_function(tmp_path: Path) -> None:
    source, target = tmp_path / "frame.c", tmp_path / "frame.o"
    source.write_text(
        "void use(char *);\n"
        "void large(void) { char place[3000]; use(place); }\n"
        "void small(void) { char place[300]; use(place); }\n"
    )
    subprocess.run(["gcc", "-O2", "-c", source, "-o", target], check=True)
    found = frames.of(target)
    assert found["large"] > 3000 > found["small"] > 300
    assert not frames.check(found)
