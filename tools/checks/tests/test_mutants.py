# SPDX-License-Identifier: GPL-2.0
"""Tests how the mutants that no test has caught are compared with the list of equivalents."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools/mutants"))

import compare

ROOT = Path(__file__).resolve().parents[3]
SOURCE = """\
pub fn room(len: u32, max: u32) -> bool {
    len < max && max > 8
}
"""
NO_LIST: set[compare.Key] = set()


def entry(words, genre, span, replacement):
    """An entry of `cargo mutants --list --json`. `span`: line, first column, last column."""
    line, first, last = span
    return {
        "file": "src/tree/wire/lists.rs",
        "function": {"function_name": "room"},
        "genre": genre,
        "name": f"src/tree/wire/lists.rs:{line}:{first}: {words}",
        "replacement": replacement,
        "span": {
            "start": {"line": line, "column": first},
            "end": {"line": line, "column": last},
        },
    }


LESS = entry("replace < with <= in room", "BinaryOperator", (2, 9, 10), "<=")
MORE = entry("replace > with >= in room", "BinaryOperator", (2, 22, 23), ">=")
TRUE = entry("replace room -> bool with true", "FnValue", (2, 5, 25), "true")
EVERY = compare.mutants([LESS, MORE, TRUE], {"src/tree/wire/lists.rs": SOURCE})
NAMES = [mutant.name for mutant in EVERY]
KEYS = [mutant.key for mutant in EVERY]


class KeyTest(unittest.TestCase):
    """A key names one mutant, wherever it stands in its file."""

    def test_changed_line(self):
        self.assertEqual(KEYS[0].path, "wire/lists.rs")
        self.assertEqual(KEYS[0].function, "room")
        self.assertEqual(KEYS[0].mutant, "len <= max && max > 8")
        self.assertEqual(KEYS[1].mutant, "len < max && max >= 8")

    def test_description(self):
        self.assertEqual(KEYS[2].mutant, "replace room -> bool with true")
        arm = entry("delete match arm 0 in room", "MatchArm", (2, 5, 25), "")
        (mutant,) = compare.mutants([arm], {"src/tree/wire/lists.rs": SOURCE})
        self.assertEqual(mutant.key.mutant, "delete match arm 0")

    def test_lines_above(self):
        moved = {**LESS, "span": {n: {**p, "line": 4} for n, p in LESS["span"].items()}}
        (mutant,) = compare.mutants([moved], {"src/tree/wire/lists.rs": "//\n//\n" + SOURCE})
        self.assertEqual(mutant.key, KEYS[0])


class ListTest(unittest.TestCase):
    """The list of equivalents has four columns on a line."""

    def test_sound(self):
        text = f"# a comment\n\n{KEYS[0]}\tthe caller has checked it\n"
        self.assertEqual(compare.equivalents(text), {KEYS[0]: "the caller has checked it"})

    def test_no_reason(self):
        for line in (str(KEYS[0]), f"{KEYS[0]}\t ", f"{KEYS[0]}\ta\tb"):
            with self.assertRaisesRegex(compare.ListError, "line 2: not four columns"):
                compare.equivalents(f"#\n{line}\n")

    def test_twice(self):
        with self.assertRaisesRegex(compare.ListError, "line 2: .* is listed twice"):
            compare.equivalents(f"{KEYS[0]}\ta\n{KEYS[0]}\tb\n")

    def test_of_the_tree(self):
        text = (ROOT / "tools/mutants/equivalents.tsv").read_text()
        for key in compare.equivalents(text):
            source = (ROOT / "rust" / key.path).read_text()
            self.assertIn(f"fn {key.function.rpartition('::')[2]}", source, key)


class CompareTest(unittest.TestCase):
    """Each survivor must be listed, and each listed mutant must exist and survive."""

    def compare(self, caught, missed, allowed):
        return compare.compare(EVERY, set(caught), set(missed), set(allowed))

    def says(self, verdict, *words):
        self.assertFalse(verdict.passed)
        lines = list(compare.report(verdict, "rust"))
        self.assertEqual(len(lines), len(words), lines)
        for line, part in zip(lines, words, strict=True):
            self.assertIn(part, line)

    def test_sound(self):
        self.assertTrue(self.compare(NAMES, [], NO_LIST).passed)
        self.assertTrue(self.compare(NAMES[1:], NAMES[:1], KEYS[:1]).passed)

    def test_survivor(self):
        verdict = self.compare(NAMES[1:], NAMES[:1], NO_LIST)
        self.says(verdict, "rust/wire/lists.rs:2: no test fails: room: len <= max && max > 8")

    def test_listed_and_caught(self):
        self.says(self.compare(NAMES, [], KEYS[2:]), "with true: is caught; remove it")

    def test_listed_and_gone(self):
        gone = compare.Key("wire/lists.rs", "room", "len == max && max > 8")
        self.says(self.compare(NAMES, [], [gone]), "len == max && max > 8: does not exist")

    def test_not_run(self):
        self.assertTrue(self.compare(NAMES[:1], [], KEYS[2:]).passed)

    def test_two_of_one_key(self):
        twice = [*EVERY, compare.Mutant(KEYS[0], "src/tree/wire/lists.rs:9:1: other")]
        verdict = compare.compare(twice, {NAMES[0]}, {twice[3].name}, {KEYS[0]})
        self.assertTrue(verdict.passed)


if __name__ == "__main__":
    unittest.main()
