# SPDX-License-Identifier: GPL-2.0
"""Writers on the client whose records must survive a failure of the server.

The program itself is guest/records.py.
"""

from __future__ import annotations

import shlex
import time

from .errors import GuestError
from .pair import Guest, Pair

NOTES = "/run/records"


class Records:
    """The writers of one mount."""

    #: How many there are.
    WRITERS = 4

    def __init__(self, pair: Pair, name: str, at: str) -> None:
        """Starts the writers in a directory of this name."""
        self._client, self._server = pair.client, pair.server
        self._name, self._here, self._note = name, f"{at}/{name}", f"{NOTES}/{name}"
        pair.client.sh(f"mkdir -p {NOTES}; rm -f {self._note}.*")
        command = f"exec nice python3 /lab/records.py write {self._here} {self._note}"
        self._pid = pair.client.vm.start(command)

    def stable(self) -> int:
        """Returns how often something has become stable so far."""
        count = self._client.run(f"cat {self._note}.* 2>/dev/null | grep -c stable")
        return int(count.stdout or 0)

    def await_stable(self, more: int, limit: float) -> float:
        """Waits until more has become stable; returns the seconds that it took.

        # Errors
        `GuestError` when that takes longer than `limit` seconds, or a writer has failed.
        """
        began, wanted = time.monotonic(), self.stable() + more
        while self.stable() < wanted:
            ended = self._client.vm.agent.poll(self._pid)
            if ended:
                raise GuestError(f"{self._name}: the writers ended: {ended.stderr.decode()}")
            if time.monotonic() > began + limit:
                raise GuestError(f"{self._name}: no progress in {limit:.0f} s")
            time.sleep(0.2)
        return time.monotonic() - began

    def check_server(self) -> tuple[int, int]:
        """Compares the server's files with the notes.

        Returns how many records were stable, and how many of those were being written again.

        # Errors
        `GuestError` when a record is wrong.
        """
        notes = self._client.sh(f"cd {NOTES} && tar c {self._name}.* | base64")
        unpack = f"mkdir -p {NOTES} && base64 -d | tar xC {NOTES}"
        self._server.sh(unpack, stdin=notes.encode())
        return self._check(self._server, f"/srv/export/{self._name}")

    def await_failures(self, limit: float) -> list[str]:
        """Waits until each writer has failed; returns their errors."""
        done = self._client.vm.agent.wait(self._pid, limit)
        return done.stderr.decode().splitlines()

    def finish(self) -> None:
        """Stops the writers, and compares both sides with the notes.

        # Errors
        `AssertionError` when a writer has failed, `GuestError` when a record is wrong.
        """
        self._client.sh(f"touch {self._note}.stop")
        done = self._client.vm.agent.wait(self._pid, 120)
        if done.status:
            raise AssertionError(f"{self._name}: {done.stderr.decode()}")
        self._client.sh("echo 3 > /proc/sys/vm/drop_caches")
        self._check(self._client, self._here)
        self.check_server()

    def _check(self, guest: Guest, where: str) -> tuple[int, int]:
        command = f"python3 /lab/records.py check {shlex.quote(where)} {self._note}"
        stable, doubtful = map(int, guest.sh(command, timeout=300).split())
        return stable, doubtful
