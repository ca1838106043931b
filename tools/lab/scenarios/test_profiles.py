# SPDX-License-Identifier: GPL-2.0
"""Mounts on devices with the limits of each adapter, on both sides, and on the smallest devices.

The device refuses, with a report, what exceeds the limits (tools/lab/provoke/lab_limits.c).
"""

from __future__ import annotations

import time

import pytest

from lab import connections, profiles
from lab.errors import GuestError
from lab.fixtures import Counters, Tunables
from lab.harness import Options
from lab.moods import Moods
from lab.pair import MOUNT_POINT, Pair
from lab.worker import Worker

pytestmark = [
    pytest.mark.full,
    pytest.mark.parametrize("pair", [Options(moody=True)], indirect=True),
    pytest.mark.server,
    pytest.mark.needs_ours,
    pytest.mark.needs_our_server,
    pytest.mark.rxe_only,
]
VERIFY = "python3 /lab/verify.py"
DROP_CACHES = "sync; echo 3 > /proc/sys/vm/drop_caches"
#: Profiles that run all suites: the shortest page list, the fewest entries, the shortest queues.
WHOLE = ("cxgb4-t4", "erdma", "irdma-x722")
#: Suites of guest/verify.py by NFS version.
SUITES = (("4.2", "direct"), ("4.2", "xattrs"), ("4.2", "names"), ("3", "sizes"))
#: Seconds within which the server recalls a delegation. The lease is 10 s.
PROMPT = 5.0


def _work(pair: Pair, version: str, suite: str, *, wire: int = 2) -> None:
    """Writes and reads on a mount, and compares every byte on both sides.

    `wire`: the version of RPC-over-RDMA that the connection must have.
    """
    pair.server.sh("rm -rf /srv/export/*", timeout=100)
    pair.mount(version)
    pair.client.sh(f"{VERIFY} write {suite} {MOUNT_POINT}/up && sync -f {MOUNT_POINT}", timeout=300)
    assert str(wire) in {line["version"] for line in connections.read(pair.client)}
    pair.server.sh(f"{VERIFY} check {suite} /srv/export/up", timeout=300)
    pair.client.sh(f"{DROP_CACHES}; {VERIFY} check {suite} {MOUNT_POINT}/up", timeout=300)
    pair.umount()


def _recall(pair: Pair, counters: Counters) -> None:
    """The server recalls a delegation over the connection, and the client returns it at once."""
    pair.server.sh("rm -rf /srv/export/*; mkdir /srv/export/d; echo file 0 > /srv/export/d/f0")
    pair.mount("4.2")
    # The server grants none in its grace period, and before it has tried its callback channel.
    granted = "grep -q 'type: deleg.*d/f0' /proc/fs/nfsd/clients/*/states"
    deadline = time.monotonic() + 100 * pair.patience
    while pair.server.run(granted).status:
        assert time.monotonic() < deadline, "no delegation"
        pair.client.sh(f"cat {MOUNT_POINT}/d/f0; sleep 0.5")
    took = float(pair.server.sh("python3 /lab/conflict.py /srv/export/d 1", timeout=100))
    print(f"the recall took {took:.1f} s")
    assert took < PROMPT
    assert counters.operations().get("DELEGRETURN", 0) == 1
    pair.umount()


def _recover(pair: Pair, devices: tuple[Moods, Moods]) -> None:
    """Under load nfsd restarts, and each side loses its device."""
    pair.mount("4.2")
    worker = Worker(pair)
    pair.restart_nfsd(1)
    worker.await_progress(20, 100)
    for device in devices:
        device.remove()
        device.add()
        worker.await_progress(20, 100)
    said = worker.finish(300)
    assert "errors=0" in said
    pair.umount()


def _check_refusals(devices: tuple[Moods, Moods]) -> None:
    for device in devices:
        assert device.get("refused") == 0
        assert device.get("posted") > 0


@pytest.mark.parametrize("name", profiles.load())
def test_data_and_recovery(
    pair: Pair, devices: tuple[Moods, Moods], counters: Counters, tunables: Tunables, name: str
) -> None:
    """Data is right in both versions, delegations are recalled, and a mount survives losses."""
    limits = {key: profiles.load()[name].values[key].value for key in profiles.LIMITS}
    for device in devices:
        device.become(**limits)
    for version, suite in SUITES if name in WHOLE else SUITES[:1]:
        _work(pair, version, suite)
    _recall(pair, counters)
    _recover(pair, devices)
    tunables.set(rdma_version=1)
    _work(pair, "3", "direct", wire=1)
    _check_refusals(devices)


#: The smallest limits that mount, each alone. No device has fewer RDMA Reads than one.
SMALLEST = {
    "max_fast_reg_page_list_len": 2,
    "max_send_sge": 1,
    "max_recv_sge": 1,
    "max_sge_rd": 1,
    "max_qp_wr": 48,
    "max_cqe": 73,
    "max_qp_rd_atom": 1,
    "max_qp_init_rd_atom": 1,
}
#: Limits that are too small for the client, and the reason in its log.
TOO_SMALL = {
    "max_fast_reg_page_list_len": (1, "its memory regions are too small, or lack this page size"),
    "max_qp_wr": (47, "its queues are too short"),
    "max_cqe": (72, "its queues are too short"),
}
#: Limits that are too small for the server, which needs shorter queues and no regions.
TOO_SMALL_TO_SERVE = {"max_qp_wr": 9, "max_cqe": 19}


@pytest.mark.parametrize("limit", SMALLEST)
def test_smallest(pair: Pair, devices: tuple[Moods, Moods], limit: str) -> None:
    """A mount works with each limit as low as it can be."""
    for device in devices:
        device.become(**{limit: SMALLEST[limit]})
    _work(pair, "3", "direct")
    _check_refusals(devices)


@pytest.mark.parametrize("limit", TOO_SMALL)
def test_too_small(pair: Pair, devices: tuple[Moods, Moods], limit: str) -> None:
    """A device that is too small is refused, and the log says why."""
    value, reason = TOO_SMALL[limit]
    devices[0].become(**{limit: value})
    before = len(pair.client.console())
    with pytest.raises(GuestError, match="Protocol error"):
        pair.mount("3")
    assert reason in pair.client.console()[before:]


@pytest.mark.parametrize("limit", TOO_SMALL_TO_SERVE)
def test_too_small_to_serve(pair: Pair, devices: tuple[Moods, Moods], limit: str) -> None:
    """A server with a device that is too small refuses the connection, and its log says why."""
    devices[1].become(**{limit: TOO_SMALL_TO_SERVE[limit]})
    before = len(pair.server.console())
    with pytest.raises(GuestError):
        pair.mount("3", options="retry=0,nolock")
    assert "its queues are too short" in pair.server.console()[before:]
