#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Makes the manual pages rpcrdma(4) and nfsrdma(8) from Documentation/.

Usage: man.py [--root DIR] FILE

The name of FILE says which page. The page's date and version are those of the newest entry of
debian/changelog and of VERSION.
"""

from __future__ import annotations

import argparse
import re
import sys
from email.utils import parsedate_to_datetime
from pathlib import Path

from checks import rst

#: The source and the group of each page, by the name of the file to be made.
PAGES = {
    "rpcrdma.4": (f"{rst.FOLDER}/admin-guide.rst", "Kernel Interfaces Manual"),
    "nfsrdma.8": (f"{rst.FOLDER}/nfsrdma.rst", "System Manager's Manual"),
}

# The guide's title is for HTML. A manual page begins with the section NAME.
_TITLE = re.compile(r"\A.*?^NAME\n=+\n+(\S+) - (.*?)\n\n(?=\S+\n=+\n)", re.DOTALL | re.MULTILINE)
_DATE = re.compile(r"^ -- .*  (.*)$", re.MULTILINE)

_HEAD = """\
{line}
{name}
{line}

{below}
{what}
{below}

:Manual section: {section}
:Manual group: {group}
:Date: {date}
:Version: rpcrdma {version}

"""


class GuideError(Exception):
    """The guide does not begin with a section NAME of the form `name - what it is`."""


def with_head(guide: str, version: str, date: str, name: str = "rpcrdma.4") -> str:
    """Replaces the title and the section NAME of the guide by the head of a manual page.

    # Errors
    `GuideError`: the guide has no section NAME of this form.
    """
    match = _TITLE.match(guide)
    if not match:
        raise GuideError("the guide must begin with a section NAME: `rpcrdma - what it is`")
    title, what = match[1], " ".join(match[2].split())
    section, group = name.rpartition(".")[2], PAGES[name][1]
    fields = {"section": section, "group": group, "date": date, "version": version}
    lines = {"line": "=" * len(title), "below": "-" * len(what)}
    head = _HEAD.format(name=title, what=what, **lines, **fields)
    return head + guide[match.end() :]


def page(guide: str, version: str, date: str, name: str = "rpcrdma.4") -> str:
    """Returns the manual page as roff.

    # Errors
    `GuideError`, or an exception of docutils if the guide does not parse.
    """
    from docutils import nodes  # noqa: PLC0415 - may be missing
    from docutils.core import publish_doctree, publish_from_doctree  # noqa: PLC0415

    rst.register()
    settings = {"halt_level": 2, "input_encoding": "unicode", "output_encoding": "unicode"}
    tree = publish_doctree(
        with_head(guide, version, date, name),
        source_path=PAGES[name][0],
        settings_overrides=settings,
    )
    for reference in list(tree.findall(nodes.reference)):
        document = reference["refuri"].replace(".html", ".rst")
        reference.replace_self(nodes.emphasis("", document))
    return publish_from_doctree(tree, writer_name="manpage", settings_overrides=settings)


def main() -> int:
    """Writes the page of one tree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("file", type=Path)
    chosen = parser.parse_args()

    def text(path: str) -> str:
        return (chosen.root / path).read_text(encoding="utf-8")

    if chosen.file.name not in PAGES:
        print(f"no such page: {chosen.file.name}; there are {', '.join(PAGES)}")
        return 1
    source = PAGES[chosen.file.name][0]
    stamp = _DATE.search(text("debian/changelog"))
    date = parsedate_to_datetime(stamp[1]).date().isoformat() if stamp else ""
    try:
        made = page(text(source), text("VERSION").strip(), date, chosen.file.name)
    except ImportError:
        print("no docutils: install python3-docutils")
        return 1
    except GuideError as wrong:
        print(f"{source}: {wrong}")
        return 1
    chosen.file.parent.mkdir(parents=True, exist_ok=True)
    chosen.file.write_text(made, encoding="utf-8")
    print(chosen.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
