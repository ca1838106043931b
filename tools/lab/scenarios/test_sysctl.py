# SPDX-License-Identifier: GPL-2.0
"""The tunables in /proc/sys/sunrpc: names, ranges and effects."""

from __future__ import annotations

import re

import pytest

from lab import tracing
from lab.fixtures import TUNABLES, Tunables
from lab.pair import MOUNT_POINT, Pair

#: Default, least and greatest value of each tunable, as the stock module has them.
RANGES = {
    "rdma_slot_table_entries": (128, 4, 16384),
    "rdma_max_inline_read": (4096, 1024, 65536),
    "rdma_max_inline_write": (4096, 1024, 65536),
    "rdma_inline_write_padding": (0, 0, 4096),
    "rdma_memreg_strategy": (5, 0, 6),
    "rdma_pad_optimize": (0, -2147483648, 2147483647),
}
#: Tunables that the stock module does not have, nor ours without RFC 5666.
ADDED = {"rdma_conf": (0, 0, 1), "rdma_read_chunks": (0, 0, 1)}
OURS = [pytest.mark.needs_ours, pytest.mark.needs_legacy]
#: Tunables that the stock module does not have.
ALWAYS = {"rdma_traffic_class": (-1, -1, 255), "rdma_inline_auto": (1, 0, 1)}
NAMES = [
    *RANGES,
    *(pytest.param(name, marks=OURS) for name in ADDED),
    *(pytest.param(name, marks=pytest.mark.needs_ours) for name in ALWAYS),
]


@pytest.mark.parametrize("name", NAMES)
def test_range(tunables: Tunables, name: str) -> None:
    """A tunable takes both ends of its range; beyond them it keeps its value and gives EINVAL."""
    default, least, greatest = {**RANGES, **ADDED, **ALWAYS}[name]
    assert tunables.get(name) == default
    outside = (least - 1, greatest + 1, min(least - 1, -(2**31)))
    for value in (least, greatest):
        said = tunables.verdicts(name, (value, *outside))
        assert said == [(True, value), *[(False, value)] * len(outside)]
    assert tunables.get(name) == default


@pytest.mark.needs_ours
@pytest.mark.any_link
def test_version(pair: Pair, tunables: Tunables) -> None:
    """rdma_version takes three words, and nothing else; `auto` is the default."""
    path = f"{TUNABLES}/rdma_version"
    assert pair.client.read(path) == "auto\n"
    for value in ("1", "2", "auto"):
        tunables.set(rdma_version=value)
        assert pair.client.read(path) == f"{value}\n"
        for other in ("0", "3", "12", "two", "AUTO", "''"):
            assert not tunables.accepts("rdma_version", other), other
            assert pair.client.read(path) == f"{value}\n"


@pytest.mark.needs_ours
@pytest.mark.any_link
def test_local_addrs(pair: Pair, tunables: Tunables) -> None:
    """rdma_local_addrs takes up to eight addresses of both families, and nothing else."""
    path = f"{TUNABLES}/rdma_local_addrs"
    assert pair.client.read(path) == "\n"
    eight = ",".join(f"fd00::{number}" for number in range(1, 9))
    two = "10.0.0.2,10.0.0.102"
    for value in ("10.0.0.2,fd00::2", eight, "", two):
        tunables.set(rdma_local_addrs=value)
        assert pair.client.read(path) == f"{value}\n"
    for other in ("eth0", "10.0.0.256", "10.0.0.2/24", "0.0.0.0", "::", f"{eight},fd00::9"):
        assert not tunables.accepts("rdma_local_addrs", other), other
        assert pair.client.read(path) == f"{two}\n"


def test_gone_with_the_module(pair: Pair) -> None:
    """The tunables exist only while the module is loaded."""
    names = f"ls {TUNABLES} | grep -c ^rdma_ || true"
    before = pair.client.sh(names)
    pair.unload()
    assert pair.client.sh(names).strip() == "0"
    pair.load()
    assert pair.client.sh(names) == before


def _thresholds(pair: Pair) -> tuple[int, int]:
    """Mounts and returns the thresholds (send, receive) of the first connection."""
    with tracing.recording(pair.client, ["rpcrdma:xprtrdma_inline_thresh"]) as trace:
        pair.mount()
        first = trace.events()[0].text
    found = re.search(r"neg send/recv=(\d+)/(\d+)", first)
    assert found, first
    pair.umount()
    return int(found[1]), int(found[2])


def test_thresholds_of_a_connection(pair: Pair, tunables: Tunables) -> None:
    """A new connection negotiates the thresholds that are set; the server has 4096 both ways."""
    tunables.set(rdma_max_inline_write=2048, rdma_max_inline_read=1024)
    assert _thresholds(pair) == (2048, 1024)
    tunables.set_thresholds(65536)
    assert _thresholds(pair) == (4096, 4096)


@pytest.mark.full
@pytest.mark.parametrize("slots", [4, 300])
def test_slots(pair: Pair, tunables: Tunables, slots: int) -> None:
    """A new transport has the number of slots that is set when it is made, and works with them."""
    tunables.set(rdma_slot_table_entries=slots)
    pair.mount("3")
    # A transport keeps its slots when the tunable changes.
    tunables.set(rdma_slot_table_entries=128)
    info = pair.client.sh("cat /sys/kernel/sunrpc/xprt-switches/switch-*/xprt-*-rdma/xprt_info")
    assert f"max_num_slots={slots}" in info, info
    command = f"python3 /lab/verify.py write names {MOUNT_POINT}/slots-{slots}"
    pair.client.sh(command, timeout=120)
    pair.server.sh(f"python3 /lab/verify.py check names /srv/export/slots-{slots}", timeout=120)
    pair.client.sh(f"rm -r {MOUNT_POINT}/slots-{slots}", timeout=60)
    pair.umount()
