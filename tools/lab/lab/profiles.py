# SPDX-License-Identifier: GPL-2.0
"""The limits of the adapters that Linux has drivers for.

`tools/lab/profiles.toml` has them, each with its place in the kernel's source. With `PROFILE=` the
guests' device reports the limits of one of them, as far as they are lower than its own, and refuses
what exceeds them (tools/lab/provoke/lab_limits.c).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from . import paths, settings
from .errors import LabError

_FILE = paths.LAB / "profiles.toml"
#: The version of Linux whose lines the places are.
VERSION = "7.3.4"
#: The limits that the device takes as parameters; the numbers are those of `struct ib_device_attr`.
LIMITS = (
    "max_fast_reg_page_list_len",
    "max_send_sge",
    "max_recv_sge",
    "max_sge_rd",
    "max_qp_wr",
    "max_cqe",
    "max_qp_rd_atom",
    "max_qp_init_rd_atom",
)
#: The other facts, and the word that the line of each has.
FACTS = {
    "page_size_cap": "page_size_cap",
    "sg_gaps": "IBK_SG_GAPS_REG",
    "local_dma_lkey": "IBK_LOCAL_DMA_LKEY",
    "mem_mgt_extensions": "IB_DEVICE_MEM_MGT_EXTENSIONS",
    "remote_invalidation": "IB_WR_SEND_WITH_INV",
    "num_comp_vectors": "num_comp_vectors",
}
_HW = Path("drivers/infiniband/hw")


@dataclass(frozen=True)
class Value:
    """A value that a driver reports, and the places that define it, the reporting one first."""

    value: int | bool | str
    places: tuple[str, ...]
    #: The device reports it to the driver, so the value here is assumed.
    firmware: bool


@dataclass(frozen=True)
class Profile:
    """The limits and abilities that the driver of an adapter reports."""

    name: str
    about: str
    transport: str
    values: Mapping[str, Value]

    def parameters(self) -> str:
        """Returns the parameters of `lab_profile.ko`."""
        return " ".join(f"{name}={self.values[name].value}" for name in LIMITS)


@cache
def _table() -> dict[str, dict]:
    with _FILE.open("rb") as file:
        return tomllib.load(file)


def _value(entry: list) -> Value:
    value, places, *firmware = entry
    return Value(value, tuple(places.split()), firmware == ["firmware"])


def load() -> dict[str, Profile]:
    """Returns all profiles by name."""
    table = {
        name: dict(entry) for name, entry in _table().items() if name not in ("without", "runs")
    }
    return {
        name: Profile(
            name,
            entry.pop("about"),
            entry.pop("transport"),
            {key: _value(value) for key, value in entry.items()},
        )
        for name, entry in table.items()
    }


def without() -> dict[str, Value]:
    """Returns the drivers whose devices no mount uses: the reason of each, and its place."""
    return {name: _value(entry) for name, entry in _table()["without"].items()}


def runs() -> dict[str, list[str]]:
    """Returns the result and the date of the last run of each profile."""
    return _table()["runs"]


def _line(source: Path, place: str) -> str:
    path, _, number = place.partition(":")
    lines = (source / _HW / path).resolve().read_text().splitlines()
    return lines[int(number) - 1]


def _words(line: str) -> set[str]:
    """Returns the names in a line that another line may define."""
    return {word for word in re.findall(r"\w+", line) if len(word) > 4 or word.isupper()}


def findings(source: Path) -> Iterator[str]:
    """Compares the places with a kernel's source; yields what is wrong."""
    for profile in load().values():
        for key, value in profile.values.items():
            lines = [_line(source, place) for place in value.places]
            if FACTS.get(key, key) not in lines[0]:
                yield f"{profile.name}: {value.places[0]} does not report {key}: {lines[0]}"
            steps = zip(value.places, lines, value.places[1:], lines[1:], strict=False)
            for last, before, place, line in steps:
                if not _continues(last, place) and not _words(before) & _words(line):
                    yield f"{profile.name}: {place} does not define {key}: {line}"


def _continues(last: str, place: str) -> bool:
    """Whether `place` is in the same assignment as `last`, in one of the next lines."""
    (path, _, number), (same, _, later) = last.partition(":"), place.partition(":")
    return path == same and 0 < int(later) - int(number) < 3


def chosen() -> Profile | None:
    """Returns the profile that `PROFILE` names.

    # Errors
    `LabError` for an unknown name.
    """
    name, known = settings.profile(), load()
    if name == "none":
        return None
    if name not in known:
        raise LabError(f"PROFILE={name}: must be none or one of {', '.join(known)}")
    return known[name]


def files(module: Path, directory: Path, *, always: bool) -> dict[str, Path]:
    """Returns the guests' files for the profile: the module and its parameters.

    `module`: a module that was built beside it. `always`: also without a profile.
    """
    profile = chosen()
    if profile is None and not always:
        return {}
    parameters = directory / "profile"
    directory.mkdir(parents=True, exist_ok=True)
    parameters.write_text(f"{profile.parameters() if profile else ''}\n")
    return {"lab_profile.ko": module.with_name("lab_profile.ko"), "profile": parameters}
