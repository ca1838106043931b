# SPDX-License-Identifier: GPL-2.0
"""The parameters of the client's connection request, in the connection manager's own packets."""

from __future__ import annotations

import pytest

from lab import capture, settings, versions
from lab.fixtures import Cable, Tunables
from lab.pair import Pair

USUAL = {"rdma_max_inline_write": 4096, "rdma_max_inline_read": 4096}
OTHER = {"rdma_max_inline_write": 2048, "rdma_max_inline_read": 8192}


@pytest.mark.full
# The check reads RoCE captures.
@pytest.mark.rxe_only
@pytest.mark.parametrize(
    ("thresholds", "coded"), [(USUAL, "0303"), (OTHER, "0107")], ids=["usual", "other"]
)
def test_parameters(
    pair: Pair, tunables: Tunables, cable: Cable, thresholds: dict[str, int], coded: str
) -> None:
    """The request has the right RDMA Reads, retries and RFC 8797 private data."""
    assert {name: tunables.get(name) for name in USUAL} == USUAL
    tunables.set(**thresholds)
    with cable.recording() as pcap:
        pair.mount()
        pair.umount()
    (request,) = capture.requests(pcap)
    assert request.port == 20049
    assert request.initiator_depth == 0
    assert request.responder_resources > 0
    assert (request.retries, request.rnr_retries) == (6, 0)
    # The magic number, version 1, the flag for remote invalidation; then the send size and the
    # receive size, coded as KiB less one.
    private = bytes.fromhex(f"f6ab0e180101{coded}")
    # Ours adds the versions that it knows.
    private += versions.BOTH if settings.client() == "ours" else b""
    assert request.private_data == private.ljust(len(request.private_data), b"\0")
