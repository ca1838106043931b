# SPDX-License-Identifier: GPL-2.0
"""Tests the check of the sysctls, also with numbers and names that differ."""

import unittest

from fixture import TreeTest

from checks import sysctls

SOURCE = next(iter(sysctls.SOURCES))
SCENARIO, PAGE = sysctls.SOURCES[SOURCE]

FILES = {
    SOURCE: """\
static SLOTS: IntSysctl = IntSysctl::new(c"slots", 8, 4, 300);
pub(crate) static ANY: IntSysctl = IntSysctl::new(c"any", 0, i32::MIN, i32::MAX);
static WORD: EnumSysctl = EnumSysctl::new(c"word", &["one", "two"], 1);
static SEEN: Counter = Counter::new(c"stat_seen");
static OLD: IntSysctl = zero(c"stat_old");
static ASKS: IntSysctl =
    IntSysctl::new(c"asks", 0, 0, 1);
""",
    SCENARIO: """\
RANGES = {
    "slots": (8, 4, 300),
    "any": (0, -2147483648, 2147483647),
    "stat_old": (0, 0, 0),
}
ADDED = {"asks": (0, 0, 1)}
COUNTERS = ("stat_seen",)

def test_word():
    read("svc/word")
""",
    PAGE: """\
``slots``: 4 to 300, default 8
    Text with ``other``.
``asks``: 0 or 1; ``any``: any number; default 0
    See elsewhere.
``word``: ``one`` or ``two``, default ``two``
    A word.
``stat_seen``
    A counter.
``stat_*``
    Always 0.

``slots`` are not changed here.
""",
}


class Sysctls(TreeTest):
    check = staticmethod(sysctls.check)

    def finds(self, path, old, new, line, words):
        """Requires one finding in the source, after a change of one file."""
        self.assertIn(old, FILES[path])
        changed = FILES | {path: FILES[path].replace(old, new)}
        self.fails(changed, (f"{SOURCE}:{line}", words))

    def test_same(self):
        self.passes(FILES)

    def test_setting_without_scenario(self):
        self.finds(SCENARIO, '"asks": (0, 0, 1)', "", 6, "asks is not tried in")

    def test_setting_without_range(self):
        old = '"asks": (0, 0, 1)}'
        self.finds(SCENARIO, old, '}\nNAME = "asks"', 6, "asks has no range (0, 0, 1) in")

    def test_other_range(self):
        self.finds(SCENARIO, "(8, 4, 300)", "(8, 4, 30)", 1, "slots is (8, 4, 300), but (8, 4, 30)")
        self.finds(SCENARIO, "(8, 4, 300)", "(9, 4, 300)", 1, "slots is (8, 4, 300), but (9, ")

    def test_word_or_counter_without_scenario(self):
        self.finds(SCENARIO, "svc/word", "svc/none", 3, "word is not tried in")
        self.finds(SCENARIO, "stat_seen", "stat_other", 4, "stat_seen is not tried in")

    def test_no_entry(self):
        self.finds(PAGE, "``asks``: 0 or 1; ", "", 6, f"asks has no entry in {PAGE}")
        text = FILES[PAGE].replace("``stat_*``", "``gone_*``")
        self.fails(FILES | {PAGE: text}, (f"{SOURCE}:5", "stat_old has no entry"))

    def test_entry_with_other_numbers(self):
        self.finds(PAGE, "4 to 300", "4 to 30", 1, 'slots lacks "4 to 300" in')
        self.finds(PAGE, "300, default 8", "300, default 9", 1, 'slots lacks "default 8" in')
        self.finds(PAGE, "``one`` or ", "", 3, 'word lacks "``one``" in')

    def test_source_that_cannot_be_read(self):
        source = FILES[SOURCE] + "static MORE: IntSysctl = other::<4>();\n"
        self.fails(FILES | {SOURCE: source}, (f"{SOURCE}:0", "cannot read"))
        self.fails({**FILES, SOURCE: ""}, (f"{SOURCE}:0", "cannot read"))

    def test_other_trees(self):
        self.passes({"README.md": "x\n"})


if __name__ == "__main__":
    unittest.main()
