# SPDX-License-Identifier: GPL-2.0
"""The savings of version two and its larger messages: `lab bench --sizes`.

Each operation is counted with the stock module on both guests, and with ours on both: in version
one, in version two with default settings, and with each size of `--explicit` set by hand. A figure
is that of both guests: instructions, context switches, work requests, and memory regions of the
client.

All modes take turns in the same guests, in reverse order in every second round, and a figure is the
median of the rounds: the guests' schedulers execute more or fewer instructions as other programs
use the host's processors. Each turn has a mount of its own, which is used before the first count.
"""

from __future__ import annotations

import shlex
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from .. import connections, mountstats
from ..errors import GuestError
from ..memory import free_kilobytes
from ..pair import MOUNT_POINT, Guest, Pair, Setup
from ..progress import say, step
from . import instructions
from .counting import BOTH, counters, note
from .figures import STOCK, Figures
from .instructions import CLOCK
from .server.turns import mounted, serving
from .turns import in_turn

FEW, MANY = 20, 100
INSTRUCTIONS = "instructions"
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
        Mode(STOCK, STOCK, {}, {}),
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
    """The counters of both sides at one time, or their difference."""

    operations: float
    requests: float
    regions: float
    #: Context switches of both guests.
    switches: float
    #: The instructions of each guest by block.
    instructions: Mapping[str, Counter[int]]

    def since(self, before: Sample) -> Sample:
        """Returns the difference from an earlier sample."""
        spent = {guest: counts.copy() for guest, counts in self.instructions.items()}
        for guest, counts in spent.items():
            counts.subtract(before.instructions[guest])
        return Sample(
            self.operations - before.operations,
            self.requests - before.requests,
            self.regions - before.regions,
            self.switches - before.switches,
            spent,
        )

    def total(self) -> int:
        """Returns the instructions of both guests."""
        return sum(counts.total() for counts in self.instructions.values())


def switches(guest: Guest) -> int:
    """Returns the context switches of a guest since it was booted."""
    return int(guest.sh("sed -n 's/^ctxt //p' /proc/stat"))


class Counting:
    """The counters of both guests."""

    def __init__(self, pair: Pair, counts: Mapping[str, Path], directory: Path) -> None:
        """`counts`: the files of the plugins. `directory` gets the cost of each function."""
        self._guests = {"client": pair.client, "server": pair.server}
        self._counters = {guest: instructions.Counters(path) for guest, path in counts.items()}
        self._functions = directory / "kernel.txt"

    def _now(self, verb: Verb) -> Sample:
        text = self._guests["client"].read("/proc/self/mountstats")
        line = mountstats.parse(text, MOUNT_POINT)
        regions = sum(line[name] for name in ("read_chunks", "write_chunks", "reply_chunks"))
        client = line["sends"] + regions + line["local_inv"]
        served = self._guests["server"].sh(f"cat {_SERVED}").split()
        server = line["recvs"] + sum(map(int, served))
        return Sample(
            mountstats.operations(text, MOUNT_POINT).get(verb.operation, 0),
            client + server,
            regions,
            sum(switches(guest) for guest in self._guests.values()),
            {guest: counts.read() for guest, counts in self._counters.items()},
        )

    def _run(self, verb: Verb, count: int) -> Sample:
        # If the server removed the files, nfsd would recall their delegations, and then grant none
        # for up to a minute, for many other files as well.
        remove = f"rm -rf {MOUNT_POINT}/trees/* && echo 3 > /proc/sys/vm/drop_caches"
        self._guests["client"].sh(remove, timeout=120)
        before = self._now(verb)
        command = verb.command.format(count=count, at=MOUNT_POINT)
        self._guests["client"].sh(command, timeout=300)
        return self._now(verb).since(before)

    def measure(self, verb: Verb, mode: Mode, figures: Figures) -> None:
        """Notes the cost of one operation, from a short and a long run after a warm-up."""
        self._run(verb, FEW)
        few = self._run(verb, FEW)
        more, count = self._run(verb, MANY).since(few), MANY - FEW
        if verb.operation and not 0.9 < more.operations / count < 1.2:
            raise GuestError(f"{verb.title}: {more.operations} operations for {count}")
        for unit, value in (
            (INSTRUCTIONS, more.total()),
            ("requests", more.requests),
            ("regions", more.regions),
            ("switches", more.switches),
        ):
            figures.note(f"{verb.title}, {unit}", unit, mode.title, value / count)
        for guest, spent in more.instructions.items():
            names = instructions.Functions(self._guests[guest].read("/proc/kallsyms"))
            functions = instructions.by_function(spent, names, count)
            title = f"{mode.title}, {verb.title}, {guest}"
            note(self._functions, title, spent.total() / count, functions)


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
        if mode.module == STOCK:
            return
        client, server = (_sizes(guest) for guest in (pair.client, pair.server))
        if used > FOLLOW and client == server and len(client) == 1:
            say(f"{mode.title}: version and sizes are {client}")
            return
        if used > 4 * FOLLOW:
            raise GuestError(f"{mode.title}: {client} at the client, {server} at the server")


@contextmanager
def _in_force(pair: Pair, mode: Mode) -> Iterator[None]:
    """Loads the module on both guests, with the settings; mounts nothing."""
    with serving(pair, mode.module):
        pair.client.sh(f"insmod /lab/{mode.module}.ko")
        _set(pair, mode)
        yield
        pair.unload(20)


def _memory(pair: Pair, mode: Mode, figures: Figures) -> None:
    """Notes the kilobytes of a connection in use, device included."""
    before = [free_kilobytes(guest) for guest in (pair.client, pair.server)]
    pair.mount("4.2", options=f"nconnect={CONNECTIONS}")
    _use(pair, mode, CONNECTIONS)
    after = [free_kilobytes(guest) for guest in (pair.client, pair.server)]
    pair.umount()
    for guest, b, a in zip(("client", "server"), before, after, strict=True):
        figures.note(f"a connection, {guest}", "KiB", mode.title, (b - a) / CONNECTIONS)


def measure(
    setup: Setup, directory: Path, explicit: Sequence[int], names: Sequence[str], rounds: int
) -> Figures:
    """Measures the operations whose titles begin with one of `names`, or all, and memory."""
    verbs = [verb for verb in VERBS if not names or verb.title.startswith(tuple(names))]
    figures = Figures()
    with counters(BOTH) as counts:
        extra = {
            f"{guest}_extra": ("-plugin", f"{instructions.build_plugin()},out={path}", *CLOCK)
            for guest, path in counts.items()
        }
        with Pair(replace(setup, **extra), directory) as pair:
            pair.server.sh(_PREPARE, timeout=120)
            pair.client.sh(_ARCHIVES, timeout=120)
            counting = Counting(pair, counts, directory)
            for turn in range(rounds):
                for mode in in_turn(modes(explicit), turn):
                    title = f"{mode.title}, round {turn + 1} of {rounds}"
                    with step(title):
                        _measure_mode(pair, counting, mode, verbs, figures)
    return figures


def _measure_mode(
    pair: Pair, counting: Counting, mode: Mode, verbs: Sequence[Verb], figures: Figures
) -> None:
    with _in_force(pair, mode), mounted(pair, "4.2"):
        _use(pair, mode, 1)
        for verb in verbs:
            counting.measure(verb, mode, figures)
    if len(verbs) == len(VERBS):
        # A module that has just been loaded keeps no memory of an earlier connection.
        with _in_force(pair, mode):
            _memory(pair, mode, figures)


def table(figures: Figures) -> str:
    """Returns the medians by mode, and that of the ratios to the first mode in the same round."""
    lines = [f"{'':36}{'mode':18}{'median':>12}{'ratio':>7}{'min-max':>11}"]
    for figure in figures:
        first = figure.values[STOCK]
        for mode, values in figure.values.items():
            ratios = [value / base for value, base in zip(values, first, strict=True) if base]
            cells = f"{statistics.median(values):>12,.{0 if figure.unit == INSTRUCTIONS else 2}f}"
            if ratios:
                spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
                cells += f"{statistics.median(ratios):>7.2f}{spread:>11}"
            lines.append(f"{figure.name:36}{mode:18}{cells}")
    return "\n".join(lines)
