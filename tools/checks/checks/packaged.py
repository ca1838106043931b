# SPDX-License-Identifier: GPL-2.0
"""Checks that a Debian package with a manual page has the documents that the page names.

A page is made from the document whose section NAME has the page's name. The document names others
by the role `doc`, and Markdown files of the root by their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from .tree import Finding, Tree, line_of

NAME = "packaged documents"

_DOCUMENTS = "Documentation"
_TITLE = re.compile(r"^NAME\n=+\n+([\w.-]+) - ", re.MULTILINE)
# As in `:doc:`ports`` and `:doc:`titles <ports>``; and as in README.md.
_NAMED = re.compile(r":doc:`(?:[^`<]*<)?([\w-]+)>?`|(?<![\w./])([A-Z]+\.md)\b")


def _sources(tree: Tree) -> dict[str, str]:
    """Returns the documents that are made into manual pages, by the name of the page."""
    found = {}
    for path in tree.under(_DOCUMENTS, ".rst"):
        title = _TITLE.search(tree.text(path))
        if title:
            found[title[1]] = path
    return found


def _check_page(tree: Tree, source: str, listed: str) -> Iterator[Finding]:
    """Yields the documents that the source of a page names and the file `listed` lacks."""
    has = tree.text(listed).split() if listed in tree.files else []
    text, missing = tree.text(source), set()
    for match in _NAMED.finditer(text):
        path = match[2] or f"{_DOCUMENTS}/{match[1]}.rst"
        if path not in {*has, *missing, source}:
            missing.add(path)
            yield Finding(source, line_of(text, match.start()), f"{listed} lacks {path}")


def check(tree: Tree) -> list[Finding]:
    """Reports the documents that a package lacks, and pages that no document is the source of."""
    sources, findings = _sources(tree), []
    for pages in tree.under("debian", ".manpages"):
        for page in tree.text(pages).split():
            source = sources.get(PurePath(page).stem)
            if source:
                listed = f"{pages.removesuffix('.manpages')}.docs"
                findings += _check_page(tree, source, listed)
            else:
                findings.append(Finding(pages, 0, f"no document is the source of {page}"))
    return findings
