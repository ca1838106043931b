# SPDX-License-Identifier: GPL-2.0
"""The manual page has the command's findings, subcommands and options, and only these."""

from __future__ import annotations

import argparse
import re

import findings_page

from nfsrdma import cli


def test_findings() -> None:
    """Run findings_page.py if this fails."""
    assert findings_page.parts(findings_page.PAGE.read_text())[1] == findings_page.table()


def commands() -> dict[str, argparse.ArgumentParser]:
    parser = cli.parser()
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return dict(commands.choices)


def test_subcommands() -> None:
    page = findings_page.PAGE.read_text()
    named = re.findall(r"^``nfsrdma (\w+)", page, re.M)
    assert list(dict.fromkeys(named)) == list(commands())


def test_options() -> None:
    page = findings_page.PAGE.read_text()
    options = {
        option
        for command in commands().values()
        for action in command._actions
        for option in action.option_strings
        if option.startswith("--") and option != "--help"
    }
    assert set(re.findall(r"``(--[\w-]+)", page)) == options
