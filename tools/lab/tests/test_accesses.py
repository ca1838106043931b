# SPDX-License-Identifier: GPL-2.0
"""Which counters of the device behind the DMA API fail a scenario."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab import accesses
from lab.errors import GuestError

IDLE = {"accesses": 5, "mapped": 10, "bounced": 0, "translated": 0, "reports": 0, "live": 10}
IDLE |= {"syncs": 7, "num_errors": 100}
IOMMU, SWIOTLB = IDLE | {"translated": 10}, IDLE | {"bounced": 10}
#: The same devices after work.
AFTER = IOMMU | {"accesses": 9, "translated": 12, "syncs": 8}
BOUNCED = SWIOTLB | {"accesses": 9, "bounced": 12, "syncs": 8}


def test_files_of_the_module() -> None:
    text = "/sys/kernel/debug/lab_dma/accesses:5\n/sys/kernel/debug/lab_dma/reports:0\n"
    text += "../dma-api/num_errors:100\n"
    assert accesses.counts(text) == {"accesses": 5, "reports": 0, "num_errors": 100}


@pytest.mark.parametrize(
    ("dma", "before", "after", "fault"),
    [
        ("iommu", IOMMU, AFTER | {"accesses": 5}, "the device has accessed nothing"),
        ("iommu", IOMMU, AFTER | {"syncs": 7}, "no memory was synced"),
        ("swiotlb", SWIOTLB, BOUNCED | {"syncs": 7}, "no memory was synced"),
        ("iommu", IOMMU, AFTER | {"reports": 2}, "2 accesses or syncs without a mapping"),
        ("iommu", IOMMU, AFTER | {"num_errors": 0}, accesses.MUTE),
        ("iommu", IOMMU, AFTER | {"bounced": 3}, "bounced: 0, then 3"),
        ("iommu", IDLE, AFTER | {"translated": 0}, "translated: 0, then 0"),
        ("iommu", IOMMU, AFTER | {"translated": 10}, "translated: 10, then 10"),
        ("swiotlb", SWIOTLB, BOUNCED | {"translated": 1}, "translated: 0, then 1"),
        ("swiotlb", SWIOTLB, BOUNCED | {"bounced": 10}, "bounced: 10, then 10"),
    ],
)
def test_a_device_that_does_not_work_as_the_mode_says(
    dma: str, before: dict[str, int], after: dict[str, int], fault: str
) -> None:
    assert accesses.faults(dma, before, after, busy=True) == [fault]


def test_a_device_that_works() -> None:
    assert accesses.faults("iommu", IOMMU, AFTER, busy=True) == []
    assert accesses.faults("swiotlb", SWIOTLB, BOUNCED, busy=True) == []
    # The lab passes over no report there.
    assert accesses.faults("swiotlb", SWIOTLB, BOUNCED | {"num_errors": 0}, busy=True) == []
    assert accesses.faults("iommu", IOMMU, IOMMU, busy=False) == []
    # Without the IOMMU's translation no scenario passes, with work or not.
    assert accesses.faults("iommu", IDLE, IDLE, busy=False) == ["translated: 0, then 0"]


def test_the_sum_is_over_all_pairs(tmp_path: Path) -> None:
    for name, text in (("gw0", "3\n4\n"), ("gw1", "5\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "accesses").write_text(text)
    assert accesses.total(tmp_path) == 12
    assert accesses.total(tmp_path / "gw1") == 5


class Pair:
    """A pair whose client's device has mappings when its modules are unloaded."""

    def __init__(self, live: int, dma: str = "iommu", errors: int = 100) -> None:
        """`live`: the number of the mappings; the server has none. `errors`: those to print."""
        self._errors = errors
        self.alive, self.setup = True, SimpleNamespace(dma=dma, link="rxe")
        self.commands: list[str] = []
        self.client, self.server = self._guest("client", live), self._guest("server", 0)
        self.unload = self.unload_server = self._unload

    def _unload(self, patience: float, *, module: str = "rpcrdma") -> None:
        assert patience
        self.commands.append(f"unload {module}")

    def _guest(self, name: str, live: int) -> Any:
        def sh(command: str, *, timeout: float = 60) -> str:
            assert timeout
            self.commands.append(command)
            counters = f"./live:{live}\n../dma-api/num_errors:{self._errors}\n"
            return counters if "grep" in command else ""

        return SimpleNamespace(name=name, sh=sh, run=lambda _: SimpleNamespace(status=0))

    def stop_nfsd(self) -> None:
        """Ends the threads of nfsd."""
        self.commands.append("nfsd")


def test_mappings_that_are_left_fail_the_run() -> None:
    assert accesses.take_down(Pair(0)) == []
    fault = "client: 3 mappings are left without the device"
    assert accesses.take_down(Pair(3)) == [fault]


def test_modules_are_unloaded_before_the_device() -> None:
    pair = Pair(0)
    accesses.take_down(pair)
    nfsd, unload, delete, rmmod = pair.commands[:4]
    assert (nfsd, unload, rmmod) == ("nfsd", "unload rpcrdma", "unload rxe_dma")
    # Its queue pairs may refer to the module.
    assert "rdma link delete" in delete
    assert pair.commands.count("rmmod lab_dma") == 2


def test_a_guest_that_prints_no_further_error_is_named() -> None:
    assert accesses.muted(Pair(0)) == []
    assert accesses.muted(Pair(0, dma="swiotlb", errors=0)) == []
    guests = accesses.muted(Pair(0, errors=0))
    assert guests == [f"server: {accesses.MUTE}", f"client: {accesses.MUTE}"]


def test_a_pair_that_cannot_be_unloaded_fails_the_run() -> None:
    pair = Pair(0)

    def refuse(patience: float) -> None:
        raise GuestError(f"in use after {patience} s")

    pair.unload = refuse
    (fault,) = accesses.take_down(pair)
    assert fault == "the device was not unloaded: in use after 30 s"


def test_a_pair_without_the_device_stays_as_it_is() -> None:
    pair = Pair(0, dma="none")
    assert accesses.take_down(pair) == []
    assert not pair.commands
