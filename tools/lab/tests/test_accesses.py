# SPDX-License-Identifier: GPL-2.0
"""Which counters of the device behind the DMA API fail a scenario."""

from pathlib import Path

import pytest

from lab import accesses

IDLE = {"accesses": 5, "mapped": 10, "bounced": 0, "reports": 0, "live": 10}
BUSY = IDLE | {"accesses": 9}


def test_files_of_the_module() -> None:
    text = "/sys/kernel/debug/lab_dma/accesses:5\n/sys/kernel/debug/lab_dma/reports:0\n"
    assert accesses.counts(text) == {"accesses": 5, "reports": 0}


@pytest.mark.parametrize(
    ("dma", "after", "fault"),
    [
        ("iommu", IDLE, "the device has accessed nothing"),
        ("iommu", BUSY | {"reports": 2}, "2 accesses without a mapping"),
        ("iommu", BUSY | {"bounced": 3}, "3 mappings have a bounce buffer"),
        ("swiotlb", BUSY, "0 mappings have a bounce buffer"),
    ],
)
def test_a_device_that_does_not_work_as_the_mode_says(
    dma: str, after: dict[str, int], fault: str
) -> None:
    assert accesses.faults(dma, IDLE, after, busy=True) == [fault]


def test_a_device_that_works() -> None:
    assert accesses.faults("iommu", IDLE, BUSY, busy=True) == []
    assert accesses.faults("swiotlb", IDLE, BUSY | {"bounced": 1}, busy=True) == []
    assert accesses.faults("iommu", IDLE, IDLE, busy=False) == []


def test_the_sum_is_over_all_pairs(tmp_path: Path) -> None:
    for name, text in (("gw0", "3\n4\n"), ("gw1", "5\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "accesses").write_text(text)
    assert accesses.total(tmp_path) == 12
    assert accesses.total(tmp_path / "gw1") == 5
