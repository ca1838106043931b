# SPDX-License-Identifier: GPL-2.0
"""The functions of the kernel image that a module calls as its library.

A module may do a thing itself or call the kernel for it, so a comparison of modules counts both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...command import capture

#: Objects and archives whose functions run in the server guest for the transport alone. Others of
#: `drivers/infiniband/core` run for the software device.
OWN = (
    "drivers/infiniband/core/rw.o",
    "drivers/infiniband/core/cq.o",
    "drivers/infiniband/core/mr_pool.o",
    "drivers/infiniband/core/verbs.o",
    "rust/built-in.a",
)
#: An object whose functions nfsd calls as well.
SHARED = "net/sunrpc/xdr.o"
#: Folders by which the cost of the whole kernel is summed up.
FOLDERS = (
    "rust",
    "drivers/infiniband/core",
    "drivers/infiniband/sw",
    "net/sunrpc",
    "fs/nfsd",
    "net",
    "mm",
    "kernel",
)


@dataclass(frozen=True)
class Libraries:
    """Names of functions."""

    own: frozenset[str]
    shared: frozenset[str]
    #: The folder of each function of `FOLDERS`.
    folder: dict[str, str]


def read(obj: Path) -> Libraries:
    """Reads the names from the objects of a built kernel."""
    names = {folder: _functions(obj / folder / "built-in.a") for folder in FOLDERS}
    folder: dict[str, str] = {}
    # The first folder counts: `net` contains `net/sunrpc`.
    for place in reversed(FOLDERS):
        folder.update(dict.fromkeys(names[place], place))
    own = frozenset(name for path in OWN for name in _functions(obj / path))
    return Libraries(own, _functions(obj / SHARED), folder)


def _functions(path: Path) -> frozenset[str]:
    lines = capture(["nm", "--defined-only", path]).splitlines()
    words = [line.split() for line in lines]
    return frozenset(word[2] for word in words if len(word) == 3 and word[1] in "tTwW")


def own_cost(functions: dict[str, float], libraries: Libraries) -> float:
    """Returns the instructions in functions that serve the transport alone."""
    return sum(count for name, count in functions.items() if name in libraries.own)


def excess(functions: dict[str, float], others: dict[str, float], libraries: Libraries) -> float:
    """Returns the instructions in shared functions beyond those with the other module.

    nfsd's own calls are the same with either module and cancel out.
    """
    return sum(
        max(functions.get(name, 0.0) - others.get(name, 0.0), 0.0) for name in libraries.shared
    )
