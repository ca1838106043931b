# SPDX-License-Identifier: GPL-2.0
"""Tests the check of the worked examples: it finds other bytes and missing examples."""

import unittest

from fixture import TreeTest

from checks import golden, wire_examples

PAGE = """\
Text.

A message (``v2 MSG``), in detail::

    00 00 00 09  XID
    ff           the rest

More text (``v2 MSG`` again).

    no example
"""
SOUND = {
    "Documentation/wire.rst": PAGE,
    "rust/wire/vectors/v2.rs": """\
/// A message.
pub const MSG: [u8; 5] = [
    0, 0, 0, 9, // XID, 1, 2
    0xff,
];
const COUNT: usize = 5;
""",
    "rust/wire/vectors/v1.rs": "const OTHER: [u8; 1] = [1];\n",
}


class WireExamples(TreeTest):
    check = wire_examples.check

    def page(self, old, new):
        self.assertIn(old, PAGE)
        return {**SOUND, "Documentation/wire.rst": PAGE.replace(old, new)}

    def test_sound(self):
        self.passes(SOUND)

    def test_at_the_end_of_the_page(self):
        self.passes({**SOUND, "Documentation/wire.rst": PAGE.partition("\n\nMore")[0]})

    def test_other_byte(self):
        files = self.page("00 00 00 09", "00 00 00 0a")
        self.fails(files, ("Documentation/wire.rst:3", "byte 3 is 0a, in the golden bytes 09"))

    def test_other_length(self):
        files = self.page("    ff           the rest\n", "")
        self.fails(files, ("Documentation/wire.rst:3", "4 bytes, the golden bytes are 5"))
        files = self.page("    ff ", "    ff 00 ")
        self.fails(files, ("Documentation/wire.rst:3", "6 bytes, the golden bytes are 5"))

    def test_no_bytes(self):
        files = self.page("    ff           the", "    fg           the")
        length = ("Documentation/wire.rst:3", "4 bytes")
        self.fails(files, length, ("Documentation/wire.rst:6", "no bytes in hex"))

    def test_unknown_array(self):
        files = self.page("(``v2 MSG``), in", "(``v2 GONE``), in")
        wanted = ("Documentation/wire.rst:0", "no example of v2 MSG")
        self.fails(files, wanted, ("Documentation/wire.rst:3", "no golden bytes v2 GONE"))

    def test_missing_example(self):
        files = self.page("A message (``v2 MSG``), in detail::", "A message::")
        self.fails(files, ("Documentation/wire.rst:0", "no example of v2 MSG"))

    def test_declared_length(self):
        with self.assertRaisesRegex(ValueError, "A: 3 bytes declared, 2 found"):
            golden.arrays("const A: [u8; 3] = [1, 0x02];")


if __name__ == "__main__":
    unittest.main()
