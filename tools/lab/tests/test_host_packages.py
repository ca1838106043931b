# SPDX-License-Identifier: GPL-2.0
"""Every command that the tools run on the host comes from a package that the lab installs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import deps, paths

#: Contents of a root of Debian's essential packages, apt and Python.
ESSENTIAL = {"apt-cache", "apt-config", "apt-get", "bash", "chroot", "cp", "dpkg-deb"}
ESSENTIAL |= {"/bin/bash", "/bin/sh", "/usr/bin/python3", "dpkg-query", "env", "sed", "setpriv"}
ESSENTIAL |= {"sh", "sha256sum", "tar", "tee", "unshare"}
#: Programs that some tests run where they are installed; those tests are skipped elsewhere.
OPTIONAL = {"promtool"}
#: Command, and the package of host-packages.txt that has it or depends on the package that has it.
PACKAGES = {
    "c++filt": "gcc",
    "gcc": "gcc",
    "git": "git",
    "groff": "groff-base",
    "ld": "gcc",
    "make": "make",
    "mkfs.btrfs": "btrfs-progs",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "mksquashfs": "squashfs-tools",
    "mmdebstrap": "mmdebstrap",
    "modprobe": "kmod",
    "mount": "mount",
    "nm": "gcc",
    "objcopy": "gcc",
    "objdump": "gcc",
    "qemu-system-x86_64": "qemu-system-x86",
    "readelf": "gcc",
    "rsync": "rsync",
    "tshark": "tshark",
    "update-binfmts": "binfmt-support",
    "umount": "mount",
    "valgrind": "valgrind",
}
#: Functions that run a command, and the names that a command's words have before they are run.
RUN = {"capture", "logged", "run", "Popen", "_run", "output", "check_output"}
WORDS = {"args", "command", "make", "query", "inside"}
TOOLS = paths.ROOT / "tools"


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _lists(tree: ast.AST) -> Iterator[ast.expr]:
    """Yields the expressions that may be a command's words."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in RUN and node.args:
            yield node.args[0]
        elif isinstance(node, ast.Assign) and _name(node.targets[0]) in WORDS:
            yield node.value


def commands(path: Path) -> set[str]:
    """Returns the names of the commands that a Python source runs."""
    found = set()
    for words in _lists(ast.parse(path.read_text())):
        if isinstance(words, ast.List) and words.elts and isinstance(words.elts[0], ast.Constant):
            found.add(str(words.elts[0].value))
    return found


def _host_sources() -> list[Path]:
    guest = {"guest", "scenarios", "samples"}
    found = [path for path in TOOLS.rglob("*.py") if not guest & set(path.parts)]
    return sorted(path for path in found if "target" not in path.parts)


def test_every_command_has_a_package() -> None:
    run = {path.relative_to(TOOLS): commands(path) for path in _host_sources()}
    unknown = {path: names - ESSENTIAL - OPTIONAL - PACKAGES.keys() for path, names in run.items()}
    assert {path: names for path, names in unknown.items() if names} == {}
    assert {"mount", "git", "make"} <= set().union(*run.values())


@pytest.mark.parametrize("codename", ["bookworm", "trixie"])
def test_every_package_is_listed(codename: str) -> None:
    listed = deps.wanted(deps.HOST_PACKAGES.read_text(), codename, ["arm64"])
    assert set(PACKAGES.values()) - set(listed) == set()
