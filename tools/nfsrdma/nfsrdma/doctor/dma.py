# SPDX-License-Identifier: GPL-2.0
"""Examines how data gets from devices to memory: IOMMU, bounce buffers, confidential guests."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..host import number
from ..table import size
from .kinds import Finding, finding
from .view import INFINIBAND, Fact, View

_SWIOTLB = "/sys/kernel/debug/swiotlb"
#: The bytes of a slab (IO_TLB_SIZE).
_SLAB = 1 << 11
#: Above this part, the bounce buffers were nearly used up.
_HIGH = 0.9

#: The ways that the files `type` of an IOMMU group name.
_WAYS = {
    "DMA-FQ": "the IOMMU translates for {device}, and invalidates in batches",
    "identity": "{device} reaches memory without translation",
}
#: As in `Memory Encryption Features active: AMD SEV SEV-ES SEV-SNP`, or `Intel TDX`. SME alone
#: encrypts the memory of a host.
_ENCRYPTED = re.compile(r"Memory Encryption Features active: (.*(?:SEV|TDX).*)")
#: As in `RSI: Using RSI version 1.0`, of a guest of Arm CCA.
_REALM = re.compile(r"RSI: Using RSI version")


def check(view: View) -> Iterator[Fact | Finding]:
    """Examines each device, and the host."""
    for device in dict.fromkeys(port.device for port in view.ports):
        yield from _check_iommu(view, device)
    kind = _confidential(view)
    if kind:
        yield finding("confidential", kind=kind)
    yield from _check_bounce_buffers(view)


def _check_iommu(view: View, device: str) -> Iterator[Fact | Finding]:
    """A device in software has no group."""
    way = (view.host.read(f"{INFINIBAND}/{device}/device/iommu_group/type") or "").strip()
    if way == "DMA":
        yield finding("iommu-strict", device=device)
    elif way in _WAYS:
        yield Fact(_WAYS[way].format(device=device))


def _confidential(view: View) -> str:
    """Returns the kind of a confidential guest; empty if this host is none that is known."""
    found = _ENCRYPTED.search(view.log.out)
    if found:
        return found[1].strip()
    return "Arm CCA" if _REALM.search(view.log.out) else ""


def _check_bounce_buffers(view: View) -> Iterator[Fact | Finding]:
    total, used, peak = (
        number(view.host.read(f"{_SWIOTLB}/{file}")) or 0
        for file in ("io_tlb_nslabs", "io_tlb_used", "io_tlb_used_hiwater")
    )
    most = max(used, peak)
    if total and most > total * _HIGH:
        values = {"used": size(most * _SLAB), "total": size(total * _SLAB)}
        yield finding("bounce-buffers-low", more=2 * total, **values)
    elif most:
        yield Fact(f"{size(most * _SLAB)} of {size(total * _SLAB)} of bounce buffers were in use")
