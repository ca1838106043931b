# SPDX-License-Identifier: GPL-2.0
"""Counts the locks of the server's transport that a processor had to wait for, by trace events.

The event ``lock:contention_begin`` comes from the slow path of a lock. A spinlock has none if the
processor is the only one that waits, and if the lock is released meanwhile.
"""

from __future__ import annotations

import json

from ...errors import GuestError
from ...pair import MOUNT_POINT, Pair
from ...tracing import TRACING
from ..figures import Figures
from .turns import mounted

#: Connections of the mount.
CONNECTIONS = 8
_TRIGGER = f"{TRACING}/events/lock/contention_begin/trigger"
_KILOBYTES = 16384
_WRITES = (
    f"fio --name=b --filename={MOUNT_POINT}/bench --size=64m --direct=1 --ioengine=libaio"
    " --rw=write --bs=1m --iodepth=8 --numjobs=4 --group_reporting --time_based"
    " --runtime={seconds} --output-format=json"
)
#: Prints the numbers of all events, and of those for which the module has taken the lock. Between
#: the event and the caller lie functions of locks alone.
_COUNT = r"""awk '
/contention_begin:/ { all++; inside = 0 }
/<stack trace>/ { inside = 1; next }
inside && / => / {
    if ($2 ~ /contention|slowpath|spin_lock|mutex_lock|stack_trace|trace_event/) next
    if ($0 ~ /\[rpcrdma\]/) own++
    inside = 0
}
END { print all + 0, own + 0 }' """


def measure(pair: Pair, module: str, version: str, seconds: int, figures: Figures) -> None:
    """Counts contended locks per 1,000 WRITEs of 1 MiB over several connections.

    # Errors
    `GuestError` if the trace has lost events.
    """
    size = f"echo {_KILOBYTES} > {TRACING}/buffer_size_kb"
    with mounted(pair, version, f"nconnect={CONNECTIONS}"):
        begin = "echo > trace; echo lock:contention_begin > set_event"
        pair.server.sh(f"cd {TRACING}; {size}; echo stacktrace > {_TRIGGER}; {begin}")
        try:
            out = pair.client.sh(_WRITES.format(seconds=seconds), timeout=seconds + 120)
        finally:
            pair.server.sh(f"cd {TRACING}; echo > set_event; echo '!stacktrace' > {_TRIGGER}")
        _note(pair, module, json.loads(out[out.index("{") :]), figures)


def _note(pair: Pair, module: str, result: dict[str, list], figures: Figures) -> None:
    lost = f"cat {TRACING}/per_cpu/cpu*/stats | awk '/^overrun/ {{n += $2}} END {{print n + 0}}'"
    counted = f"{_COUNT} < {TRACING}/trace"
    overrun, every, own = map(int, pair.server.sh(f"{lost}; {counted}", timeout=300).split())
    if overrun:
        raise GuestError(f"the trace has lost {overrun} events")
    thousands = result["jobs"][0]["write"]["total_ios"] / 1000
    title = f"per 1,000 WRITEs of 1 MiB, {CONNECTIONS} connections"
    figures.note(f"contended, {title}", "locks", module, own / thousands)
    figures.note(f"in the whole guest, {title}", "locks", module, every / thousands)
