# SPDX-License-Identifier: GPL-2.0
"""Loading and unloading the module repeatedly."""

from __future__ import annotations

import pytest

from lab import settings
from lab.memory import free_kilobytes
from lab.pair import MOUNT_POINT, Pair

#: A cycle takes ten times as long on the debug kernel, which finds leaks by kmemleak.
FEW, MANY = (5, 20) if settings.flavour() == "debug" else (4, 100)


def _allowed(cycles: int) -> int:
    """Returns the kilobytes that so many cycles may take.

    Slabs that fill up take 300 kB in ten cycles. The buffers of one connection are 512 kB, so a
    leak of them in each cycle exceeds the limit. The quarantine of KASAN needs more.
    """
    return 4000 if settings.flavour() == "debug" else 1500 + 50 * cycles


@pytest.mark.debug_kernel
@pytest.mark.parametrize("cycles", [FEW, pytest.param(MANY, marks=pytest.mark.full)])
def test_cycles(pair: Pair, cycles: int) -> None:
    """Cycles of insmod, mount, I/O, umount and rmmod lose no memory."""
    pair.unload()
    free = []
    for cycle in range(cycles):
        pair.load()
        pair.mount("4.2" if cycle % 2 else "3")
        pair.client.sh(
            f"dd if=/dev/urandom of={MOUNT_POINT}/f bs=300k count=3 conv=fsync 2>/dev/null &&"
            f" cp {MOUNT_POINT}/f /tmp/f && echo 1 > /proc/sys/vm/drop_caches &&"
            f" cmp {MOUNT_POINT}/f /tmp/f"
        )
        pair.umount()
        pair.unload()
        free.append(free_kilobytes(pair.client))
    # The first cycles fill caches; a leak still grows afterwards.
    half = cycles // 2
    lost = free[-1 - half] - free[-1]
    print(f"{lost} kB lost in {half} cycles")
    assert lost < _allowed(half), f"{lost} kB lost in {half} cycles: {free}"
    assert "rpcrdma" not in pair.client.read("/proc/modules")
    pair.load()


@pytest.mark.debug_kernel
def test_not_while_mounted(pair: Pair) -> None:
    """Rmmod refuses a module in use, and the mount still works."""
    pair.mount()
    refused = pair.client.run("rmmod rpcrdma")
    assert refused.status != 0
    assert b"in use" in refused.stderr
    pair.client.sh(f"echo still here > {MOUNT_POINT}/file && sync {MOUNT_POINT}/file")
    assert pair.server.read("/srv/export/file") == "still here\n"
    pair.umount()
    pair.unload()
    pair.load()
