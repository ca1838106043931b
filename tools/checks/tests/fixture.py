# SPDX-License-Identifier: GPL-2.0
"""Writes small trees for the tests: a check must find the faults in them, and no others."""

import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from checks.tree import Tree


class TreeTest(unittest.TestCase):
    """Runs `self.check` on trees given as path and text."""

    check = None

    def tree(self, files):
        root = Path(tempfile.mkdtemp(prefix="checks-"))
        self.addCleanup(shutil.rmtree, root)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return Tree(root)

    def findings(self, files):
        return sorted(type(self).check(self.tree(files)))

    def passes(self, files):
        self.assertEqual(self.findings(files), [])

    def fails(self, files, *expected):
        """Requires these findings: each is at `path:line` and contains the words after it."""
        found = [str(f) for f in self.findings(files)]
        self.assertEqual(len(found), len(expected), found)
        for text, (place, words) in zip(found, expected, strict=True):
            self.assertTrue(text.startswith(place + ":"), text)
            self.assertIn(words, text)
