# SPDX-License-Identifier: GPL-2.0
"""Tests the build of the HTML pages and of the manual page, also with a broken document."""

import contextlib
import importlib.util
import io
import shutil
import subprocess
import unittest
from pathlib import Path

from fixture import TreeTest

import doc
import man

TREE = Path(__file__).resolve().parents[3]
GUIDE = """\
=====
Guide
=====

NAME
====

thing - what the
thing is

USE
===

See :doc:`install` and :manpage:`nfs(5)`.

``--fast``
    It is fast.
"""


def there(module):
    return importlib.util.find_spec(module) is not None


@unittest.skipUnless(there("sphinx"), "needs python3-sphinx")
class Html(TreeTest):
    def build(self, one):
        conf = (TREE / "Documentation/conf.py").read_text()
        index = "=====\nIndex\n=====\n\n.. toctree::\n\n   one\n".replace("\\n", "\n")
        files = {"VERSION": "1.2.3\n", "Documentation/conf.py": conf}
        tree = self.tree({**files, "Documentation/index.rst": index, "Documentation/one.rst": one})
        with contextlib.redirect_stdout(io.StringIO()):
            status = doc.build(tree.root, stderr=subprocess.DEVNULL)
        return status, tree.root / "Documentation/output/one.html"

    def test_sound(self):
        status, page = self.build("===\nOne\n===\n\nSee :doc:`index`.\n")
        self.assertEqual(status, 0)
        text = page.read_text()
        self.assertIn("alabaster.css", text)
        self.assertIn("rpcrdma 1.2.3", text)

    def test_dead_link(self):
        status, _ = self.build("===\nOne\n===\n\nSee :doc:`gone`.\n")
        self.assertNotEqual(status, 0)


@unittest.skipUnless(there("docutils"), "needs python3-docutils")
class Manual(unittest.TestCase):
    def page(self, guide=GUIDE):
        return man.page(guide, "1.2.3", "2026-11-21")

    def test_head(self):
        page = self.page()
        self.assertRegex(page, r'\.TH "?THING"? "?4"? "2026-11-21" "rpcrdma 1\.2\.3"')
        self.assertIn("thing \\- what the thing is", page)
        self.assertEqual(page.count(".SH NAME"), 1)

    def test_references(self):
        page = self.page()
        self.assertIn("\\fIinstall.rst\\fP", page)
        self.assertIn("\\fInfs(5)\\fP", page)

    def test_guide_without_name(self):
        with self.assertRaises(man.GuideError):
            self.page(GUIDE.replace("NAME\n====", "TITLE\n====="))
        with self.assertRaises(man.GuideError):
            self.page(GUIDE.replace("thing - what", "thing, what"))

    def test_guide_with_bad_markup(self):
        from docutils.utils import SystemMessage

        with self.assertRaises(SystemMessage), contextlib.redirect_stderr(io.StringIO()):
            self.page(GUIDE + "\n.. nonsense:: x\n")

    def rendered(self, name):
        """Returns the lines of a page of the tree."""
        if not shutil.which("groff"):
            self.skipTest("needs groff")
        page = man.page((TREE / man.PAGES[name][0]).read_text(), "1.2.3", "2026-11-21", name)
        # Without bold and underlined letters, which versions of groff print in different ways.
        command = ["groff", "-man", "-t", "-Tutf8", "-P-cbou", "-ww", "-rLL=100n"]
        done = subprocess.run(command, input=page, capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.splitlines()

    def test_the_guide_itself_renders(self):
        lines = self.rendered("rpcrdma.4")
        sections = {"NAME", "MOUNT OPTIONS", "TUNABLES", "MOUNTSTATS", "SEE ALSO"}
        self.assertEqual(sections - set(lines), set())

    def test_the_page_of_the_command_renders(self):
        lines = self.rendered("nfsrdma.8")
        self.assertIn("System Manager's Manual", lines[0])
        sections = {"NAME", "SYNOPSIS", "COMMANDS", "FINDINGS", "EXIT STATUS"}
        self.assertEqual(sections - set(lines), set())


if __name__ == "__main__":
    unittest.main()
