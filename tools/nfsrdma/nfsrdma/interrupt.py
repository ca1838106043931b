# SPDX-License-Identifier: GPL-2.0
"""An interrupt (Ctrl-C) as a question, for commands that record.

Python raises `KeyboardInterrupt` between any two steps. An RPC that is taken out of the recording
then would be counted and not printed, or lost.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noted() -> Iterator[Callable[[], bool]]:
    """Notes an interrupt instead of raising it. Yields a function: whether there was one.

    A second one is raised, for a user whose terminal or pipe takes no more text. Interrupts that
    are ignored, as in the background of a script, stay ignored. Main thread only. A sleep goes on
    when there is an interrupt: keep it short.
    """
    seen = False

    def note(_number: int, _frame: FrameType | None) -> None:
        nonlocal seen
        if seen:
            raise KeyboardInterrupt
        seen = True

    earlier = signal.getsignal(signal.SIGINT)
    if earlier != signal.SIG_IGN:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: seen
    finally:
        signal.signal(signal.SIGINT, earlier)
