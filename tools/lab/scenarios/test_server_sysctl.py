# SPDX-License-Identifier: GPL-2.0
"""The server's settings and counters in /proc/sys/sunrpc/svc_rdma.

They exist with the module, so the client's guest also has them, and its module is under test.
"""

from __future__ import annotations

import pytest

from lab import settings
from lab.fixtures import TUNABLES, Tunables
from lab.pair import MOUNT_POINT, Pair

FOLDER = f"{TUNABLES}/svc_rdma"
#: Default, least and greatest value of each setting, as the stock module has them.
RANGES = {
    "max_requests": (128, 4, 16384),
    "max_req_size": (4096, 4096, 65536),
    "max_outbound_read_requests": (16, 1, 255),
    "rdma_stat_rq_starve": (0, 0, 0),
    "rdma_stat_rq_poll": (0, 0, 0),
    "rdma_stat_rq_prod": (0, 0, 0),
    "rdma_stat_sq_poll": (0, 0, 0),
    "rdma_stat_sq_prod": (0, 0, 0),
}
#: Settings and counters that the stock module does not have.
ADDED = {"max_version": (2, 1, 2), "conf_align": (4, 4, 65536), "read_chunks": (0, 0, 1)}
ADDED |= {"traffic_class": (-1, -1, 255), "inline_auto": (1, 0, 1)}
ADDED_COUNTERS = ("rdma_stat_padded", "rdma_stat_done", "rdma_stat_conf", "rdma_stat_exposed")
MEMORY = ("rdma_stat_unmapped", "rdma_stat_limited", "rdma_stat_waited")
#: Those of them that ours has without RFC 5666.
ALWAYS = ("max_version", "traffic_class", "inline_auto")
COUNTERS = ("rdma_stat_read", "rdma_stat_recv", "rdma_stat_write", "rdma_stat_sq_starve")


def _marks(name: str) -> list[pytest.MarkDecorator]:
    """Returns the marks of a setting that the stock module does not have."""
    old = [] if name in ALWAYS else [pytest.mark.needs_legacy]
    return [pytest.mark.needs_ours, *old]


@pytest.mark.any_link
def test_names(pair: Pair) -> None:
    """Both modules have the same files with the same modes; ours has more."""
    command = f"cd {FOLDER} && stat -c '%n %a %U' *"
    of_both = []
    for guest, whose in ((pair.client, settings.client()), (pair.server, settings.server())):
        files = dict(line.split(" ", 1) for line in guest.sh(command).splitlines())
        added = (*ADDED, *ADDED_COUNTERS) if settings.legacy() else ALWAYS
        added = (*added, *MEMORY)
        modes = {name: files.pop(name) for name in added if whose == "ours"}
        assert all(mode == files["max_requests"] for mode in modes.values())
        of_both.append(files)
    assert of_both[0] == of_both[1]
    assert set(of_both[0]) == {*RANGES, *COUNTERS}


@pytest.mark.any_link
@pytest.mark.parametrize(
    "name", [*RANGES, *(pytest.param(name, marks=_marks(name)) for name in ADDED)]
)
def test_range(tunables: Tunables, name: str) -> None:
    """A setting takes both ends of its range; beyond them it keeps its value and gives EINVAL."""
    default, least, greatest = {**RANGES, **ADDED}[name]
    setting = f"svc_rdma/{name}"
    assert tunables.get(setting) == default
    outside = (least - 1, greatest + 1, -(2**31))
    for value in (least, greatest):
        said = tunables.verdicts(setting, (value, *outside))
        assert said == [(True, value), *[(False, value)] * len(outside)]
    assert tunables.get(setting) == default


@pytest.mark.any_link
@pytest.mark.parametrize("name", COUNTERS)
def test_counter_is_reset(pair: Pair, name: str) -> None:
    """A write of anything sets a counter to zero, and a read byte by byte returns all of it."""
    path = f"{FOLDER}/{name}"
    pair.client.sh(f"echo anything > {path}")
    assert pair.client.read(path) == "0\n"
    assert pair.client.sh(f"dd if={path} bs=1 2>/dev/null; echo end") == "0\nend\n"


@pytest.mark.both_roles
def test_counters_count(pair: Pair) -> None:
    """The server counts messages and the segments that it reads and writes."""
    pair.server.sh(f"for name in {' '.join(COUNTERS)}; do echo 0 > {FOLDER}/$name; done")
    pair.mount()
    big = f"dd if=/dev/zero of={MOUNT_POINT}/counted bs=64k count=1 oflag=direct"
    back = f"dd if={MOUNT_POINT}/counted of=/dev/null bs=64k count=1 iflag=direct"
    pair.client.sh(f"{big} && {back}", timeout=120)
    counted = {name: int(pair.server.read(f"{FOLDER}/{name}")) for name in COUNTERS}
    pair.umount()
    assert counted["rdma_stat_recv"] >= 3, counted
    assert counted["rdma_stat_read"] >= 1, counted
    assert counted["rdma_stat_write"] >= 1, counted
