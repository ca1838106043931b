# SPDX-License-Identifier: GPL-2.0
"""The completion of bash knows all subcommands and options."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from test_page import commands

FILE = Path(__file__).resolve().parents[1] / "completion/nfsrdma"


def _complete(*words: str) -> list[str]:
    """Returns what bash offers for the last of the words."""
    script = (
        f'. {FILE}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _nfsrdma;'
        ' printf "%s\\n" "${COMPREPLY[@]}"'
    )
    argv = ["bash", "-c", script, "bash", "nfsrdma", *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_subcommands() -> None:
    assert _complete("") == list(commands())
    assert _complete("t") == [name for name in commands() if name.startswith("t")]


@pytest.mark.parametrize("name", commands())
def test_options(name: str) -> None:
    options = {
        option
        for action in commands()[name]._actions
        for option in action.option_strings
        if option.startswith("--") and option != "--help"
    }
    assert set(_complete(name, "-")) == options


def test_file_of_an_option(tmp_path: Path) -> None:
    (tmp_path / "nfsrdma.prom").touch()
    assert _complete("export", "--textfile", f"{tmp_path}/n") == [f"{tmp_path}/nfsrdma.prom"]


def test_unknown_subcommand() -> None:
    assert _complete("nonsense", "-") == []
