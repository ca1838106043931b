# SPDX-License-Identifier: GPL-2.0
"""Which scenarios a run takes: their markers decide, and the names in `ONLY`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from . import settings
from .errors import LabError


@dataclass(frozen=True)
class Case:
    """A case of a scenario, as pytest collects it."""

    #: Name of the file without `test_` and `.py`.
    file: str
    #: Name of the function without `test_`.
    function: str
    #: The parameters of the case; empty for a scenario that has none.
    parameters: str
    markers: frozenset[str]

    @property
    def names(self) -> tuple[str, ...]:
        """Every name of this case, the name of its file first."""
        case = f"{self.function}[{self.parameters}]"
        return (
            self.file,
            self.function,
            case,
            f"{self.file}::{self.function}",
            f"{self.file}::{case}",
        )


@dataclass(frozen=True)
class Run:
    """The settings of one run that exclude scenarios."""

    flavour: str = "plain"
    link: str = "rxe"
    client: str = "ours"
    server: str = "stock"
    full: bool = False
    legacy: bool = True
    dma: str = "none"
    export: str = "tmpfs"


def current() -> Run:
    """Returns the run that the environment asks for."""
    modules = settings.client(), settings.server()
    form = settings.full(), settings.legacy(), settings.dma(), settings.export()
    return Run(settings.flavour(), settings.link(), *modules, *form)


def possible(case: Case, run: Run) -> bool:
    """Whether the case makes sense with this kernel, link and modules."""
    debug, debian = run.flavour == "debug", run.flavour == "debian"
    excluding = {
        "needs_ours": run.client != "ours",
        "needs_our_server": run.server != "ours",
        "needs_legacy": not run.legacy,
        "rxe_only": run.link != "rxe",
        "needs_dma": run.dma == "none",
        "needs_bounce_buffers": run.dma != "swiotlb",
        "needs_iommu": run.dma != "iommu",
        # Bounce buffers do not keep the offset in the page.
        "needs_offsets": run.dma == "swiotlb",
        "plain_only": debug,
        "debug_only": not debug,
        # It has few extended attributes; with the lab's own kernels it has no ACLs.
        "needs_lists": run.export == "ext4",
        # The lab's own kernels have no quotas, and neither have the other file systems.
        "needs_quotas": not debian or run.export not in ("ext4", "xfs"),
        # Debian's kernel has neither KUnit nor fault injection.
        "needs_kunit": debian,
    }
    return not any(excluding.get(marker, False) for marker in case.markers)


def in_form(case: Case, run: Run) -> bool:
    """Whether the form of the run, short or long, contains the case."""
    if run.full:
        return True
    return "full" not in case.markers and (run.flavour != "debug" or "debug_kernel" in case.markers)


def named(cases: Sequence[Case], only: Sequence[str]) -> set[int]:
    """Returns the numbers of the cases that have one of the names, or of all without a name.

    # Errors
    `LabError` for a name that no scenario has.
    """
    groups = [_named(cases, name) for name in only] or [set(range(len(cases)))]
    return set().union(*groups)


def choose(cases: Sequence[Case], only: Sequence[str], run: Run) -> set[int]:
    """Returns the numbers of the cases that the run takes.

    Without `only` the run takes what its form contains. A name in `only` stands for the cases of
    that name that the form contains, or for all its cases if the form contains none of them.

    # Errors
    `LabError` for a name that no scenario has.
    """
    able = [index for index, case in enumerate(cases) if possible(case, run)]
    chosen: set[int] = set()
    for group in [_named(cases, name) for name in only] or [set(range(len(cases)))]:
        meant = [index for index in able if index in group]
        usual = [index for index in meant if in_form(cases[index], run)]
        chosen.update(usual or (meant if only else []))
    return chosen


def _named(cases: Sequence[Case], name: str) -> set[int]:
    """Returns the cases of this name, or those whose name contains it if there are none.

    A file's name goes before a function's name.
    """
    wanted = name.removesuffix(".py").replace("test_", "")
    for place in range(5):
        found = {index for index, case in enumerate(cases) if case.names[place] == wanted}
        if found:
            return found
    part = {index for index, case in enumerate(cases) if any(wanted in n for n in case.names)}
    if not part:
        known = {known for case in cases for known in case.names[:2]}
        close = difflib.get_close_matches(wanted, sorted(known), 3)
        hint = f" (close to it: {', '.join(close)})" if close else ""
        raise LabError(f"ONLY={name}: no scenario has this name{hint}; LIST=1 lists them")
    return part
