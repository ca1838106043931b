# SPDX-License-Identifier: GPL-2.0
"""The traffic class of the packets of client and server, as the cable has it."""

from __future__ import annotations

import pytest

from lab import capture
from lab.fixtures import Cable, Tunables
from lab.pair import MOUNT_POINT, Pair

#: The addresses of client and server.
ADDRESSES = {"rdma": ("10.0.0.2", "10.0.0.1"), "rdma6": ("fd00::2", "fd00::1")}
#: Settings of client and server, -1 for none; classes of the packets of client and server.
CASES = [
    (-1, -1, 0, 0),
    # A connection request names one class for both directions.
    (0x68, -1, 0x68, 0x68),
    (-1, 0x28, 0, 0x28),
    (0x68, 0xB8, 0x68, 0xB8),
    (0x68, 0, 0x68, 0),
]
#: A WRITE and a READ of data that do not fit inline.
WORK = (
    f"dd if=/dev/zero of={MOUNT_POINT}/classed bs=64k count=2 oflag=direct"
    f" && dd if={MOUNT_POINT}/classed of=/dev/null bs=64k count=2 iflag=direct"
)


# siw leaves the byte to TCP's defaults.
@pytest.mark.rxe_only
@pytest.mark.needs_ours
@pytest.mark.needs_our_server
@pytest.mark.server
@pytest.mark.server_long
@pytest.mark.parametrize("proto", ["rdma", pytest.param("rdma6", marks=pytest.mark.full)])
def test_packets(
    pair: Pair, tunables: Tunables, server_tunables: Tunables, cable: Cable, proto: str
) -> None:
    """Each side's packets have the class of its setting; a server without one has the client's."""
    client, server = ADDRESSES[proto]
    pair.server.sh("rm -rf /srv/export/*")
    for ours, theirs, *expected in CASES:
        tunables.set(rdma_traffic_class=ours)
        server_tunables.set(**{"svc_rdma/traffic_class": theirs})
        with cable.recording() as pcap:
            pair.mount("4.2", proto=proto)
            pair.client.sh(WORK, timeout=120)
            pair.umount()
        seen = capture.traffic_classes(pcap)
        print(f"client {ours}, server {theirs}: {seen}")
        assert [seen[client], seen[server]] == [{value} for value in expected]


@pytest.mark.rxe_only
@pytest.mark.needs_ours
@pytest.mark.full
def test_connection_in_use(pair: Pair, tunables: Tunables, cable: Cable) -> None:
    """A connection keeps its class; the next connection of the same mount has the new one."""
    client, _ = ADDRESSES["rdma"]
    kind = pair.setup.link
    pair.mount("4.2")
    tunables.set(rdma_traffic_class=0x68)
    with cable.recording() as pcap:
        pair.client.sh(WORK, timeout=120)
    assert capture.traffic_classes(pcap)[client] == {0}
    pair.client.sh(f"rdma link del {kind}0; rdma link add {kind}0 type {kind} netdev eth0")
    pair.client.sh(WORK, timeout=120)
    with cable.recording() as pcap:
        pair.client.sh(WORK, timeout=120)
    assert capture.traffic_classes(pcap)[client] == {0x68}
    pair.umount()
