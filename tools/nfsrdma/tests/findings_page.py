#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Writes the table of findings in Documentation/nfsrdma.rst from `doctor.kinds`.

Usage: findings_page.py
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nfsrdma.doctor.kinds import KINDS, Kind

PAGE = Path(__file__).resolve().parents[3] / "Documentation/nfsrdma.rst"
_BEGIN, _END = ".. findings begin\n", ".. findings end\n"


def table() -> str:
    """Returns all findings as a definition list."""
    return "".join(map(_entry, KINDS.values()))


def _entry(kind: Kind) -> str:
    text = re.sub(r"{(\w+)}", lambda field: field[1].upper(), f"{kind.severity.value}: {kind.text}")
    # The two colons behind it become one.
    lines = textwrap.wrap(text, 96, break_on_hyphens=False)
    fix = re.sub(r"{(\w+)}", lambda field: field[1].upper(), kind.fix)
    body = [*lines[:-1], f"{lines[-1]}::", "", *(f"    {line}" for line in fix.splitlines())]
    return f"``{kind.name}``\n" + "".join(f"    {line}".rstrip() + "\n" for line in body) + "\n"


def parts(page: str) -> tuple[str, str, str]:
    """Returns the page before the table, the table, and the page after it."""
    before, _, rest = page.partition(_BEGIN)
    found, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n", found.removeprefix("\n"), f"{_END}{after}"


def main() -> None:
    """Writes the page."""
    before, _, after = parts(PAGE.read_text())
    PAGE.write_text(before + table() + after)


if __name__ == "__main__":
    main()
