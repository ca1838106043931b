# SPDX-License-Identifier: GPL-2.0
"""Counts the cost of an RPC for the server: instructions, wake-ups, task switches, completions.

Each figure is the difference between a short and a long run of the same operation.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from ...errors import GuestError
from ...fixtures import POOLS, server_counters
from ...pair import Pair
from ..figures import Figures
from ..instructions import Counters, Functions, Verb, by_function, module_range, operations_of
from . import functions, libraries
from .turns import mounted

VERBS = (
    Verb("GETATTR", "getattr", 0, 50, 300),
    Verb("READ 4 KiB", "read", 4096, 50, 300),
    Verb("WRITE 4 KiB", "write", 4096, 50, 300),
    Verb("READ 1 MiB", "read", 1 << 20, 5, 25),
    Verb("WRITE 1 MiB", "write", 1 << 20, 5, 25),
)
#: The function of the software device that adds a completion to a queue.
COMPLETION = "rxe_cq_post"


@dataclass(frozen=True)
class Sample:
    """The counters of the server at one time, or their differences."""

    operations: int
    #: Calls that nfsd has received, of whatever operations.
    calls: int
    instructions: Counter[int]
    runs: Counter[int]
    woken: int
    switches: int

    def since(self, before: Sample) -> Sample:
        """Returns the differences from an earlier sample."""
        instructions, runs = Counter(self.instructions), Counter(self.runs)
        instructions.subtract(before.instructions)
        runs.subtract(before.runs)
        return Sample(
            self.operations - before.operations,
            self.calls - before.calls,
            instructions,
            runs,
            self.woken - before.woken,
            self.switches - before.switches,
        )


@dataclass(frozen=True)
class Place:
    """Addresses in the memory of the server's kernel."""

    low: int
    high: int
    #: The address of `COMPLETION`, or 0 with another software device.
    completion: int
    names: Functions


def prepare(pair: Pair) -> None:
    """Makes the file that the operations use."""
    pair.server.sh("head -c 1M /dev/zero > /srv/export/ops; chmod 666 /srv/export/ops")


class Costs:
    """The row of all figures that come from counters."""

    def __init__(self, pair: Pair, counts: Path, version: str) -> None:
        """`counts`: the file of the plugin that counts the server's instructions.

        `version`: that of NFS.
        """
        self._version = version
        self._counters = Counters(counts)
        self._symbols = pair.server.read("/proc/kallsyms")
        self._libraries = libraries.read(pair.setup.kernel.obj)
        #: The instructions by function in each round, by operation and module.
        self._rounds: dict[str, dict[str, list[functions.Cost]]] = defaultdict(dict)

    def measure(self, pair: Pair, module: str, figures: Figures) -> None:
        """Measures all operations with the module that serves."""
        place = self._place(pair)
        with mounted(pair, self._version, "actimeo=0"):
            for verb in VERBS:
                cost = self._difference(pair, verb)
                # The client of NFSv3 also looks at the directories above a file.
                if cost.operations < 0.9 * (verb.many - verb.few):
                    count = f"{cost.operations} on the wire for {verb.many - verb.few}"
                    raise GuestError(f"{verb.title}: {count}")
                self._note(verb, cost, place, module, figures)

    def _difference(self, pair: Pair, verb: Verb) -> Sample:
        """Returns the cost of the operations by which a long run exceeds a short one."""
        pair.client.sh(verb.command(verb.few), timeout=300)
        samples = [self._sample(pair, verb)]
        for count in (verb.few, verb.many):
            pair.client.sh(verb.command(count), timeout=300)
            samples.append(self._sample(pair, verb))
        first, second, third = samples
        return third.since(second).since(second.since(first))

    def _sample(self, pair: Pair, verb: Verb) -> Sample:
        operations = operations_of(pair, verb.name)
        text = pair.server.sh(f"cat {POOLS} /proc/stat /proc/net/rpc/nfsd")
        switches = re.search(r"^ctxt (\d+)$", text, re.MULTILINE)
        calls = re.search(r"^rpc (\d+) ", text, re.MULTILINE)
        assert switches is not None and calls is not None
        woken = server_counters(text.partition("cpu")[0])["woken"]
        counters = self._counters.snapshot()
        return Sample(operations, int(calls[1]), *counters, woken, int(switches[1]))

    def _place(self, pair: Pair) -> Place:
        loaded = pair.server.sh("grep '\\[rpcrdma\\]' /proc/kallsyms")
        own = (line for line in self._symbols.splitlines() if "[rpcrdma]" not in line)
        completion = re.search(rf"^(\w+) . {COMPLETION}$", self._symbols, re.MULTILINE)
        return Place(
            *module_range(pair.server),
            int(completion[1], 16) if completion and pair.setup.link == "rxe" else 0,
            Functions("\n".join([*own, loaded])),
        )

    def _note(self, verb: Verb, cost: Sample, place: Place, module: str, figures: Figures) -> None:
        count = cost.operations
        inside = {a: n for a, n in cost.instructions.items() if place.low <= a < place.high}
        in_module = by_function(Counter(inside), place.names, count)
        everything = by_function(cost.instructions, place.names, count)
        found = functions.Cost(in_module, everything)
        self._rounds[verb.title].setdefault(module, []).append(found)
        figures.note(f"{verb.title}, calls", "calls", module, cost.calls / count)
        figures.note(f"{verb.title}, module", "instructions", module, found.module)
        figures.note(f"{verb.title}, whole guest", "instructions", module, found.total)
        figures.note(f"{verb.title}, nfsd woken", "times", module, cost.woken / count)
        figures.note(f"{verb.title}, task switches", "times", module, cost.switches / count)
        if place.completion:
            # One completion is that of the Receive of each call.
            sends = (cost.runs[place.completion] - cost.calls) / count
            figures.note(f"{verb.title}, send completions", "completions", module, sends)

    def finish(self, figures: Figures, directory: Path) -> None:
        """Notes the figures that compare modules, and writes the costs by function."""
        for title, rounds in self._rounds.items():
            for module, costs in rounds.items():
                others = [rounds[name] for name in rounds if name != module]
                name = f"{title}, module and libraries"
                for turn, cost in enumerate(costs):
                    other = others[0][turn] if others and turn < len(others[0]) else cost
                    value = cost.with_libraries(other, self._libraries)
                    figures.note(name, "instructions", module, value)
        functions.write(directory, self._rounds, self._libraries)
