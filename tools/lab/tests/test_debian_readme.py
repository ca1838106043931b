# SPDX-License-Identifier: GPL-2.0
"""The commands of the README, as the scenario on Debian's kernel runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import debian_readme, paths
from lab.errors import LabError

README = """\
With Debian's kernel, as root:

    apt-get install headers
    make deb
    # on a client:
    mount server:/export /mnt
    # on a server:
    systemctl restart nfs-server

    apt-get install more
"""


def _read(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    (folder / "README.md").write_text(text)
    monkeypatch.setattr(paths, "ROOT", folder)


def test_roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each role has its own lines, and the block ends at an empty line."""
    _read(monkeypatch, tmp_path, README)
    assert debian_readme.building() == ["apt-get install headers", "make deb"]
    assert debian_readme.using("client") == ["mount server:/export /mnt"]
    assert debian_readme.using("server") == ["systemctl restart nfs-server"]


@pytest.mark.parametrize(
    "gone",
    [
        "With Debian's kernel, as root:",
        "    apt-get install headers\n    make deb\n",
        "    mount server:/export /mnt\n",
        "    # on a server:\n    systemctl restart nfs-server\n",
    ],
)
def test_missing_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    """A README without the commands for both roles, or of one role, is refused."""
    assert gone in README
    _read(monkeypatch, tmp_path, README.replace(gone, ""))
    with pytest.raises(LabError, match="no commands"):
        debian_readme.building()


def test_suite_without_backports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the commands for a kernel of backports name their suite."""
    monkeypatch.delenv("SUITE", raising=False)
    backports = debian_readme.building()
    monkeypatch.setenv("SUITE", "sid")
    assert any("-backports" in command for command in backports)
    assert not any("-backports" in command for command in debian_readme.building())
    assert debian_readme.building()[1:] == backports[1:]


def test_readme_of_this_tree() -> None:
    """The README of this tree installs by apt, mounts on a client, and starts nfsd on a server."""
    assert all(line.startswith("apt-get ") for line in debian_readme.building())
    assert any(line.startswith("mount ") for line in debian_readme.using("client"))
    assert any("nfs-server" in line for line in debian_readme.using("server"))
