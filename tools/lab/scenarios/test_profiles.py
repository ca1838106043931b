# SPDX-License-Identifier: GPL-2.0
"""Mounts on devices with the limits of each adapter, on both sides, and on the smallest devices.

The device refuses, with a report, what exceeds the limits (tools/lab/provoke/lab_limits.c).
"""

from __future__ import annotations

import pytest

from lab import profiles
from lab.errors import GuestError
from lab.harness import Options
from lab.moods import Moods
from lab.pair import MOUNT_POINT, Pair
from lab.worker import Worker

pytestmark = [
    pytest.mark.parametrize("pair", [Options(moody=True)], indirect=True),
    pytest.mark.server,
    pytest.mark.needs_ours,
    pytest.mark.needs_our_server,
    pytest.mark.rxe_only,
]
VERIFY = "python3 /lab/verify.py"
DROP_CACHES = "sync; echo 3 > /proc/sys/vm/drop_caches"
#: Profiles that run all suites: the shortest page list, the fewest entries, the shortest queues.
#: The first of them is in the short form.
WHOLE = ("cxgb4-t4", "erdma", "irdma-x722")
#: Suites of guest/verify.py by NFS version.
SUITES = (("4.2", "direct"), ("4.2", "xattrs"), ("4.2", "names"), ("3", "sizes"))


def _work(pair: Pair, version: str, suite: str) -> None:
    """Writes and reads on a mount, and compares every byte on both sides."""
    pair.server.sh("rm -rf /srv/export/*", timeout=100)
    pair.mount(version)
    pair.client.sh(f"{VERIFY} write {suite} {MOUNT_POINT}/up && sync -f {MOUNT_POINT}", timeout=300)
    pair.server.sh(f"{VERIFY} check {suite} /srv/export/up", timeout=300)
    pair.client.sh(f"{DROP_CACHES}; {VERIFY} check {suite} {MOUNT_POINT}/up", timeout=300)
    pair.umount()


def _check_refusals(devices: tuple[Moods, Moods]) -> None:
    for device in devices:
        assert device.get("refused") == 0
        assert device.get("posted") > 0


def _names() -> list[object]:
    return [
        pytest.param(name, marks=[] if name == WHOLE[0] else pytest.mark.full)
        for name in profiles.load()
    ]


@pytest.mark.parametrize("name", _names())
def test_data_and_recovery(pair: Pair, devices: tuple[Moods, Moods], name: str) -> None:
    """Data is right, and a mount survives the loss of the server and of the device."""
    limits = {key: profiles.load()[name].values[key].value for key in profiles.LIMITS}
    for device in devices:
        device.become(**limits)
    for version, suite in SUITES if name in WHOLE else SUITES[:1]:
        _work(pair, version, suite)
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
    _check_refusals(devices)


#: The smallest limits that mount, each alone.
SMALLEST = {
    "max_fast_reg_page_list_len": 2,
    "max_send_sge": 1,
    "max_recv_sge": 1,
    "max_sge_rd": 1,
    "max_qp_wr": 48,
}
#: Limits that are too small for the client, and the reason in its log.
TOO_SMALL = {
    "max_fast_reg_page_list_len": (1, "its memory regions are too small"),
}


@pytest.mark.full
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
