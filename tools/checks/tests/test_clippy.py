# SPDX-License-Identifier: GPL-2.0
"""Tests that a warning of either build is found, whoever prints it."""

import contextlib
import io
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import clippy

DEAD = """\
  RUSTC [M] rust/rpcrdma.o
warning: methods `configuration` and `may_send` are never used
   --> rust/proto/legacy/conf.rs:104:18
    |
102 | impl Exchange {
"""
GENERATED = "warning: constant `x` is never used\n --> /kdir/rust/raw/bindings_generated.rs:1:1\n"
OURS_IN_C = "rust/glue/ib.c:7:12: warning: unused variable 'x' [-Wunused-variable]\n"
NOT_OURS = "/src/include/linux/mm.h:7:12: warning: unused variable 'x'\n"
MODPOST = "WARNING: modpost: missing MODULE_DESCRIPTION() in samples/a.o\n"


class Clippy(unittest.TestCase):
    """The warnings in the output of a build, and builds that end with some."""

    def found(self, output, *expected):
        self.assertEqual(clippy.warnings(output), list(expected))

    def test_dead_code(self):
        what = "warning: methods `configuration` and `may_send` are never used"
        self.found(DEAD + DEAD, f"rust/proto/legacy/conf.rs:104:18: {what}")

    def test_c_and_modpost(self):
        what = "warning: unused variable 'x' [-Wunused-variable]"
        self.found(
            OURS_IN_C + MODPOST, f"modpost: {MODPOST.strip()}", f"rust/glue/ib.c:7:12: {what}"
        )

    def test_warnings_that_are_not_ours(self):
        self.found(GENERATED + NOT_OURS + "warning: the compiler differs from the one used\n")

    def run_build(self, script):
        """Runs a build that is a shell script; returns its verdict and what was printed."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            passed = clippy.check("name", ["sh", "-c", script], {"PATH": "/usr/bin:/bin"})
        return passed, said.getvalue()

    def test_build_without_a_warning(self):
        self.assertEqual(self.run_build("echo '  LD [M] x.ko'"), (True, "ok   name\n"))

    def test_build_with_a_warning(self):
        passed, said = self.run_build(f"printf '%s' \"{OURS_IN_C}\" >&2")
        self.assertFalse(passed)
        self.assertIn("FAIL name\n    rust/glue/ib.c:7:12: warning", said)

    def test_build_that_fails(self):
        self.assertEqual(self.run_build("echo no rule; exit 2"), (False, "FAIL name\nno rule\n"))

    def test_each_form_of_the_module_is_read_and_the_users_is_linked(self):
        forms = {
            tuple(word for word in words if word.startswith("RPCRDMA_")): words
            for words in clippy.BUILDS.values()
        }
        tests, modern = "RPCRDMA_KUNIT=y", "RPCRDMA_LEGACY=n"
        self.assertEqual(set(forms), {(), (tests,), (modern,), (modern, tests)})
        self.assertEqual(forms[()][0], "SAMPLES=y")
        self.assertEqual(forms[()][-1], "modules")
        for words in forms.values():
            self.assertTrue(any(clippy.LINTS in word for word in words))


if __name__ == "__main__":
    unittest.main()
