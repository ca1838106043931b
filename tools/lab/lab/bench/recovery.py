# SPDX-License-Identifier: GPL-2.0
"""How long a mount in use stands still after a fault is over, with either module.

The work is guest/worker.py's: verified reads and writes. What counts are the seconds from the end
of the fault until five more operations have gone well.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from .. import hostile
from ..pair import MOUNT_POINT, Pair
from ..progress import say
from .figures import Figures
from .turns import loaded

#: Operations that prove that work goes on, and seconds to wait for them at most.
PROOF, PATIENCE = 5, 400
VERSIONS = ("3", "4.2")


def _blackout(pair: Pair, seconds: float) -> None:
    assert pair.relay is not None
    pair.relay.set("blackout", 1)
    time.sleep(seconds)
    pair.relay.set("blackout", 0)


def _removal(pair: Pair) -> None:
    kind = pair.setup.link
    pair.client.sh(f"rdma link del {kind}0", timeout=300)
    time.sleep(3)
    pair.client.sh(f"rdma link add {kind}0 type {kind} netdev eth0")


FAULTS: dict[str, Callable[[Pair], None]] = {
    "5 s blackout": lambda pair: _blackout(pair, 5),
    "8 s blackout": lambda pair: _blackout(pair, 8),
    "40 s blackout": lambda pair: _blackout(pair, 40),
    "nfsd restart": lambda pair: pair.restart_nfsd(2),
    "device gone": _removal,
}


def recovery(pair: Pair, module: str, figures: Figures) -> None:
    """Every fault once with each version of NFS."""
    with loaded(pair, module):
        for version in VERSIONS:
            pair.server.sh("rm -rf /srv/export/*")
            pair.mount(version, options="nolock" if version == "3" else "")
            worker = hostile.Worker(pair)
            for name, inflict in FAULTS.items():
                began = time.monotonic()
                inflict(pair)
                fault = time.monotonic() - began
                took = worker.await_progress(PROOF, PATIENCE)
                say(f"{module}, NFSv{version}, {name}: {fault:.1f} s, then {took:.1f} s")
                figures.note(f"{name}, NFSv{version}", "s", module, took)
                if name == "device gone":
                    figures.note(f"removing a device, NFSv{version}", "s", module, fault - 3)
                worker.await_progress(4 * PROOF, PATIENCE)
            say(f"{module}, NFSv{version}: {worker.finish(600)}")
            pair.umount(MOUNT_POINT)
