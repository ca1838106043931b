# SPDX-License-Identifier: GPL-2.0
"""Much data through a device behind the DMA API, compared byte for byte.

The lab checks after every scenario with `DMA` how the device reached the memory.
"""

from __future__ import annotations

import time

import pytest

from lab import accesses, settings, splat
from lab.fixtures import Cable, Tunables
from lab.harness import Options
from lab.pair import MOUNT_POINT, Pair

pytestmark = [pytest.mark.dma, pytest.mark.needs_dma]

#: Mebibytes of the file, and how often the client reads it. The faults that this must find showed
#: with files of 8 or 16 MiB (Documentation/lab-device.rst).
SIZE, TIMES = (64, 16) if settings.full() else (16, 4)
FILE = f"{MOUNT_POINT}/much"
LIMIT = 300
#: The report of a sync by `misbehave`.
SYNC = "lab_dma: the driver syncs 216 bytes"
#: The number of errors that DMA debugging has found.
ERRORS = "/sys/kernel/debug/dma-api/error_count"
#: Slots of 2048 bytes of a small pool of bounce buffers, and the copies that share it.
POOL, COPIES = 2048, 8
#: Request slots of a mount whose buffers leave no room in that pool for a call with 1 MiB.
MANY = 240


@pytest.mark.both_roles
def test_much_data(pair: Pair, cable: Cable) -> None:
    """A file that the client writes is on the server's disk, and each reading returns the same."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount("4.2")
    make = f"head -c {SIZE}M /dev/urandom > /tmp/much && sha256sum < /tmp/much"
    sent = pair.client.sh(make, timeout=LIMIT)
    with cable.unseen():
        copy = f"dd if=/tmp/much of={FILE} bs=1M oflag=direct status=none"
        pair.client.sh(copy, timeout=LIMIT)
        assert pair.server.sh("sha256sum < /srv/export/much", timeout=LIMIT) == sent
        read = f"dd if={FILE} bs=1M iflag=direct status=none | cmp - /tmp/much"
        pair.client.sh(f"for i in $(seq {TIMES}); do {read} || exit 1; done", timeout=LIMIT)
    pair.umount()
    pair.client.sh("rm /tmp/much")


@pytest.mark.full
@pytest.mark.both_roles
@pytest.mark.needs_bounce_buffers
@pytest.mark.parametrize("pair", [Options(cmdline=f"swiotlb={POOL}")], indirect=True)
def test_small_pool(pair: Pair, tunables: Tunables, cable: Cable) -> None:
    """More calls than there are bounce buffers for: they wait on the client, and none is lost.

    The server has room for as many calls as the client sends.
    """
    tunables.set(rdma_slot_table_entries=COPIES * 2)
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount("4.2")
    for guest in (pair.client, pair.server):
        print(guest.name, guest.read("/sys/kernel/debug/swiotlb/io_tlb_used").strip(), "slots")
    sent = pair.client.sh("head -c 8M /dev/urandom > /tmp/much && sha256sum < /tmp/much")
    every = f"seq {COPIES} | xargs -P {COPIES} -I N sh -c"
    with cable.unseen():
        copy = f"dd if=/tmp/much of={FILE}-N bs=1M oflag=direct status=none"
        pair.client.sh(f"{every} '{copy}'", timeout=LIMIT)
        sums = f"for n in $(seq {COPIES}); do sha256sum < /srv/export/much-$n; done"
        assert pair.server.sh(sums, timeout=LIMIT) == sent * COPIES
        read = f"dd if={FILE}-N bs=1M iflag=direct status=none | cmp - /tmp/much"
        pair.client.sh(f"{every} '{read}'", timeout=LIMIT)
    refusals = pair.client.console().count("swiotlb buffer is full")
    print(refusals, "reports of the DMA layer")
    assert refusals
    pair.umount()
    pair.client.sh("rm /tmp/much")


@pytest.mark.full
@pytest.mark.both_roles
@pytest.mark.needs_ours
@pytest.mark.needs_bounce_buffers
@pytest.mark.parametrize("pair", [Options(cmdline=f"swiotlb={POOL}")], indirect=True)
def test_full_pool(pair: Pair, tunables: Tunables) -> None:
    """A call for which the pool never has room fails after a minute, and the log says so."""
    tunables.set(rdma_slot_table_entries=MANY)
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount("4.2")
    print(pair.client.read("/sys/kernel/debug/swiotlb/io_tlb_used").strip(), "slots are in use")
    began = time.monotonic()
    writing = f"dd if=/dev/zero of={FILE} bs=1M count=1 oflag=direct"
    done = pair.client.run(writing, timeout=LIMIT)
    took = time.monotonic() - began
    print(f"dd ended after {took:.0f} s")
    assert b"Input/output error" in done.stderr, done.stderr.decode()
    assert 55 < took < 100
    assert "no bounce buffers or memory for 60 s: raise swiotlb=" in pair.client.console()
    pair.client.sh(f"echo short > {FILE} && sync -f {FILE}")
    assert pair.server.read("/srv/export/much") == "short\n"
    pair.umount()


@pytest.mark.both_roles
@pytest.mark.needs_iommu
def test_address_in_use_again(pair: Pair) -> None:
    """DMA debugging reports a sync of mapped memory whose address has just been given back.

    It is no report for the lab, which goes on with the pair.
    """
    for guest in (pair.client, pair.server):
        errors, before = int(guest.read(ERRORS)), len(guest.console())
        order = f"echo 1 > {accesses.FOLDER}/overlap"
        # Other work of the guest may take the address.
        guest.sh(f"for turn in 1 2 3 4 5; do {order} && exit; done; exit 1")
        assert int(guest.read(ERRORS)) == errors + 1
        assert accesses.read(guest)["reports"] == 0
        text = guest.console()[before:]
        (report,) = splat.find(text)
        assert "tries to sync DMA memory it has not allocated" in report
        assert "[size=216 bytes]" in report
        assert splat.find(text, lab_dma=True) == []


@pytest.mark.both_roles
@pytest.mark.provokes
def test_reports(pair: Pair) -> None:
    """Accesses and syncs against the direction and after unmapping are reports.

    The pair ends clean.
    """
    for guest in (pair.client, pair.server):
        guest.sh(f"echo 1 > {accesses.FOLDER}/misbehave")
        found = accesses.read(guest)
        assert found["reports"] == 4
        page = guest.sh("getconf PAGESIZE").strip()
        for verb in ("writes", "reads"):
            assert f"lab_dma: the device {verb} {page} bytes" in guest.console()
        reports = splat.find(guest.console(), lab_dma=settings.dma() == "iommu")
        assert len([text for text in reports if SYNC in text]) == 2
    # The lab ends a pair with reports as it is.
    assert accesses.take_down(pair) == []
