# SPDX-License-Identifier: GPL-2.0
"""A worker on the client: it reads, writes and verifies while a scenario does something else.

The program itself is guest/worker.py.
"""

from __future__ import annotations

import time

from .agent import Exit
from .errors import GuestError
from .pair import MOUNT_POINT, Pair


class Worker:
    """A process of guest/worker.py, which works until it is stopped."""

    #: Operations that the process has in flight at a time.
    THREADS = 4

    def __init__(
        self, pair: Pair, directory: str = "w", *, at: str = MOUNT_POINT, block: int = 65536
    ) -> None:
        """Starts the process in a fresh directory of the mount and waits until it makes progress.

        `block`: the size of each read and write in bytes. Blocks of 1024 bytes travel inline.
        """
        self._pair, self._name = pair, directory
        self._control = f"/run/worker-{directory}"
        where = f"{at}/{directory}"
        pair.client.sh(f"rm -rf {self._control}* {where}; mkdir -p {where}", timeout=120)
        # Other commands in the guest must not wait for the worker's arithmetic.
        worker = f"exec nice python3 /lab/worker.py --block {block} {where} {self._control}"
        self._pid = pair.client.vm.start(worker)
        self.await_progress(30, 120)

    def progress(self) -> int:
        """Returns the number of operations that have succeeded so far."""
        return int(self._status()[0])

    def mark(self) -> None:
        """Restarts the measurement that `standstill` returns."""
        mark = f"{self._control}.mark"
        self._pair.client.sh(f"touch {mark}; while [ -e {mark} ]; do sleep 0.02; done")

    def standstill(self) -> float:
        """Returns the longest time in seconds between two successful operations since `mark`."""
        # The worker writes its status at intervals: the last operation may not be in it yet.
        time.sleep(0.3)
        return float(self._status()[2])

    def _status(self) -> list[str]:
        done = self._pair.client.run(f"cat {self._control}.status")
        return done.stdout.decode().split() if done.status == 0 else ["0", "0", "0"]

    def await_progress(self, operations: int, limit: float) -> float:
        """Waits for that many more operations; returns the seconds they took.

        On a slow host the limit is longer (`Pair.patience`).

        # Errors
        `GuestError` when they did not succeed within `limit` seconds, or the worker has ended.
        """
        return self.await_operations(self.progress() + operations, limit)

    def await_operations(self, operations: int, limit: float) -> float:
        """Waits until that many operations have succeeded in all; returns the seconds it took.

        # Errors
        The same as those of `await_progress`.
        """
        began = time.monotonic()
        limit *= self._pair.patience
        while (done := self.progress()) < operations:
            ended = self._pair.client.vm.agent.poll(self._pid)
            if ended:
                raise GuestError(f"the worker ended: {_text(ended)}")
            if time.monotonic() > began + limit:
                stuck = f"{done} operations instead of {operations} after {limit:.0f} s"
                raise GuestError(f"the worker makes no progress: {stuck}: {self._stacks()}")
            time.sleep(0.1)
        return time.monotonic() - began

    def finish(self, limit: float = 200) -> str:
        """Stops the worker, compares its data with the server's, and returns its last line.

        # Errors
        `AssertionError` when the worker failed, or when the server has other data.
        """
        client, server = self._pair.client, self._pair.server
        client.sh(f"touch {self._control}.stop")
        done = client.vm.agent.wait(self._pid, limit)
        if done.status:
            raise AssertionError(f"the worker ended {done.status}: {_text(done)}")
        here = client.sh(f"sha256sum < {self._control}.expected")
        there = server.sh(f"sha256sum < /srv/export/{self._name}/blocks")
        assert here == there, "the server has other data than the client wrote"
        return done.stdout.decode().strip()

    def _stacks(self) -> str:
        """Returns the kernel stacks on which the worker's threads wait."""
        threads = f"/proc/$(pgrep -f {self._control}$)/task/*"
        done = self._pair.client.run(f"for t in {threads}; do head -4 $t/stack; echo; done")
        return done.stdout.decode()


def _text(done: Exit) -> str:
    return (done.stdout + done.stderr).decode(errors="replace").strip()[-1500:]
