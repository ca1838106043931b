# SPDX-License-Identifier: GPL-2.0
"""The workloads of users: reads and writes by fio, and the metadata of many small files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..pair import MOUNT_POINT, Pair
from .figures import Figures

FILES = 2000
_FIO = (
    f"fio --name=b --filename={MOUNT_POINT}/bench --size=64m --direct=1 --ioengine=libaio"
    " --time_based --ramp_time=1 --runtime={seconds} --output-format=json"
)


@dataclass(frozen=True)
class Job:
    """A job of fio: its name in the table, its arguments, and the figure in its result."""

    name: str
    arguments: str
    side: str
    figure: str
    unit: str

    def measured(self, seconds: int) -> Callable[[Pair, str, Figures], None]:
        """Returns a function that runs the job for that many seconds and notes the figure."""

        def measure(pair: Pair, module: str, figures: Figures) -> None:
            command = f"{_FIO.format(seconds=seconds)} {self.arguments}"
            out = pair.client.sh(command, timeout=seconds + 120)
            (result,) = json.loads(out[out.index("{") :])["jobs"]
            value = float(result[self.side][self.figure])
            figures.note(self.name, self.unit, module, value, more=True)

        return measure


def _random(side: str, depth: int) -> Job:
    arguments = f"--rw=rand{side} --bs=4k --iodepth={depth}"
    return Job(f"4 KiB random {side}, depth {depth}", arguments, side, "iops", "IOPS")


def _sequential(side: str) -> Job:
    return Job(f"1 MiB sequential {side}", f"--rw={side} --bs=1m --iodepth=4", side, "bw", "KiB/s")


def jobs(depths: Sequence[int]) -> list[Job]:
    """Returns the jobs: random ones of 4 KiB at each queue depth, and sequential ones of 1 MiB."""
    return [
        *(_random(side, depth) for depth in depths for side in ("read", "write")),
        *(_sequential(side) for side in ("read", "write")),
    ]


def prepare(pair: Pair) -> None:
    """Makes the file that fio reads and writes."""
    pair.server.sh("head -c 64M /dev/zero > /srv/export/bench; chmod 666 /srv/export/bench")


def metadata(pair: Pair, module: str, figures: Figures) -> None:
    """Creates, stats and unlinks many files, one after another."""
    where = f"{MOUNT_POINT}/metadata"
    for line in pair.client.sh(
        f"python3 /lab/metadata.py {FILES} {where}", timeout=300
    ).splitlines():
        verb, seconds = line.split()
        figures.note(f"{verb} {FILES} files", "files/s", module, FILES / float(seconds), more=True)
