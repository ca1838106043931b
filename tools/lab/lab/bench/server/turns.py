# SPDX-License-Identifier: GPL-2.0
"""Contexts in which the server runs one of the modules, and the client has a mount."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...pair import Pair

#: Bytes of the largest payload that nfsd offers.
PAYLOAD = 1 << 20
#: Seconds in which the module's last connections may end after nfsd has stopped.
_PATIENCE = 20.0


@contextmanager
def serving(pair: Pair, module: str, payload: int = PAYLOAD) -> Iterator[None]:
    """Serves with a module inside the block, which stays loaded afterwards."""
    pair.stop_nfsd()
    pair.unload_server(_PATIENCE)
    pair.server.sh(f"insmod /lab/{module}.ko")
    pair.server.sh(f"echo {payload} > /proc/fs/nfsd/max_block_size")
    pair.start_nfsd()
    yield


@contextmanager
def mounted(pair: Pair, version: str, options: str = "") -> Iterator[None]:
    """Mounts inside the block."""
    pair.mount(version, options=options)
    yield
    pair.umount()
