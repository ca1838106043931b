# SPDX-License-Identifier: GPL-2.0
"""Tests that the linters run, and that clippy's output is parsed."""

import os
import shutil
import unittest

from fixture import TreeTest

import clippy
import lint

OUTPUT = """\
  CLIPPY [M] rust/rpcrdma.o
warning: unused import: `a::B`
 --> rust/client.rs:7:5
  |
warning: missing documentation
  --> ./rust/raw/bindings_generated.rs:10:1
   |
error[E0308]: mismatched types
   --> rust/client/send.rs:116:5
    |
warning: unused import: `a::B`
 --> rust/client.rs:7:5
  |
warning: 3 warnings emitted
"""


class Clippy(unittest.TestCase):
    def test_warnings_in_our_files_each_once(self):
        self.assertEqual(
            clippy.warnings(OUTPUT),
            [
                "rust/client.rs:7:5: warning: unused import: `a::B`",
                "rust/client/send.rs:116:5: error[E0308]: mismatched types",
            ],
        )

    def test_quiet_build(self):
        self.assertEqual(clippy.warnings("  CLIPPY [M] rust/rpcrdma.o\n"), [])


class Linters(TreeTest):
    def linted(self, linter, files):
        return linter(self.tree(files))

    def needs(self, there):
        if not there:
            self.skipTest("not installed")

    def test_rustfmt(self):
        self.needs(os.environ.get("RUSTFMT") or shutil.which("rustfmt"))
        self.assertEqual(self.linted(lint.rustfmt, {"a.rs": "fn f() {}\n"}), "")
        self.assertIn("a.rs", self.linted(lint.rustfmt, {"a.rs": "fn  f( ) {}\n"}))

    def test_rustfmt_has_the_settings_of_the_tree(self):
        self.needs(os.environ.get("RUSTFMT") or shutil.which("rustfmt"))
        # The first file needs an edition after 2015, the second one newline_style = "Unix".
        self.assertEqual(self.linted(lint.rustfmt, {"a.rs": "async fn f() {}\n"}), "")
        self.assertIn("a.rs", self.linted(lint.rustfmt, {"a.rs": "fn f() {}\r\n"}))

    def test_shellcheck(self):
        self.needs(shutil.which("shellcheck"))
        self.assertEqual(self.linted(lint.shellcheck, {"x": "#!/bin/sh\necho\n"}), "")
        broken = "#!/bin/sh\nif true; then echo\n"
        self.assertIn("In x", self.linted(lint.shellcheck, {"x": broken}))

    def test_ruff(self):
        self.needs(lint._ruff())
        self.assertEqual(self.linted(lint.ruff, {"a.py": "x = 1\n"}), "")
        self.assertIn("F401", self.linted(lint.ruff, {"a.py": "import os\n"}))


if __name__ == "__main__":
    unittest.main()
