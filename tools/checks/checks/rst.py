# SPDX-License-Identifier: GPL-2.0
"""Checks the documentation: docutils parses it without warnings, and the index names all of it.

docutils gets stand-ins for the directives and roles of Sphinx that the documents use. So the check
needs no Sphinx, and takes a quarter of a second for each file.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from .tree import Finding, Tree

FOLDER = "Documentation"


def register() -> None:
    """Registers Sphinx's toctree, doc and manpage with docutils: they become links."""
    from docutils import nodes
    from docutils.parsers.rst import Directive, directives, roles

    def link(text: str, target: str) -> nodes.reference:
        return nodes.reference(text, text, refuri=f"{target}.html")

    class TocTree(Directive):
        has_content = True
        option_spec = {"maxdepth": int, "caption": directives.unchanged}  # noqa: RUF012

        def run(self) -> list[nodes.Node]:
            names = [line.strip() for line in self.content if line.strip()]
            items = [nodes.list_item("", nodes.paragraph("", "", link(n, n))) for n in names]
            return [nodes.bullet_list("", *items)]

    directives.register_directive("toctree", TocTree)

    def doc(
        _name: str, _raw: str, text: str, *_rest: object, **_options: object
    ) -> tuple[list[nodes.Node], list[nodes.Node]]:
        titled = re.match(r"^(.*?)\s*<([\w-]+)>$", text)
        return [link(titled[1], titled[2]) if titled else link(text, text)], []

    def manpage(
        _name: str, raw: str, text: str, *_rest: object, **_options: object
    ) -> tuple[list[nodes.Node], list[nodes.Node]]:
        return [nodes.emphasis(raw, text)], []

    roles.register_local_role("doc", doc)
    roles.register_local_role("manpage", manpage)


def parse(path: str, text: str) -> list[Finding]:
    """Returns the warnings of docutils for a document."""
    from docutils.core import publish_doctree
    from docutils.utils import Reporter

    register()
    document = publish_doctree(
        text,
        source_path=path,
        settings_overrides={"report_level": 5, "halt_level": 6, "input_encoding": "unicode"},
    )
    return [
        Finding(path, int(m.get("line", 0)), m.astext())
        for m in [*document.parse_messages, *document.transform_messages]
        if m["level"] >= Reporter.WARNING_LEVEL
    ]


def _entries(index: str) -> set[str]:
    """Returns the documents that the index names in its toctrees."""
    found: set[str] = set()
    for tree in re.finditer(r"^\.\. toctree::\n((?:[ \t]+[^\n]*\n|\n)+)", index, re.MULTILINE):
        found |= set(re.findall(r"^\s+([\w-]+)$", tree[1], re.MULTILINE))
    return found


def check_index(tree: Tree) -> list[Finding]:
    """Reports documents that the index lacks, and entries without a document."""
    index = f"{FOLDER}/index.rst"
    there = {PurePath(f).stem for f in tree.under(FOLDER, ".rst")} - {"index"}
    listed = _entries(tree.text(index)) if index in tree.files else set()
    missing = [Finding(index, 0, f"{name} is not in a toctree") for name in there - listed]
    return missing + [Finding(index, 0, f"no document {name}") for name in listed - there]


def check_links(tree: Tree) -> list[Finding]:
    """Reports references `:doc:` to documents that do not exist."""
    there = {PurePath(f).stem for f in tree.under(FOLDER, ".rst")}
    findings = []
    for path in tree.under(FOLDER, ".rst"):
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            for target in re.findall(r":doc:`(?:[^`<]*<)?([\w-]+)>?`", line):
                if target not in there:
                    findings.append(Finding(path, number, f"no document {target}"))
    return findings


def check(tree: Tree) -> list[Finding]:
    """Reports wrong markup, a wrong index, and dead references."""
    paths = tree.under(FOLDER, ".rst")
    parsed = [finding for path in paths for finding in parse(path, tree.text(path))]
    return parsed + check_index(tree) + check_links(tree)
