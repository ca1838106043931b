# SPDX-License-Identifier: GPL-2.0
"""Counts how often processors of the server wait for a lock, on behalf of the module and in all.

A TCG plugin records the stack at each entry of a function that waits for a lock. These are the slow
paths: a lock that is free is taken without them. Trace events would miss spinlocks, because a guest
waits for them in a loop without an event.
"""

from __future__ import annotations

import json
import re
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ... import orc
from ...errors import GuestError, LabError
from ...kernel import Kernel
from ...pair import MOUNT_POINT, Pair, Setup
from ..figures import MODULES, Figures
from ..instructions import Functions, build_plugin, module_range
from .functions import demangled
from .turns import mounted

#: Processors of the server at least, processors of the client, and connections of the mount.
PROCESSORS, CLIENT_PROCESSORS, CONNECTIONS = 4, 2, 8
#: A thread of QEMU for each processor of the server.
ACCEL = ("-accel", "tcg,thread=multi")
#: The functions that wait: for spinlocks, mutexes and semaphores.
WAITING = (
    "queued_spin_lock_slowpath",
    "queued_read_lock_slowpath",
    "queued_write_lock_slowpath",
    "__mutex_lock_slowpath",
    "__mutex_lock_interruptible_slowpath",
    "__mutex_lock_killable_slowpath",
    "rwsem_down_read_slowpath",
    "rwsem_down_write_slowpath",
)
#: Functions between a function that waits and the one that takes the lock.
_WRAPPER = re.compile("_raw_|rust_helper_|queued_|_*mutex_|down_|rwsem_")
_MARK = "[rpcrdma]"
#: Functions that are called only by the module or for it. The module is not on the stack where its
#: last step is a jump to another function.
_CALLED = ("__ib_process_cq", "rxe_post_send", "rxe_post_recv")
_WORDS = 512
_SIZE = _WORDS * 8
#: Records for which the plugin has room.
_ROOM = 1 << 17
#: Megabytes of the file of each process.
_FILE = 8
_FIO = (
    f"fio --name=b --directory={MOUNT_POINT} --size={_FILE}m --direct=1 --ioengine=libaio"
    " --iodepth=1 --numjobs=8 --group_reporting --output-format=json"
)
_PATTERN = "--verify=pattern --verify_pattern=%o --verify_fatal=1"


@dataclass(frozen=True)
class Job:
    """Operations of NFS, and the megabytes that each of eight processes transfers."""

    title: str
    fio: str
    megabytes: int

    def command(self, megabytes: int = 0) -> str:
        """Returns the command for the client, which transfers so much if it is not 0."""
        return f"{_FIO} {self.fio} --io_size={megabytes or self.megabytes}m"


#: READs check what the WRITEs have written.
JOBS = (
    Job("WRITEs of 1 MiB", f"--rw=write --bs=1m {_PATTERN} --do_verify=0", 32),
    Job("READs of 1 MiB", f"--rw=read --bs=1m {_PATTERN}", 32),
    Job("READs of 4 KiB", "--rw=randread --bs=4k", 1),
)


def prepared(setup: Setup, out: Path) -> Setup:
    """Returns a setup whose server counts in the file `out`."""
    addresses = "".join(f",at={address:x}" for address in _addresses(setup.kernel))
    plugin = f"{build_plugin('lockcount')},out={out}{addresses}"
    return replace(
        setup,
        cpus=max(setup.cpus, PROCESSORS),
        client_extra=(*setup.client_extra, "-smp", str(CLIENT_PROCESSORS)),
        server_extra=(*setup.server_extra, *ACCEL, "-plugin", plugin),
    )


def _addresses(kernel: Kernel) -> list[int]:
    words = [line.split() for line in (kernel.obj / "System.map").read_text().splitlines()]
    found = {name: int(address, 16) for address, _, name in words}
    if missing := [name for name in WAITING if name not in found]:
        raise LabError(f"the kernel has no {', '.join(missing)}")
    return [found[name] for name in WAITING]


class Records:
    """The plugin's file."""

    def __init__(self, path: Path) -> None:
        """QEMU creates the file when it starts."""
        self._path = path

    def count(self) -> int:
        """Returns the number of waits so far."""
        with self._path.open("rb") as file:
            return int(struct.unpack("=Q", file.read(8))[0])

    def after(self, first: int) -> Iterator[tuple[int, orc.Stack]]:
        """Yields the functions and the stacks of the waits after the first ones.

        # Errors
        `GuestError` if there was no room for all waits.
        """
        count = self.count()
        if count >= _ROOM:
            raise GuestError(f"{count} waits for locks, and room for {_ROOM}")
        with self._path.open("rb") as file:
            file.seek((first + 1) * _SIZE)
            for _ in range(first, count):
                function, sp, bp, used, *words = struct.unpack(f"={_WORDS}Q", file.read(_SIZE))
                yield function, orc.Stack(sp, bp, tuple(words[:used]))


class Contention:
    """The waits of both modules by job."""

    def __init__(self, pair: Pair, out: Path, version: str) -> None:
        """Reads the kernel's tables."""
        self._records, self._version = Records(out), version
        kernel = (pair.setup.kernel.obj / "vmlinux").read_bytes()
        self._kernel = list(orc.of_kernel(kernel))
        self._found: dict[str, dict[str, Counter[str]]] = defaultdict(dict)

    def measure(self, pair: Pair, module: str, figures: Figures) -> None:
        """Counts the waits for locks per 1,000 operations of each job over several connections."""
        unwinder = orc.Unwinder([*self._kernel, *_of_module(pair, module)])
        name_of = _names(pair)
        with mounted(pair, self._version, f"nconnect={CONNECTIONS}"):
            # The files are made, and the connections get the memory that they keep.
            pair.client.sh(JOBS[0].command(_FILE), timeout=600)
            for job in JOBS:
                before = self._records.count()
                operations = _operations(pair.client.sh(job.command(), timeout=600))
                stacks = self._records.after(before)
                waits = [_named(name_of, at, unwinder.callers(stack)) for at, stack in stacks]
                self._note(job, module, waits, operations / 1000, figures)

    def _note(
        self, job: Job, module: str, waits: list[list[str]], thousands: float, figures: Figures
    ) -> None:
        kinds = Counter(map(kind, waits))
        inside = sum(map(is_inside, waits))
        title = f"per 1,000 {job.title}, {CONNECTIONS} connections"
        figures.note(f"contended, {title}", "locks", module, inside / thousands)
        figures.note(f"in the whole guest, {title}", "locks", module, len(waits) / thousands)
        per_thousand = Counter({name: count / thousands for name, count in kinds.items()})
        self._found[job.title].setdefault(module, Counter()).update(per_thousand)

    def finish(self, rounds: int, directory: Path) -> None:
        """Writes who has waited to ``locks.txt``, per 1,000 operations."""
        lines = []
        for title, found in self._found.items():
            for module in MODULES:
                lines.append(f"{title}, {module}")
                kinds = found.get(module, Counter()).most_common()
                lines += [f"{count / rounds:10.1f}  {name}" for name, count in kinds]
        (directory / "locks.txt").write_text(demangled("\n".join(lines)) + "\n")


def is_inside(names: list[str]) -> bool:
    """Returns whether a stack has the module or a function that is called for it."""
    return any(_MARK in name or name in _CALLED for name in names)


def kind(names: list[str]) -> str:
    """Returns who waits: the function, its caller, and the module's function, if there is one.

    `names`: the functions of a stack, the innermost first.
    """
    callers = [name for name in names[1:] if not _WRAPPER.match(name)]
    own = [name for name in callers if _MARK in name] or [n for n in callers if n in _CALLED]
    words = [names[0], *callers[:1], *(name for name in own[:1] if name not in callers[:1])]
    return " < ".join(words)


def _named(name_of: Callable[[int], str], function: int, callers: list[int]) -> list[str]:
    """Returns the names of a function and of its callers, by their return addresses."""
    return [name_of(function), *(name_of(address - 1) for address in callers)]


def _operations(out: str) -> int:
    result = json.loads(out[out.index("{") :])["jobs"][0]
    return int(result["read"]["total_ios"] + result["write"]["total_ios"])


def _of_module(pair: Pair, module: str) -> Iterator[tuple[int, bytes]]:
    listed = pair.server.sh("cd /sys/module/rpcrdma/sections && grep -H . .*text*")
    found = (line.split(":") for line in listed.splitlines())
    sections = {name: int(address, 16) for name, address in found}
    return orc.of_module(pair.setup.files[f"{module}.ko"].read_bytes(), sections)


def _names(pair: Pair) -> Callable[[int], str]:
    """Returns the function that names a function of the server by an address in it."""
    text = pair.server.read("/proc/kallsyms")
    own, every = Functions(text, "rpcrdma"), Functions(text)
    low, high = module_range(pair.server)

    def name_of(address: int) -> str:
        if low <= address < high:
            return f"{own.at(address)} {_MARK}"
        return every.at(address)

    return name_of
