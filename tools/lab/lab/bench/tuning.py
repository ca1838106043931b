# SPDX-License-Identifier: GPL-2.0
"""The worth of settings, for the page Documentation/tuning.rst: `lab bench --tuning`.

Both guests have our module. Each setting is measured in turns with the default in the same guests:
instructions of both kernels per operation, kilobytes of memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from .. import paths
from ..pair import MOUNT_POINT, Pair, Setup
from ..progress import step
from . import connections, instructions
from .figures import Figures
from .server import connections as accepted
from .server.turns import mounted

DEFAULT, CHOSEN = STATES = "default", "chosen"
#: Looks at a connection until it has larger messages, and seconds from one to the next.
LOOKS, LOOK = 3, 11
#: Files that the short and the long run of small files make, look at and remove.
FEW, MANY = 40, 140
_PAYLOAD = "/proc/fs/nfsd/max_block_size"
#: Bytes: nfsd's default with a memory of 1 to 2 GiB, which is that of the guests.
SMALL = 256 << 10
_SERVER, _CLIENT = "/proc/sys/sunrpc/svc_rdma", "/proc/sys/sunrpc"

Measure = Callable[["Bench", str], None]


@dataclass(frozen=True)
class Advice:
    """A setting that the page proposes for a kind of host, and the measurements of its worth."""

    host: str
    #: The setting as the page names it.
    setting: str
    measures: Sequence[Measure]
    #: Values below /proc/sys/sunrpc of either side.
    client: Mapping[str, int] = field(default_factory=dict)
    server: Mapping[str, int] = field(default_factory=dict)
    #: The longest payload of nfsd in bytes.
    payload: int = SMALL

    @property
    def title(self) -> str:
        """The setting, and the host it is for."""
        return f"{self.host}: {self.setting}"


@dataclass
class Bench:
    """The pair of guests, their counters by guest, and the figures of the advice in turn."""

    pair: Pair
    counters: Mapping[str, instructions.Counters]
    figures: Figures

    def each(self, command: Callable[[int], str], few: int, many: int) -> float:
        """Returns the instructions of both guests for each repetition in the client's command.

        They are the difference of a long and a short run. Before that, the connection is at work
        long enough to have its larger messages.
        """
        for _ in range(LOOKS):
            self._spent(command(many))
            time.sleep(LOOK)
        short = self._spent(command(few))
        return (self._spent(command(many)) - short) / (many - few)

    def _spent(self, command: str) -> int:
        before = self._total()
        self.pair.client.sh(command, timeout=300)
        return self._total() - before

    def _total(self) -> int:
        return sum(counter.read().total() for counter in self.counters.values())


def _operation(*names: str) -> Measure:
    """Measures the instructions of both kernels for each of these operations of the client.

    A read or write of a program may take several operations on the wire.
    """
    verbs = [verb for verb in instructions.VERBS if verb.title in names]

    def measure(bench: Bench, state: str) -> None:
        for verb in verbs:
            with mounted(bench.pair, "4.2", "actimeo=0"):
                each = bench.each(verb.command, verb.few, verb.many)
            size = "" if "MiB" in verb.title else " 4 KiB"
            bench.figures.note(f"{verb.title}{size}", "instructions", state, each)

    return measure


def small_files(bench: Bench, state: str) -> None:
    """Measures the instructions of both kernels for a small file: made, looked at, removed."""
    command = f"python3 /lab/metadata.py {{}} {MOUNT_POINT}/metadata"
    with mounted(bench.pair, "4.2"):
        each = bench.each(command.format, FEW, MANY)
    bench.figures.note("a small file", "instructions", state, each)


def transport(bench: Bench, state: str) -> None:
    """Measures the memory of a client's transport."""
    connections.memory(bench.pair, state, bench.figures)


def connection(bench: Bench, state: str) -> None:
    """Measures the memory of an idle connection of the server, with the device's queues."""
    payload, found = int(bench.pair.server.read(_PAYLOAD)), Figures()
    accepted.memory(bench.pair, state, payload, found)
    for figure in found:
        # The payload may be what is measured.
        first, _, last = figure.name.split(", ")
        bench.figures.note(f"{first}, {last}", figure.unit, state, figure.values[state][0])


_INLINE = {"rdma_max_inline_read": 16384, "rdma_max_inline_write": 16384}
ADVICES = (
    Advice(
        "home server",
        "max_block_size=1048576",
        [_operation("READ 1 MiB", "WRITE 1 MiB")],
        payload=1 << 20,
    ),
    Advice("home server", "max_requests=32", [connection], server={"max_requests": 32}),
    Advice(
        "render farm",
        "max_block_size=1048576",
        [connection],
        payload=1 << 20,
    ),
    Advice(
        "database",
        "max_req_size=16384",
        [_operation("READ", "WRITE"), transport],
        client=_INLINE,
        server={"max_req_size": 16384},
    ),
    Advice(
        "container host",
        "rdma_slot_table_entries=32",
        [transport, _operation("READ"), small_files],
        client={"rdma_slot_table_entries": 32},
    ),
    Advice(
        "container host",
        "max_req_size=16384",
        [small_files],
        client=_INLINE,
        server={"max_req_size": 16384},
    ),
)


@contextmanager
def _in_force(pair: Pair, advice: Advice | None) -> Iterator[None]:
    """Loads both modules again and serves, with the settings of `advice` or with the defaults."""
    pair.stop_nfsd()
    pair.unload_server(20)
    pair.load_server()
    pair.load()
    if advice:
        for guest, directory, values in (
            (pair.server, _SERVER, advice.server),
            (pair.client, _CLIENT, advice.client),
        ):
            for name, value in values.items():
                guest.sh(f"echo {value} > {directory}/{name}")
    pair.server.sh(f"echo {advice.payload if advice else SMALL} > {_PAYLOAD}")
    pair.start_nfsd()
    yield
    pair.unload(20)


def measure(setup: Setup, rounds: int, directory: Path) -> dict[str, Figures]:
    """Returns the figures by the title of the advice."""
    files = {
        guest: paths.sub("tmp") / f"insncount-{time.time_ns()}-{guest}"
        for guest in ("client", "server")
    }
    plugin = instructions.build_plugin()
    extra = {
        f"{guest}_extra": ("-plugin", f"{plugin},out={path}", *instructions.CLOCK)
        for guest, path in files.items()
    }
    found = {advice.title: Figures() for advice in ADVICES}
    try:
        with Pair(replace(setup, **extra), directory) as pair:
            pair.server.sh("head -c 1M /dev/zero > /srv/export/ops; chmod 666 /srv/export/ops")
            counters = {guest: instructions.Counters(path) for guest, path in files.items()}
            for advice in ADVICES:
                bench = Bench(pair, counters, found[advice.title])
                for turn in range(rounds):
                    for state in STATES if turn % 2 == 0 else STATES[::-1]:
                        title = f"{advice.title}, round {turn + 1} of {rounds}, {state}"
                        chosen = advice if state == CHOSEN else None
                        with step(title), _in_force(pair, chosen):
                            for take in advice.measures:
                                take(bench, state)
    finally:
        for path in files.values():
            path.unlink(missing_ok=True)
    return found


def table(found: Mapping[str, Figures]) -> str:
    """Returns the medians with the default and with the setting, and their ratio."""
    head = f"{'':46} {'unit':12} {DEFAULT:>12} {CHOSEN:>12} {'ratio':>6}"
    lines = [head]
    for title, figures in found.items():
        lines.append(title)
        for figure in figures:
            first, last = figure.median(DEFAULT), figure.median(CHOSEN)
            if first and last is not None:
                cells = f"{first:>12,.0f} {last:>12,.0f} {last / first:>6.2f}"
                lines.append(f"  {figure.name:44} {figure.unit:12} {cells}")
    return "\n".join(lines)
