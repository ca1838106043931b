# SPDX-License-Identifier: GPL-2.0
"""Whose turn it is, and one of the modules loaded and mounted for a while."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..pair import Pair


def in_turn(modules: Sequence[str], turn: int) -> Sequence[str]:
    """Another one first in every round: the first has the machine as the round before left it."""
    return modules if turn % 2 == 0 else modules[::-1]


@contextmanager
def loaded(pair: Pair, module: str) -> Iterator[None]:
    """Have this module on the client, nothing mounted."""
    pair.client.sh(f"insmod /lab/{module}.ko")
    yield
    pair.unload()


@contextmanager
def using(pair: Pair, module: str, options: str = "") -> Iterator[None]:
    """Have it loaded, and the mount in place."""
    with loaded(pair, module):
        pair.mount("4.2", options=options)
        yield
        pair.umount()
