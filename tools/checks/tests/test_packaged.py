# SPDX-License-Identifier: GPL-2.0
"""Tests the check of the documents in packages: it reports those that a manual page misses."""

import unittest

from fixture import TreeTest

from checks import packaged

SOUND = {
    "Documentation/guide.rst": """\
=====
Guide
=====

NAME
====

thing - does something

FILES
=====

See :doc:`ports`, :doc:`the guide <guide>` and CHANGES.md; also :doc:`ports` and tools/README.md.
""",
    "debian/thing-dkms.manpages": "build/thing.4\n",
    "debian/thing-dkms.docs": "CHANGES.md\nDocumentation/ports.rst\n",
}
GUIDE = "Documentation/guide.rst"
DOCS = "debian/thing-dkms.docs"


class Packaged(TreeTest):
    check = packaged.check

    def test_sound(self):
        self.passes(SOUND)

    def test_document_is_missing(self):
        lacks = (f"{GUIDE}:13", f"{DOCS} lacks Documentation/ports.rst")
        self.fails({**SOUND, DOCS: "CHANGES.md\n"}, lacks)

    def test_markdown_is_missing(self):
        lacks = (f"{GUIDE}:13", f"{DOCS} lacks CHANGES.md")
        self.fails({**SOUND, DOCS: "Documentation/ports.rst\n"}, lacks)

    def test_document_with_a_title_is_missing(self):
        text = SOUND[GUIDE].replace("the guide <guide>", "sizes <sizes>")
        lacks = (f"{GUIDE}:13", f"{DOCS} lacks Documentation/sizes.rst")
        self.fails({**SOUND, GUIDE: text}, lacks)

    def test_package_without_documents(self):
        files = {path: text for path, text in SOUND.items() if path != DOCS}
        self.fails(files, (GUIDE, "CHANGES.md"), (GUIDE, "ports.rst"))

    def test_other_package_has_them(self):
        """The package of the page has to have the documents itself."""
        other = {"debian/thing-tools.docs": SOUND[DOCS], DOCS: "CHANGES.md\n"}
        self.fails({**SOUND, **other}, (GUIDE, f"{DOCS} lacks Documentation/ports.rst"))

    def test_page_without_a_source(self):
        pages = "debian/thing-dkms.manpages"
        text = "build/thing.4\nbuild/other.8\n"
        self.fails({**SOUND, pages: text}, (pages, "no document is the source of build/other.8"))


if __name__ == "__main__":
    unittest.main()
