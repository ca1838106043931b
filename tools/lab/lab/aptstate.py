# SPDX-License-Identifier: GPL-2.0
"""A private state of apt with its own sources, lists and cache, beside the machine's own state.

apt verifies everything as it does for the system: signatures of Release files with Debian's
keyring, then hashes down to the package file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from . import paths
from .command import capture, logged
from .debian import KEYRING, Mirror
from .errors import LabError


@dataclass(frozen=True)
class AptState:
    """A private apt state, which holds the index of one suite for one architecture."""

    home: Path
    #: Debian's name of the architecture; empty for that of this machine.
    architecture: str = ""

    def _options(self) -> list[str]:
        options = {
            "Dir::State::lists": self.home / "lists",
            "Dir::Cache": self.home / "cache",
            "Dir::Etc::sourcelist": self.home / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::Etc::preferences": "-",
            "Dir::Etc::preferencesparts": "-",
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
        }
        if self.architecture:
            options["APT::Architecture"] = self.architecture
            options["APT::Architectures"] = self.architecture
        return [word for key, value in options.items() for word in ("-o", f"{key}={value}")]

    def update(self, log: Path) -> None:
        """Fetches and verify the suite's index."""
        logged(["apt-get", *self._options(), "-q", "update", "--error-on=any"], log)

    def versions(self, pattern: str) -> list[tuple[str, str]]:
        """Returns all (package, version) pairs whose package matches `pattern`."""
        names = capture(["apt-cache", *self._options(), "pkgnames"]).split()
        found = []
        for name in filter(re.compile(pattern).fullmatch, names):
            for line in capture(["apt-cache", *self._options(), "madison", name]).splitlines():
                found.append((name, line.split("|")[1].strip()))
        return found

    def download(self, package: str, version: str, into: Path, log: Path) -> Path:
        """Downloads one package file into `into` and returns its path."""
        into.mkdir(parents=True, exist_ok=True)
        args = ["apt-get", *self._options(), "-q", "download", f"{package}={version}"]
        logged(args, log, cwd=into)
        files = sorted(into.glob(f"{package}_*.deb"))
        if not files:
            raise LabError(f"apt fetched {package} but left no file in {into}")
        return files[-1]


def open_suite(mirror: Mirror, suite: str, log: Path, architecture: str = "") -> AptState:
    """Creates or refreshes the private state for `suite` of the machine's mirror.

    `architecture`: Debian's name of the architecture, if it is not that of this machine.
    """
    if not KEYRING.exists():
        raise LabError(f"{KEYRING} is missing: apt-get install debian-archive-keyring")
    home = paths.sub("apt") / (f"{suite}-{architecture}" if architecture else suite)
    for part in ("lists/partial", "cache/archives/partial"):
        (home / part).mkdir(parents=True, exist_ok=True)
    (home / "sources.list").write_text(mirror.source_line(suite))
    state = AptState(home, architecture)
    state.update(log)
    return state
