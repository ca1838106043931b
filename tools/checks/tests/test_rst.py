# SPDX-License-Identifier: GPL-2.0
"""Tests the check of the documentation: it reports wrong markup and references."""

import unittest

from fixture import TreeTest

from checks import rst

try:
    import docutils
except ImportError:
    docutils = None

INDEX = "=====\nIndex\n=====\n\n.. toctree::\n   :maxdepth: 1\n\n   one\n"
ONE = "===\nOne\n===\n\nSee :doc:`index` and ``x``.\n"


@unittest.skipUnless(docutils, "needs python3-docutils")
class Rst(TreeTest):
    check = rst.check

    def test_sound(self):
        self.passes({"Documentation/index.rst": INDEX, "Documentation/one.rst": ONE})

    def test_markup(self):
        files = {
            "Documentation/index.rst": INDEX,
            "Documentation/one.rst": ONE + "\nSecond\n----\n",
        }
        self.assertNotEqual(self.findings(files), [])

    def test_unknown_directive(self):
        text = ONE + "\n.. nonsense:: x\n"
        files = {"Documentation/index.rst": INDEX, "Documentation/one.rst": text}
        self.assertNotEqual(self.findings(files), [])

    def test_not_in_index(self):
        files = {
            "Documentation/index.rst": INDEX,
            "Documentation/one.rst": ONE,
            "Documentation/two.rst": ONE,
        }
        self.fails(files, ("Documentation/index.rst:0", "two is not in a toctree"))

    def test_entry_without_document(self):
        self.fails(
            {"Documentation/index.rst": INDEX}, ("Documentation/index.rst:0", "no document one")
        )

    def test_dead_link(self):
        text = ONE.replace("`index`", "`gone`")
        files = {"Documentation/index.rst": INDEX, "Documentation/one.rst": text}
        self.fails(files, ("Documentation/one.rst:5", "no document gone"))


if __name__ == "__main__":
    unittest.main()
