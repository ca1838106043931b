# SPDX-License-Identifier: GPL-2.0
"""The list of what the fuzzer never reaches."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.unreached import Entry, Place
from lab.errors import LabError

from harness import unreached

FILE = "rust/conn/state.rs"
SOURCE = """\
impl State {
    pub(crate) fn first(&self) {
        let a = self.b()?;
        log();
    }

    fn second() {
        log();
    }
}
"""
FIRST, FAILS, LOG, SECOND = (Place(FILE, *at) for at in ((3, 9), (3, 20), (4, 9), (8, 9)))
REACHED = {FIRST: True, FAILS: False, LOG: False, SECOND: False}


@pytest.fixture
def sources(tmp_path: Path) -> unreached.Sources:
    path = tmp_path / FILE
    path.parent.mkdir(parents=True)
    path.write_text(SOURCE)
    return unreached.Sources(tmp_path)


def _match(entry: Entry, sources: unreached.Sources) -> tuple[set[Place], bool]:
    found = unreached.match([entry], sources, REACHED)
    return found.known, bool(found.stale)


def test_a_line_that_fails_is_reached_in_part(sources: unreached.Sources) -> None:
    assert _match(Entry(FILE, "why", code="self.b()?"), sources) == ({FAILS}, False)


def test_a_function_that_is_not_called(sources: unreached.Sources) -> None:
    assert _match(Entry(FILE, "why", function="second"), sources) == ({SECOND}, False)


def test_code_of_a_function(sources: unreached.Sources) -> None:
    entry = Entry(FILE, "why", function="first", code="log()")
    assert _match(entry, sources) == ({LOG}, False)


@pytest.mark.parametrize(
    "entry",
    [
        Entry(FILE, "it is called", function="first"),
        Entry(FILE, "it is reached"),
        Entry(FILE, "it is not there", function="third"),
        Entry(FILE, "it is not there", code="unlog()"),
        Entry("rust/conn/gone.rs", "it is not there"),
    ],
)
def test_stale(entry: Entry, sources: unreached.Sources) -> None:
    assert _match(entry, sources)[1]


def test_lines_have_each_line_once(sources: unreached.Sources) -> None:
    assert unreached.lines([FAILS, LOG, FIRST], sources) == [
        f"{FILE}:3: let a = self.b()?;",
        f"{FILE}:4: log();",
    ]


def test_an_entry_has_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text('[[never]]\nfile = "rust/a.rs"\n')
    with pytest.raises(LabError, match="reason"):
        unreached.entries(path)


def test_the_list_can_be_read() -> None:
    for entry in unreached.entries():
        assert (unreached.paths.ROOT / entry.file).exists(), entry
