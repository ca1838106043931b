# SPDX-License-Identifier: GPL-2.0
"""The tunables in /proc/sys/sunrpc: names, ranges, and what they change."""

from __future__ import annotations

import re

import pytest

from lab.pair import MOUNT_POINT, Pair

KNOBS = "/proc/sys/sunrpc"
TRACING = "/sys/kernel/tracing"
#: Name: default, least and greatest value. As the stock module has them.
RANGES = {
    "rdma_slot_table_entries": (128, 4, 16384),
    "rdma_max_inline_read": (4096, 1024, 65536),
    "rdma_max_inline_write": (4096, 1024, 65536),
    "rdma_inline_write_padding": (0, 0, 4096),
    "rdma_memreg_strategy": (5, 0, 6),
}


def _set(pair: Pair, name: str, value: int) -> bool:
    """Try to set a tunable; whether that was accepted."""
    done = pair.client.run(f"echo {value} > {KNOBS}/{name}")
    assert done.status == 0 or b"Invalid argument" in done.stderr, done.stderr.decode()
    return done.status == 0


def _get(pair: Pair, name: str) -> int:
    return int(pair.client.read(f"{KNOBS}/{name}"))


@pytest.mark.parametrize("name", RANGES)
def test_range(pair: Pair, name: str) -> None:
    """Both ends of the range are taken; beyond them is EINVAL, and the value stays."""
    default, least, greatest = RANGES[name]
    assert _get(pair, name) == default
    try:
        for value in (least, greatest):
            assert _set(pair, name, value)
            assert _get(pair, name) == value
            for outside in (least - 1, greatest + 1, -(2**31)):
                assert not _set(pair, name, outside)
                assert _get(pair, name) == value
    finally:
        assert _set(pair, name, default)


def test_pad_optimize(pair: Pair) -> None:
    """It has no range, and no effect."""
    for value in (1, -1, 0):
        assert _set(pair, "rdma_pad_optimize", value)
        assert _get(pair, "rdma_pad_optimize") == value


def test_gone_with_the_module(pair: Pair) -> None:
    """No file is left when the module is gone, and they come back with it."""
    names = f"ls {KNOBS} | grep -c ^rdma_ || true"
    before = pair.client.sh(names)
    pair.unload()
    assert pair.client.sh(names).strip() == "0"
    pair.load()
    assert pair.client.sh(names) == before


def _thresholds(pair: Pair) -> tuple[int, int]:
    """The thresholds (send, receive) of a new mount's first connection."""
    event = f"{TRACING}/events/rpcrdma/xprtrdma_inline_thresh/enable"
    pair.client.sh(f"echo > {TRACING}/trace; echo 1 > {event}")
    pair.mount()
    pair.client.sh(f"echo 0 > {event}")
    text = pair.client.read(f"{TRACING}/trace")
    found = re.search(r"xprtrdma_inline_thresh: .*neg send/recv=(\d+)/(\d+)", text)
    assert found, text
    pair.umount()
    return int(found[1]), int(found[2])


def test_thresholds_of_a_connection(pair: Pair) -> None:
    """A new connection negotiates what is set then; the server itself has 4096 both ways."""
    try:
        assert _set(pair, "rdma_max_inline_write", 2048)
        assert _set(pair, "rdma_max_inline_read", 1024)
        assert _thresholds(pair) == (2048, 1024)
        assert _set(pair, "rdma_max_inline_write", 65536)
        assert _set(pair, "rdma_max_inline_read", 65536)
        assert _thresholds(pair) == (4096, 4096)
    finally:
        for name in ("rdma_max_inline_write", "rdma_max_inline_read"):
            assert _set(pair, name, 4096)


@pytest.mark.parametrize("slots", [4, pytest.param(300, marks=pytest.mark.full)])
def test_slots(pair: Pair, slots: int) -> None:
    """A new transport has as many slots as are set then, and works with them."""
    try:
        assert _set(pair, "rdma_slot_table_entries", slots)
        pair.mount("3")
        # While the transport exists the tunable may change: it keeps its own.
        assert _set(pair, "rdma_slot_table_entries", 128)
        info = pair.client.sh("cat /sys/kernel/sunrpc/xprt-switches/switch-*/xprt-*-rdma/xprt_info")
        assert f"max_num_slots={slots}" in info, info
        command = f"python3 /lab/verify.py write names {MOUNT_POINT}/slots-{slots}"
        pair.client.sh(command, timeout=120)
        pair.server.sh(f"python3 /lab/verify.py check names /srv/export/slots-{slots}", timeout=120)
        pair.client.sh(f"rm -r {MOUNT_POINT}/slots-{slots}", timeout=60)
        pair.umount()
    finally:
        assert _set(pair, "rdma_slot_table_entries", 128)
