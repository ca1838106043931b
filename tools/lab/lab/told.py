# SPDX-License-Identifier: GPL-2.0
"""A process of the lab that takes one command a line and answers each with a line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

from .errors import LabError


class Told:
    """A module of this package that runs as such a process."""

    def __init__(self, module: str, *args: object) -> None:
        """Starts `python3 -m lab.MODULE` and waits for its first line, which says that it serves.

        # Errors
        `LabError` if it ends instead.
        """
        self._name = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"lab.{module}", *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def tell(self, command: str) -> str:
        """Sends a command and returns the answer, which comes when the command is carried out.

        # Errors
        `LabError` if the process has ended.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise LabError(f"the process lab.{self._name} has ended")
        return answer.strip()

    def tally(self) -> Counter[str]:
        """Returns the counters that the process keeps."""
        return Counter(json.loads(self.tell("tally")))

    def stop(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()
