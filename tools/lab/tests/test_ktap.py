# SPDX-License-Identifier: GPL-2.0
"""The KUnit cases that sources declare."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import ktap, paths
from lab.errors import LabError

SOURCE = """
#[cfg(RPCRDMA_KUNIT)]
#[kernel::prelude::kunit_tests(one)]
mod tests {
    use super::*;

    /// Does something.
    #[test]
    fn first() {
        if true {
        }
    }

    fn helper() {}

    #[test]
    #[expect(unused)]
    fn second() -> Result {
    }
}

mod outside {
    #[test]
    fn no_case_of_a_suite() {}
}

#[kunit_tests(two)]
#[rustfmt::skip]
pub(crate) mod more {
    #[test]
    fn third() {}
}
"""


def declared(path: Path, **sources: str) -> ktap.Suites:
    for name, text in sources.items():
        (path / f"{name}.rs").write_text(text)
    return ktap.declared(path)


def test_cases_of_each_suite(tmp_path: Path) -> None:
    assert declared(tmp_path, a=SOURCE) == {"one": {"first", "second"}, "two": {"third"}}


def test_suite_without_a_case(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="suite one has no case"):
        declared(tmp_path, a="#[kunit_tests(one)]\nmod tests {\n    fn first() {}\n}\n")


def test_two_suites_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="exists twice"):
        declared(tmp_path, a=SOURCE, b=SOURCE)


def test_suite_of_another_form(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="cannot read"):
        declared(tmp_path, a="#[kunit_tests(one)]\nmod tests;\n")


TABLE = """
    const CASES: [Case; 2] = [
        ("first", Test::first),
        ("second", Test::other),
    ];
"""


@pytest.mark.parametrize("old", ["CASES", '("first", Test::first),\n'])
def test_table_of_another_form(tmp_path: Path, old: str) -> None:
    source = tmp_path / "a.rs"
    source.write_text(TABLE)
    assert ktap.in_table(source) == {ktap.TOP: {"first", "second"}}
    source.write_text(TABLE.replace(old, ""))
    with pytest.raises(LabError, match="cannot read"):
        ktap.in_table(source)


def test_every_case_of_the_module_is_in_a_suite() -> None:
    sources = paths.ROOT / "rust"
    texts = [path.read_text() for path in sources.rglob("*.rs")]
    cases = sum(text.count("#[test]\n") for text in texts)
    assert sum(map(len, ktap.declared(sources).values())) == cases > 0
