# SPDX-License-Identifier: GPL-2.0
"""The cost of an RPC by function, with both modules side by side."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...command import capture
from ..figures import MODULES
from .libraries import Libraries, excess, own_cost

Table = dict[str, dict[str, float]]
#: Functions below this number of instructions per RPC with either module are left out.
_LEAST = 1.0
_MANGLED = re.compile(r"\b_R\w+")


@dataclass(frozen=True)
class Cost:
    """Instructions per RPC by function, inside the module and in the whole kernel."""

    inside: dict[str, float]
    everything: dict[str, float]

    @property
    def module(self) -> float:
        """The instructions inside the module."""
        return sum(self.inside.values())

    @property
    def total(self) -> float:
        """The instructions of the whole kernel."""
        return sum(self.everything.values())

    def with_libraries(self, other: Cost, libraries: Libraries) -> float:
        """Returns the instructions inside the module and in the libraries that it calls.

        `other`: the cost with the other module.
        """
        own = own_cost(self.everything, libraries)
        return self.module + own + excess(self.everything, other.everything, libraries)


def write(
    directory: Path, rounds: Mapping[str, Mapping[str, Sequence[Cost]]], libraries: Libraries
) -> None:
    """Writes `functions.txt`, `folders.txt` and `kernel.txt` into the directory of the run.

    They have the functions of the modules and their libraries, the sums by folder of the kernel's
    source, and all functions by the difference between the modules.
    """
    parts: dict[str, list[str]] = {"functions": [], "folders": [], "kernel": []}
    for title, by_module in rounds.items():
        inside = {m: _medians([cost.inside for cost in c]) for m, c in by_module.items()}
        whole = {m: _medians([cost.everything for cost in c]) for m, c in by_module.items()}
        called = {m: _of_libraries(w, libraries) for m, w in whole.items()}
        for module in by_module:
            parts["functions"] += _ranking(f"{title}, module of {module}", module, inside)
        parts["functions"] += _comparison(f"{title}, libraries", called)
        folders = {m: _by_folder(w, inside[m], libraries) for m, w in whole.items()}
        parts["folders"] += _comparison(title, folders)
        parts["kernel"] += _comparison(title, whole)
    for name, lines in parts.items():
        (directory / f"{name}.txt").write_text(demangled("\n".join(lines)) + "\n")


def _medians(costs: Sequence[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for cost in costs for name in cost)
    return {name: statistics.median([cost.get(name, 0.0) for cost in costs]) for name in names}


def _of_libraries(whole: dict[str, float], libraries: Libraries) -> dict[str, float]:
    wanted = libraries.own | libraries.shared
    return {name: count for name, count in whole.items() if name in wanted}


def _by_folder(
    whole: dict[str, float], inside: dict[str, float], libraries: Libraries
) -> dict[str, float]:
    sums: Counter[str] = Counter()
    for name, count in whole.items():
        sums["rpcrdma.ko" if name in inside else libraries.folder.get(name, "other")] += count
    return dict(sums)


def _ranking(title: str, module: str, table: Table) -> list[str]:
    """Returns the functions of one module, the dearest first."""
    costs = table[module]
    lines = [f"{title}: {sum(costs.values()):.1f} per RPC"]
    for name in sorted(costs, key=lambda name: -costs[name]):
        if costs[name] >= _LEAST:
            lines.append(f"{costs[name]:11.1f}  {name}")
    return [*lines, ""]


def _comparison(title: str, table: Table) -> list[str]:
    """Returns the functions with the cost of each module, the greatest difference first."""
    modules = [module for module in MODULES if module in table]
    names = {name for module in modules for name in table[module]}
    lines = [f"{title}, per RPC", "".join(f"{m:>11}" for m in modules) + f"{'difference':>12}"]
    sums = {module: sum(table[module].values()) for module in modules}
    rows = [("sum", [sums[module] for module in modules])]
    rows += [(name, [table[module].get(name, 0.0) for module in modules]) for name in names]
    for name, costs in sorted(rows, key=lambda row: (row[0] != "sum", -_weight(row[1]))):
        if max(costs) >= _LEAST:
            cells = "".join(f"{cost:11.1f}" for cost in costs)
            lines.append(f"{cells}{costs[-1] - costs[0]:+12.1f}  {name}")
    return [*lines, ""]


def _weight(costs: Sequence[float]) -> float:
    return abs(costs[-1] - costs[0]) if len(costs) > 1 else costs[0]


def demangled(text: str) -> str:
    """Replaces the names of Rust functions in a text."""
    names = sorted(set(_MANGLED.findall(text)))
    # `core[846817f741e54dfd]::fmt`: the number of the crate says nothing to a reader.
    plain = re.sub(r"\[[0-9a-f]+\]::", "::", capture(["c++filt", *names]) if names else "")
    known = dict(zip(names, plain.splitlines(), strict=True))
    return _MANGLED.sub(lambda found: known[found[0]], text)
