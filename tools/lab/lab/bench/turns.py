# SPDX-License-Identifier: GPL-2.0
"""The order of the modules, and contexts in which one of them is loaded or mounted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..pair import Pair


def in_turn(modules: Sequence[str], turn: int) -> Sequence[str]:
    """Returns the modules in the order of a round: each is the first one in its turn."""
    return modules if turn % 2 == 0 else modules[::-1]


@contextmanager
def loaded(pair: Pair, module: str) -> Iterator[None]:
    """Loads a module on the client inside the block; mounts nothing."""
    pair.client.sh(f"insmod /lab/{module}.ko")
    yield
    pair.unload()


@contextmanager
def using(pair: Pair, module: str, options: str = "") -> Iterator[None]:
    """Loads a module and mounts inside the block."""
    with loaded(pair, module):
        pair.mount("4.2", options=options)
        yield
        pair.umount()
