# SPDX-License-Identifier: GPL-2.0
"""Which blocks of the module count as reachable, and for which room."""

from __future__ import annotations

import pytest
from harness.unreached import Place

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
     104:\tjo     108 <_ROne+0x8>
     106:\tjmp    120 <_ROne+0x20>
     108:\tincb   0x10(%rip)
     10c:\tjmp    130 <_ROne+0x30>
     110:\tincb   0x10(%rip)
     114:\tcall   900 <rust_do_trace_x>
     120:\tincb   0x10(%rip)
     124:\tret
     130:\tcall   800 <_RN9panicking3fmt>
     134:\tud2
"""
WAYS = coverage.ways(coverage.instructions(CODE.splitlines()), [0x100])


PLACES = {
    0x100: Place("rust/conn/state.rs", 10, 5),
    0x108: Place("rust/conn/state.rs", 12, 9),
    0x110: Place("rust/conn/state.rs", 13, 9),
    0x120: Place("rust/conn/state.rs", 14, 5),
    0x140: Place("rust/wire.rs", 3, 1),
}


@pytest.mark.parametrize(
    ("file", "room"), [("rust/client/call/reply.rs", "client"), ("rust/wire.rs", "wire")]
)
def test_room(file: str, room: str) -> None:
    assert coverage.room_of(file) == room


def _frame(file: str, line: int) -> dict[str, object]:
    return {"FileName": file, "Line": line, "Column": 7, "FunctionName": "f"}


def test_the_place_is_the_innermost_of_the_tree() -> None:
    library, ours = (
        _frame("/kernel/rust/kernel/sync.rs", 8),
        _frame("/b/module-fuzz/rust/conn/a.rs", 9),
    )
    assert coverage.place_of([library, ours, _frame("/b/module-fuzz/rust/conn/b.rs", 1)]) == Place(
        "rust/conn/a.rs", 9, 7
    )
    assert coverage.place_of([_frame("/b/module-fuzz/rust/conn/a.rs", 0), _frame("??", 0)]) is None


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
    blocks = [(a, a == 0x100) for a in (0x100, 0x108, 0x110, 0x120, 0x140)]
    found = coverage.sort(blocks, SYMBOLS, {"_RTwo"}, WAYS, PLACES)
    assert (found.panics, found.traces, found.uncalled, found.foreign) == (1, 1, 1, 0)
    assert list(found.rooms) == ["conn"]
    assert found.rooms["conn"].places == {PLACES[0x100]: True, PLACES[0x120]: False}
    assert (found.rooms["conn"].blocks, found.rooms["conn"].reached) == (2, 1)


def test_a_block_that_was_reached_counts() -> None:
    found = coverage.sort([(0x108, True), (0x140, True)], SYMBOLS, {"_RTwo"}, WAYS, PLACES)
    assert (found.panics, found.uncalled) == (0, 0)
    assert found.rooms["wire"].places == {PLACES[0x140]: True}


def test_a_place_is_reached_if_one_of_its_blocks_is() -> None:
    place = Place("rust/conn/state.rs", 1, 1)
    blocks = [(0x100, False), (0x120, True)]
    found = coverage.sort(blocks, SYMBOLS, set(), WAYS, {0x100: place, 0x120: place})
    assert found.rooms["conn"].places == {place: True}
    assert coverage.sort([(0x100, True)], SYMBOLS, set(), WAYS, {}).foreign == 1
