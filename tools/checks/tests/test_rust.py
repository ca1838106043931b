# SPDX-License-Identifier: GPL-2.0
"""Tests the parser of Rust's syntax that the checks use."""

import unittest

from fixture import TreeTest  # noqa: F401 - sets the path

from checks import rust


class Code(unittest.TestCase):
    def code(self, text, expected):
        self.assertEqual(rust.code(text), expected)
        self.assertEqual(len(rust.code(text)), len(text))

    def test_line_comment(self):
        self.code("a // b\nc", "a     \nc")

    def test_nested_block_comment(self):
        self.code("a /* /* */ b */ c", "a" + " " * 14 + " c")

    def test_strings(self):
        self.code('f("}\\"{", c"{", b"x")', "f(" + " " * 6 + ", " + " " * 4 + ", " + " " * 4 + ")")

    def test_raw_string(self):
        self.code('r#"a"b"# x', " " * 8 + " x")

    def test_char_is_no_lifetime(self):
        self.code("'{' 'a x: &'b T '\\'' ", "    'a x: &'b T      ")

    def test_comment_mark_in_string(self):
        self.code('"//" x', "     x")


class Paths(unittest.TestCase):
    def paths(self, text):
        return {"::".join(p.segments) for p in rust.paths(text)}

    def test_use_groups(self):
        text = "use crate::{a::{b, c as d}, e::*};\n"
        self.assertEqual(self.paths(text), {"crate::a::b", "crate::a::c", "crate::e"})

    def test_expressions(self):
        text = "fn f() { let x = crate::a::f::<super::T>(Self::B, kernel::c!()); }"
        self.assertEqual(self.paths(text), {"crate::a::f", "super::T", "Self::B", "kernel::c"})

    def test_not_in_comments(self):
        self.assertEqual(self.paths("// crate::a::b\n"), set())


class Items(unittest.TestCase):
    def test_functions(self):
        text = "fn a() -> [u8; 2] { { } }\ntrait T { fn b(); }\nfn c<F>() where F: X {\n}\n"
        names = [s.name for s in rust.functions(text)]
        self.assertIn("a", names)
        self.assertIn("c", names)
        self.assertNotIn("b", names)

    def test_test_modules(self):
        text = "#[cfg(KUNIT)]\n#[kunit_tests(x)]\nmod tests { fn a() {} }\nmod other { }\n"
        self.assertEqual([s.name for s in rust.test_modules(text)], ["tests"])


if __name__ == "__main__":
    unittest.main()
