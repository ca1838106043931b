# SPDX-License-Identifier: GPL-2.0
"""The savings of version two and its larger messages: `lab bench --sizes`.

Each operation is counted with the stock module on both guests, and with ours on both: in version
one, in version two with default settings, and with each size of `--explicit` set by hand. A figure
is that of both guests: instructions, work requests, and memory regions of the client. Each mode has
a mount of its own, which has been in use before the first count.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from .. import connections, mountstats, paths
from ..errors import GuestError
from ..memory import free_kilobytes
from ..pair import MOUNT_POINT, Guest, Pair, Setup
from ..progress import say, step
from . import instructions

FEW, MANY, ROUNDS = 20, 100, 3
#: The entries of each directory, and the number of directories that a run may list.
ENTRIES, DIRECTORIES = 100, MANY
#: The lengths of files in the sources of Linux 7.3, each of a tenth of them: the middle of the
#: tenth.
LENGTHS = (244, 656, 1246, 1981, 3075, 4732, 7262, 11492, 20153, 49019)
#: READs of a round of use, and the seconds of use after which sizes have followed.
USE, FOLLOW = 400, 30
#: The connections whose memory is measured.
CONNECTIONS = 4
#: The segments that the server has read and written.
_SERVED = "/proc/sys/sunrpc/svc_rdma/rdma_stat_{read,write}"
_PREPARE = f"""
cd /srv/export && head -c 1M /dev/zero > ops && chmod 666 ops && mkdir -m 777 trees && python3 -c "
import os
for directory in range({DIRECTORIES}):
    os.makedirs(f'dirs/{{directory}}')
    for entry in range({ENTRIES}):
        open(f'dirs/{{directory}}/source-file-{{entry:02}}.c', 'w').close()"
"""
#: Archives of a tree with as many files as each run extracts, and that tree in the export.
_ARCHIVES = f"""
python3 -c "
import os
for count in ({FEW}, {MANY}):
    for n in range(count):
        folder = f'/run/tree-{{count}}/{{n // 10}}'
        os.makedirs(folder, exist_ok=True)
        with open(f'{{folder}}/{{n}}', 'wb') as file:
            file.write(os.urandom({LENGTHS}[n % {len(LENGTHS)}]))"
for count in {FEW} {MANY}; do tar -cf /run/tree-$count.tar -C /run/tree-$count .; done
"""


@dataclass(frozen=True)
class Mode:
    """The module of both guests, and the settings of each below /proc/sys/sunrpc."""

    title: str
    module: str
    client: Mapping[str, int]
    server: Mapping[str, int]


def _explicit(size: int) -> Mode:
    sizes = {f"rdma_max_inline_{way}": size for way in ("read", "write")}
    return Mode(f"version 2, {size}", "ours", sizes, {"svc_rdma/max_req_size": size})


def modes(explicit: Sequence[int]) -> list[Mode]:
    """Returns the modes that are compared, in order."""
    return [
        Mode("stock", "stock", {}, {}),
        Mode("version 1", "ours", {"rdma_version": 1}, {}),
        Mode("default", "ours", {}, {}),
        *map(_explicit, explicit),
    ]


@dataclass(frozen=True)
class Verb:
    """An operation: the command that does it some times, and the name by which it is counted."""

    title: str
    command: str
    #: The NFS operation of which there must be one for each time; none if there may be several.
    operation: str = ""


def _ops(arguments: str) -> str:
    return f"python3 /lab/ops.py {arguments}"


VERBS = (
    Verb("READ 4 KiB", _ops("read {count} {at}/ops 4096"), "READ"),
    Verb("WRITE 4 KiB", _ops("write {count} {at}/ops 4096"), "WRITE"),
    Verb("READDIR of 100 names", _ops("readdir {count} {at}/dirs")),
    Verb("GETACL", _ops("getacl {count} {at}/dirs"), "GETACL"),
    Verb("untar, per file", "tar -xf /run/tree-{count}.tar -C {at}/trees"),
    Verb("find, per 100 files", _ops("find {count} {at}/dirs")),
)


@dataclass(frozen=True)
class Sample:
    """The counters of both sides at one time, or their difference, or that of one operation."""

    operations: float
    instructions: float
    requests: float
    regions: float

    def since(self, before: Sample) -> Sample:
        """Returns the difference from an earlier sample."""
        now, then = vars(self), vars(before)
        return Sample(**{name: now[name] - then[name] for name in now})

    def of_each(self, count: float) -> Sample:
        """Returns the cost of one of `count` operations."""
        return Sample(**{name: value / count for name, value in vars(self).items()})


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
            regions,
        )

    def _run(self, verb: Verb, count: int) -> Sample:
        self._pair.server.sh("rm -rf /srv/export/trees/*")
        self._pair.client.sh("echo 3 > /proc/sys/vm/drop_caches")
        before = self._now(verb)
        command = verb.command.format(count=count, at=MOUNT_POINT)
        self._pair.client.sh(command, timeout=300)
        return self._now(verb).since(before)

    def measure(self, verb: Verb) -> Sample:
        """Returns the cost of one operation: the median of some rounds after a warm-up."""
        self._run(verb, FEW)
        rounds = [self._round(verb) for _ in range(ROUNDS)]
        return sorted(rounds, key=lambda sample: sample.instructions)[ROUNDS // 2]

    def _round(self, verb: Verb) -> Sample:
        """Returns the cost of one operation, from a short and a long run."""
        few = self._run(verb, FEW)
        more = self._run(verb, MANY).since(few)
        if verb.operation and not 0.9 < more.operations / (MANY - FEW) < 1.2:
            raise GuestError(f"{verb.title}: {more.operations} operations for {MANY - FEW}")
        return more.of_each(MANY - FEW)


def _set(pair: Pair, mode: Mode) -> None:
    for guest, settings in ((pair.client, mode.client), (pair.server, mode.server)):
        for name, value in settings.items():
            guest.sh(f"echo {value} > /proc/sys/sunrpc/{shlex.quote(name)}")


def _sizes(guest: Guest) -> set[tuple[str, ...]]:
    """Returns version and sizes of the connections of our module, as a guest shows them."""
    names = ("version", "call_bytes", "reply_bytes")
    return {tuple(line[name] for name in names) for line in connections.read(guest)}


def _use(pair: Pair, mode: Mode, parallel: int) -> None:
    """Uses a mount until the sizes of its connections have followed.

    # Errors
    `GuestError` when both sides do not agree in the end.
    """
    began = time.monotonic()
    reads = f"python3 /lab/ops.py read {USE} {MOUNT_POINT}/ops"
    while True:
        pair.client.sh(f"for n in $(seq {parallel}); do {reads} & done; wait", timeout=300)
        used = time.monotonic() - began
        if mode.module == "stock":
            return
        client, server = (_sizes(guest) for guest in (pair.client, pair.server))
        if used > FOLLOW and client == server and len(client) == 1:
            say(f"{mode.title}: version and sizes are {client}")
            return
        if used > 4 * FOLLOW:
            raise GuestError(f"{mode.title}: {client} at the client, {server} at the server")


@contextmanager
def _mounted(pair: Pair, mode: Mode) -> Iterator[None]:
    """Mounts, and uses the mount."""
    pair.load()
    _set(pair, mode)
    pair.mount("4.2")
    _use(pair, mode, 1)
    yield
    pair.umount()
    pair.unload(20)
    pair.server.sh("echo 4096 > /proc/sys/sunrpc/svc_rdma/max_req_size")


def _memory(pair: Pair, mode: Mode) -> tuple[float, float]:
    """Returns the kilobytes of a connection in use, of client and server, device included."""
    pair.load()
    _set(pair, mode)
    before = [free_kilobytes(guest) for guest in (pair.client, pair.server)]
    pair.mount("4.2", options=f"nconnect={CONNECTIONS}")
    _use(pair, mode, CONNECTIONS)
    after = [free_kilobytes(guest) for guest in (pair.client, pair.server)]
    pair.umount()
    pair.unload(20)
    pair.server.sh("echo 4096 > /proc/sys/sunrpc/svc_rdma/max_req_size")
    client, server = (a - b for a, b in zip(before, after, strict=True))
    return client / CONNECTIONS, server / CONNECTIONS


@dataclass
class Found:
    """The cost of each operation by its title, and the memory of a connection, both by mode."""

    costs: dict[str, dict[str, Sample]]
    memory: dict[str, tuple[float, float]]


def measure(setup: Setup, directory: Path, explicit: Sequence[int], names: Sequence[str]) -> Found:
    """Measures the operations whose titles begin with one of `names`, or all, and memory."""
    verbs = [verb for verb in VERBS if not names or verb.title.startswith(tuple(names))]
    found = Found({verb.title: {} for verb in verbs}, {})
    for module in ("stock", "ours"):
        chosen = setup.kernel.stock_module if module == "stock" else setup.client_module
        both = replace(setup, client_module=chosen, server_module=chosen)
        here = [mode for mode in modes(explicit) if mode.module == module]
        _measure_modes(both, directory / module, here, verbs, found)
    return found


def _measure_modes(
    setup: Setup, directory: Path, here: Sequence[Mode], verbs: Sequence[Verb], found: Found
) -> None:
    counts = [paths.sub("tmp") / f"insncount-{time.time_ns()}-{side}" for side in ("c", "s")]
    plugin = instructions.build_plugin()
    extra = [("-plugin", f"{plugin},out={path}", *instructions.CLOCK) for path in counts]
    setup = replace(setup, client_extra=extra[0], server_extra=extra[1])
    try:
        with Pair(setup, directory) as pair:
            pair.server.sh(_PREPARE, timeout=120)
            pair.client.sh(_ARCHIVES, timeout=120)
            counting = Counting(pair, counts)
            for mode in here:
                with _mounted(pair, mode):
                    for verb in verbs:
                        with step(f"{mode.title}: {verb.title}"):
                            found.costs[verb.title][mode.title] = counting.measure(verb)
                if len(verbs) == len(VERBS):
                    with step(f"{mode.title}: memory"):
                        found.memory[mode.title] = _memory(pair, mode)
    finally:
        for path in counts:
            path.unlink(missing_ok=True)


def table(found: Found) -> str:
    """Returns the figures by operation and mode, with the ratio of instructions to the first."""
    lines = [f"{'':24}{'mode':18}{'instructions':>14}{'ratio':>7}{'requests':>10}{'regions':>9}"]
    for verb, samples in found.costs.items():
        first = next(iter(samples.values()))
        for mode, s in samples.items():
            ratio = s.instructions / first.instructions
            figures = f"{s.instructions:>14,.0f}{ratio:>7.2f}{s.requests:>10.2f}{s.regions:>9.2f}"
            lines.append(f"{verb:24}{mode:18}{figures}")
    lines.append(f"{'KiB of a connection':24}{'mode':18}{'client':>14}{'server':>14}")
    for mode, (client, server) in found.memory.items():
        lines.append(f"{'':24}{mode:18}{client:>14,.0f}{server:>14,.0f}")
    return "\n".join(lines)
