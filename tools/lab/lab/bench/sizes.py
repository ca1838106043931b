# SPDX-License-Identifier: GPL-2.0
"""The savings of version two and its larger messages: `lab bench --sizes`.

Both guests have our module. Each operation is counted with version one and 4096 bytes, as both
modules have it by default, with version two and 4096 bytes, and with version two and 16384 bytes:
instructions of both guests, and work requests of both sides. Each is measured on a mount that has
just been made.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from .. import mountstats, paths
from ..errors import GuestError
from ..pair import MOUNT_POINT, Pair, Setup
from ..progress import step
from . import instructions

#: Directories with this number of entries are listed by one READDIR of some 10 KiB.
ENTRIES, DIRECTORIES = 60, 120
FEW, MANY = 20, 100
#: The segments that the server has read and written.
_SERVED = "/proc/sys/sunrpc/svc_rdma/rdma_stat_{read,write}"
_NAME = "an_entry_with_a_name_of_some_fifty_characters_in_all"
_PREPARE = f"""
cd /srv/export && head -c 1M /dev/zero > ops && chmod 666 ops && python3 -c "
import os
for directory in range({DIRECTORIES}):
    os.makedirs(f'dirs/{{directory}}')
    for entry in range({ENTRIES}):
        open(f'dirs/{{directory}}/{_NAME}{{entry}}', 'w').close()"
"""


@dataclass(frozen=True)
class Mode:
    """A version, and the inline thresholds of both sides in bytes."""

    version: str
    size: int

    @property
    def title(self) -> str:
        """The head of a column."""
        return f"version {self.version}, {self.size}"


@dataclass(frozen=True)
class Verb:
    """An operation, the name by which it is counted, and its arguments."""

    title: str
    operation: str
    arguments: str


MODES = (Mode("1", 4096), Mode("2", 4096), Mode("2", 16384))
VERBS = (
    Verb("READDIR of some 10 KiB", "READDIR", "readdir {count} {at}/dirs"),
    Verb("GETACL", "GETACL", "getacl {count} {at}/dirs"),
    Verb("READ 4 KiB", "READ", "read {count} {at}/ops 4096"),
    Verb("READ 8 KiB", "READ", "read {count} {at}/ops 8192"),
    Verb("READ 12 KiB", "READ", "read {count} {at}/ops 12288"),
    Verb("WRITE 8 KiB", "WRITE", "write {count} {at}/ops 8192"),
)


@dataclass(frozen=True)
class Sample:
    """The counters of both sides at one time, or their difference, or that of one operation."""

    operations: float
    instructions: float
    requests: float

    def since(self, before: Sample) -> Sample:
        """Returns the difference from an earlier sample."""
        return Sample(
            self.operations - before.operations,
            self.instructions - before.instructions,
            self.requests - before.requests,
        )


class Counting:
    """The counters of both guests."""

    def __init__(self, pair: Pair, counts: Sequence[Path]) -> None:
        """`counts`: the files of the plugins."""
        self._pair = pair
        self._counters = [instructions.Counters(path) for path in counts]

    def _now(self, verb: Verb) -> Sample:
        text = self._pair.client.read("/proc/self/mountstats")
        line = mountstats.parse(text, MOUNT_POINT)
        regions = sum(line[name] for name in ("read_chunks", "write_chunks", "reply_chunks"))
        client = line["sends"] + regions + line["local_inv"]
        served = self._pair.server.sh(f"cat {_SERVED}").split()
        server = line["recvs"] + sum(map(int, served))
        return Sample(
            mountstats.operations(text, MOUNT_POINT).get(verb.operation, 0),
            sum(counters.read().total() for counters in self._counters),
            client + server,
        )

    def _run(self, verb: Verb, count: int) -> Sample:
        self._pair.client.sh("echo 3 > /proc/sys/vm/drop_caches")
        before = self._now(verb)
        arguments = verb.arguments.format(count=count, at=MOUNT_POINT)
        self._pair.client.sh(f"python3 /lab/ops.py {arguments}", timeout=300)
        return self._now(verb).since(before)

    def measure(self, verb: Verb) -> Sample:
        """Returns the cost of one operation, from a short and a long run after a warm-up."""
        self._run(verb, FEW)
        few = self._run(verb, FEW)
        more = self._run(verb, MANY).since(few)
        if not 0.9 < more.operations / (MANY - FEW) < 1.2:
            raise GuestError(f"{verb.title}: {more.operations} operations for {MANY - FEW}")
        done = more.operations
        return Sample(1, more.instructions / done, more.requests / done)


@contextmanager
def _mounted(pair: Pair, mode: Mode) -> Iterator[None]:
    sizes = " ".join(f"rdma_max_inline_{way}={mode.size}" for way in ("read", "write"))
    pair.server.sh(f"echo {mode.size} > /proc/sys/sunrpc/svc_rdma/max_req_size")
    pair.client.sh("insmod /lab/rpcrdma.ko")
    for setting in f"{sizes} rdma_version={mode.version}".split():
        name, value = setting.split("=")
        pair.client.sh(f"echo {value} > /proc/sys/sunrpc/{name}")
    pair.mount("4.2", options="actimeo=0")
    yield
    pair.umount()
    pair.unload(20)


def measure(setup: Setup, directory: Path) -> dict[str, dict[str, Sample]]:
    """Returns the cost of each operation by its title, and by the title of the mode."""
    counts = [paths.sub("tmp") / f"insncount-{time.time_ns()}-{side}" for side in ("c", "s")]
    plugin = instructions.build_plugin()
    extra = [("-plugin", f"{plugin},out={path}") for path in counts]
    setup = replace(setup, client_extra=extra[0], server_extra=extra[1])
    found: dict[str, dict[str, Sample]] = {verb.title: {} for verb in VERBS}
    try:
        with Pair(setup, directory) as pair:
            pair.server.sh(_PREPARE, timeout=120)
            counting = Counting(pair, counts)
            for mode in MODES:
                for verb in VERBS:
                    with step(f"{mode.title}: {verb.title}"), _mounted(pair, mode):
                        found[verb.title][mode.title] = counting.measure(verb)
    finally:
        for path in counts:
            path.unlink(missing_ok=True)
    return found


def table(found: dict[str, dict[str, Sample]]) -> str:
    """Returns instructions and work requests by operation and mode, and the last mode's ratios."""
    titles = [mode.title for mode in MODES]
    head = f"{'':24}" + "".join(f"{title:>30}" for title in titles) + f"{'last/first':>16}"
    lines = [head, f"{'':24}" + f"{'instructions  requests':>30}" * len(titles)]
    for verb, samples in found.items():
        cells = [f"{s.instructions:>20,.0f} {s.requests:>9.2f}" for s in samples.values()]
        first, *_, last = samples.values()
        ratios = last.instructions / first.instructions, last.requests / first.requests
        lines.append(f"{verb:24}" + "".join(cells) + f"{ratios[0]:>9.2f} {ratios[1]:>6.2f}")
    return "\n".join(lines)
