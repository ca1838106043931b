# SPDX-License-Identifier: GPL-2.0
"""Checks that the admin guide has the log's lines about failed mounts and listeners.

The rows are those of `ADVICE` in a file of the server, and those of `reasons!` in a file of the
client, whose comments quote the message. tools/checks/errors_table.py writes them to the guide.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from .tree import Finding, Tree

NAME = "errors table"

PAGE = "Documentation/admin-guide.rst"
#: The files with the rows, and what stands before the error message of a row.
SOURCES = {
    "rust/client/advice.rs": "mount",
    "rust/server/log.rs": "portlist: write error",
}
_WIDTH = 96

_ROW = re.compile(
    r"""
    \(\s*\w+,\s*("[^"]*"),\s*("[^"]*"),\s*("[^"]*"),?\s*\)
    | ^[ ]{4}///[ ][^\n]*\(mount:[ ]("[^"]*")\)\.\n[ ]{4}\w+[ ]=[ ]\d+:\s+("[^"]*"),\s*("[^"]*");
    """,
    re.MULTILINE | re.VERBOSE,
)


def rows(text: str) -> Iterator[tuple[str, str, str]]:
    """Yields the message, the cause and the next step of each row of a file."""
    for match in _ROW.finditer(text):
        message, cause, step = (text.strip('"') for text in match.groups() if text)
        # A row without a message is for all other errors.
        if message:
            yield message, cause, step


def table(tree: Tree, path: str) -> str:
    """Returns the definition list of a file's rows."""
    entries = []
    for message, cause, step in rows(tree.text(path)):
        sentence = f"{cause[0].upper()}{cause[1:]}. Next step: {step}"
        sentence += "" if sentence.endswith("?") else "."
        lines = textwrap.wrap(sentence, _WIDTH, break_on_hyphens=False)
        body = "".join(f"    {line}\n" for line in lines)
        entries.append(f"``{SOURCES[path]}: {message}``\n{body}")
    return "".join(entries)


def parts(page: str, path: str) -> tuple[str, str, str]:
    """Returns the page up to a file's table, the table, and the rest of the page.

    # Errors
    `ValueError`: the page has no place for it.
    """
    begin, end = f".. table of {path}\n\n", "\n.. end of the table\n"
    start = page.index(begin) + len(begin)
    stop = page.index(end, start - 1)
    return page[:start], page[start:stop], page[stop:]


def written(tree: Tree) -> str:
    """Returns the page with all tables as they should be."""
    page = tree.text(PAGE)
    for path in SOURCES:
        before, _, after = parts(page, path)
        page = before + table(tree, path) + after
    return page


def check(tree: Tree) -> list[Finding]:
    """Reports a table that differs from its source."""
    if PAGE not in tree.files or not any(path in tree.files for path in SOURCES):
        return []
    findings = []
    for path in SOURCES:
        if not list(rows(tree.text(path))):
            findings.append(Finding(path, 0, "has no rows that this check can read"))
    try:
        current = written(tree)
    except ValueError:
        return [*findings, Finding(PAGE, 0, "lacks the marks around a table of errors")]
    if current != tree.text(PAGE):
        findings.append(
            Finding(PAGE, 0, "run tools/checks/errors_table.py: a table is out of date")
        )
    return findings
