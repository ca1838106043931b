# SPDX-License-Identifier: GPL-2.0
"""The codename, mirror and keyring of the machine's own Debian configuration.

The lab contains no host name. It uses the mirror that the machine trusts and asks apt for it, so
that one-line files, deb822 files and generated files all work.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .command import capture
from .errors import LabError

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

_FIELDS = ("ORIGIN", "LABEL", "RELEASE", "COMPONENT", "REPO_URI", "CREATED_BY")
_FORMAT = "|".join(f"$({field})" for field in _FIELDS)


@dataclass(frozen=True)
class Mirror:
    """The archive this machine installs from, and the release it runs."""

    codename: str
    uri: str

    def source_line(self, suite: str) -> str:
        """Returns a one-line apt source for `suite`, which apt checks with Debian's keys."""
        return f"deb [signed-by={KEYRING}] {self.uri} {suite} main\n"


def codename() -> str:
    """Returns the codename of the running Debian.

    # Errors
    `LabError` on another distribution: the lab installs packages of Debian.
    """
    fields: dict[str, str] = {}
    for line in Path("/etc/os-release").read_text().splitlines():
        key, _, value = line.partition("=")
        fields[key] = value.strip('"')
    if fields.get("ID") != "debian" or "VERSION_CODENAME" not in fields:
        raise LabError("the lab builds its guests from Debian packages and runs on Debian 12 or 13")
    return fields["VERSION_CODENAME"]


def parse_targets(text: str, release: str) -> str | None:
    """Picks the mirror of `release` from `apt-get indextargets` lines.

    apt knows origin and label only once it has fetched the Release file. Before that it prints a
    placeholder, which counts as a match.
    """
    for line in text.splitlines():
        row = dict(zip(_FIELDS, line.split("|"), strict=False))
        if row.get("CREATED_BY") != "Packages" or row.get("COMPONENT") != "main":
            continue
        if row["RELEASE"] == release and row["LABEL"] in ("Debian", "$(LABEL)", ""):
            return row["REPO_URI"]
    return None


def age_options() -> list[str]:
    """Returns this machine's own settings of apt for a mirror whose index is old or new.

    A mirror that is frozen has an index of another day, which apt otherwise refuses.
    """
    text = capture(["apt-config", "dump"])
    names = ("Acquire::Check-Valid-Until ", "Acquire::Check-Date ")
    return [line.rstrip(";") for line in text.splitlines() if line.startswith(names)]


def mirror() -> Mirror:
    """Returns the mirror that the machine's apt configuration names for its release."""
    release = codename()
    text = capture(["apt-get", "indextargets", "--format", _FORMAT])
    for name in (release, "stable", "oldstable"):
        uri = parse_targets(text, name)
        if uri:
            return Mirror(release, uri)
    raise LabError(f"no apt source for Debian {release} main on this machine")
