# SPDX-License-Identifier: GPL-2.0
"""Finds an installed header tree, with its parts and the configuration of its kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .errors import HeadersError
from .run import output

#: The first kernel that has the interfaces of the module; see Documentation/kernel-range.rst.
OLDEST = (7, 2)
MODULES = Path("/lib/modules")

#: States of a package whose files are in place. The script that configures the headers calls DKMS,
#: so the package is not `installed` yet. That of the kernel's image also calls DKMS, and may do so
#: before the headers are configured.
_PRESENT = ("installed", "unpacked", "half-configured", "triggers-awaited", "triggers-pending")
_RELEASE = re.compile(r"(\d+)\.(\d+)[A-Za-z0-9.+~_-]*")
_ASSIGNMENT = re.compile(r'^(CONFIG_\w+)="?(.*?)"?$', re.M)


@dataclass(frozen=True)
class Tree:
    """The headers of one kernel release, in Debian's layout.

    `build` is the flavour's own directory, which is KDIR. `source` is the part that several
    flavours share. `scripts` has the tools that all flavours share.
    """

    release: str
    build: Path
    source: Path
    scripts: Path
    version: str

    @property
    def series(self) -> str:
        """The version in the name of the source package: `7.3` for `7.3.4+deb13-amd64`."""
        major, minor = parse_release(self.release)
        return f"{major}.{minor}"

    @property
    def config(self) -> dict[str, str]:
        """The kernel's configuration, by option."""
        return dict(_ASSIGNMENT.findall((self.build / ".config").read_text()))

    @property
    def compiler(self) -> str:
        """The C compiler that Debian's headers name for this kernel."""
        text = (self.build / ".kernelvariables").read_text()
        found = re.findall(r"^(?:override )?(CC|CROSS_COMPILE)\s*[:?]?=.*?([\w.+-]*)$", text, re.M)
        values = dict(found)
        return values.get("CROSS_COMPILE", "") + (values.get("CC") or "gcc")


def parse_release(release: str) -> tuple[int, int]:
    """Returns the major and minor number of a kernel release."""
    match = _RELEASE.fullmatch(release)
    if not match:
        raise HeadersError(f"'{release}' is not a kernel release: give one as `uname -r` prints it")
    return int(match[1]), int(match[2])


def find(release: str, modules: Path = MODULES) -> Tree:
    """Returns the header tree of a release.

    # Errors
    `HeadersError`: the kernel is too old, is not installed, or was built without Rust; or its
    headers are missing or incomplete.
    """
    numbers = parse_release(release)
    if numbers < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise HeadersError(
            f"kernel {release} is too old: rpcrdma needs {oldest} or newer;"
            " install a newer kernel, for instance from backports"
        )
    build = modules / release / "build"
    if not build.is_dir():
        raise _absent(release, modules)
    build = build.resolve()
    if not (build / ".kernelvariables").is_file():
        raise _foreign(f"{build} has no .kernelvariables, which Debian's header packages have")
    for name in (".config", "Makefile", "Module.symvers"):
        if not (build / name).is_file():
            raise HeadersError(
                f"{build} has no {name}: apt-get install --reinstall linux-headers-{release}"
            )
    tree = Tree(release, build, _source(build), (build / "scripts").resolve(), _version(release))
    if tree.config.get("CONFIG_RUST") != "y":
        raise HeadersError(
            f"kernel {release} was built without CONFIG_RUST: no Rust module fits it;"
            " boot another kernel"
        )
    return tree


def _absent(release: str, modules: Path) -> HeadersError:
    if (modules / release / "kernel").is_dir() or (modules / release / "build").is_symlink():
        return HeadersError(
            f"no headers for kernel {release}: apt-get install linux-headers-{release}"
        )
    known = ", ".join(sorted(p.parent.name for p in modules.glob("*/build"))) or "none"
    return HeadersError(
        f"no kernel {release} on this machine (headers installed: {known}):"
        " give one of those, or install its packages"
    )


def _source(build: Path) -> Path:
    """Returns the part that flavours share: the tree's Makefile includes that part's Makefile."""
    for line in (build / "Makefile").read_text().splitlines():
        word, _, path = line.partition(" ")
        if word == "include" and Path(path).name == "Makefile" and Path(path).is_file():
            return Path(path).parent.resolve()
    raise _foreign(f"{build}/Makefile is not that of a Debian header package")


def _foreign(reason: str) -> HeadersError:
    """Returns the error for a tree that is not of a header package."""
    return HeadersError(
        f"{reason}: a kernel you built yourself needs `make modules_prepare` in its tree instead"
    )


def _version(release: str) -> str:
    """Returns the version of the source package that the headers were built from."""
    package = f"linux-headers-{release}"
    fields = output(["dpkg-query", "-W", "-f", "${db:Status-Status} ${source:Version}", package])
    status, _, version = (fields or "").partition(" ")
    if status not in _PRESENT or not version:
        raise HeadersError(f"package {package} is not installed: apt-get install {package}")
    return version
