# SPDX-License-Identifier: GPL-2.0
"""Which blocks of the module count as reachable, and for which room."""

from __future__ import annotations

import pytest

from harness import coverage

RELOCATIONS = """
Relocation section '.rela.text' at offset 0x1 contains 4 entries:
    Offset             Info             Type               Symbol's Value  Symbol's Name + Addend
0000000000000008  0000000100000002 R_X86_64_PC32          0000000000000000 _ROne - 4
0000000000000018  0000000100000002 R_X86_64_PC32          0000000000000000 _R9panicking3fmt - 4
0000000000000028  0000000100000002 R_X86_64_PLT32         0000000000000000 rust_do_trace_x - 4

Relocation section '.rela__sancov_pcs' at offset 0x1 contains 1 entries:
0000000000000000  0000000100000002 R_X86_64_64            0000000000000000 _RTwo + 0
"""
SYMBOLS = [
    (0x100, "_ROne", "<rpcrdma::conn::state::State>::one"),
    (0x140, "_RTwo", "rpcrdma::wire::two"),
    (0x180, "other", "init_module"),
]
CODE = """
0000000000000100 <_ROne>:
     100:\tmov    %rax,%rbx
     104:\tjo     120 <_ROne+0x20>
     108:\tincb   0x10(%rip)
     10c:\tjmp    130 <_ROne+0x30>
     110:\tincb   0x10(%rip)
     114:\tcall   900 <rust_do_trace_x>
     120:\tincb   0x10(%rip)
     124:\tret
     130:\tcall   800 <_RN9panicking3fmt>
     134:\tud2
"""


@pytest.mark.parametrize(
    ("name", "room"),
    [
        ("rpcrdma::client::call::reply::handle", "client"),
        ("<rpcrdma::conn::state::State as rpcrdma::rdma::Owner>::lost", "conn"),
        ("core::ptr::drop_in_place::<rpcrdma::server::send::Reply>", "server"),
        ("<rpcrdma[1a2b3c]::wire::cursor::Cursor>::word", "wire"),
        ("init_module", "others"),
    ],
)
def test_room(name: str, room: str) -> None:
    assert coverage.room_of(name) == room


def test_uses() -> None:
    found = coverage.uses(RELOCATIONS.splitlines())
    assert "_ROne" in found
    assert "_RTwo" not in found


def test_visible() -> None:
    lines = [
        "   199: 0000000000000000  2058 FUNC    LOCAL  DEFAULT  534 _ROne",
        "   200: 0000000000000000  2058 FUNC    GLOBAL DEFAULT    1 _RTwo",
        "   201: 0000000000000000  2058 OBJECT  GLOBAL DEFAULT    1 data",
    ]
    assert coverage.visible(lines) == {"_RTwo"}


def test_blocks_are_sorted() -> None:
    code = coverage.instructions(CODE.splitlines())
    blocks = [(a, a == 0x100) for a in (0x100, 0x108, 0x110, 0x120, 0x140)]
    found = coverage.sort(blocks, SYMBOLS, {"_RTwo"}, code)
    assert (found.panics, found.traces, found.uncalled) == (1, 1, 1)
    assert list(found.rooms) == ["conn"]
    (function,) = found.rooms["conn"].functions
    assert (function.blocks, function.reached) == (2, 1)
    assert found.rooms["conn"].share() == 50


def test_a_block_that_was_reached_counts() -> None:
    code = coverage.instructions(CODE.splitlines())
    found = coverage.sort([(0x108, True), (0x140, True)], SYMBOLS, {"_RTwo"}, code)
    assert (found.panics, found.uncalled) == (0, 0)
    assert found.rooms["wire"].share() == 100
