# SPDX-License-Identifier: GPL-2.0
"""Much data through a device behind the DMA API, compared byte for byte.

The lab checks after every scenario with `DMA` how the device reached the memory.
"""

from __future__ import annotations

import pytest

from lab import accesses
from lab.fixtures import Cable
from lab.pair import MOUNT_POINT, Pair

pytestmark = [pytest.mark.dma, pytest.mark.needs_dma]

#: Mebibytes of the file, and how often the client reads it.
SIZE, TIMES = 64, 16
FILE = f"{MOUNT_POINT}/much"
LIMIT = 300


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


@pytest.mark.both_roles
@pytest.mark.provokes
def test_reports(pair: Pair) -> None:
    """Accesses against the direction and after unmapping are reports, and the pair ends clean."""
    for guest in (pair.client, pair.server):
        guest.sh(f"echo 1 > {accesses.FOLDER}/misbehave")
        found = accesses.read(guest)
        assert found["reports"] == 2
        for report in ("writes 4096 bytes", "reads 4096 bytes"):
            assert f"lab_dma: the device {report}" in guest.console()
    # The lab ends a pair with reports as it is.
    assert accesses.take_down(pair) == []
