#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Writes Documentation/ as HTML to Documentation/output."""

from __future__ import annotations

import sys
from pathlib import Path

from checks import rst

FOLDER = Path(__file__).resolve().parents[2] / rst.FOLDER


def main() -> int:
    """One page for each document; fails on the first that does not parse."""
    try:
        from docutils.core import publish_string  # noqa: PLC0415 - may be missing
    except ImportError:
        print("no docutils: install python3-docutils")
        return 1
    rst.register()
    output = FOLDER / "output"
    output.mkdir(exist_ok=True)
    settings = {"halt_level": 2, "input_encoding": "unicode", "math_output": "HTML"}
    for source in sorted(FOLDER.glob("*.rst")):
        html = publish_string(
            source.read_text(encoding="utf-8"),
            source_path=str(source),
            writer_name="html5",
            settings_overrides=settings,
        )
        page = output / f"{source.stem}.html"
        page.write_bytes(html)
        print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
