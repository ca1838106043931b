# SPDX-License-Identifier: GPL-2.0
"""What the client asks for when it connects, in the connection manager's own packets."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import capture, settings
from lab.pair import Pair

KNOBS = {"rdma_max_inline_write": 2048, "rdma_max_inline_read": 8192}


@pytest.mark.full
@pytest.mark.skipif(settings.link() != "rxe", reason="reads RoCE captures")
def test_parameters(pair: Pair, tmp_path: Path) -> None:
    """RDMA Reads, retries and RFC 8797 private data, at two settings of the thresholds."""
    usual = {name: pair.client.read(f"/proc/sys/sunrpc/{name}").strip() for name in KNOBS}
    assert set(usual.values()) == {"4096"}
    for settled, coded in ((usual, "0303"), (KNOBS, "0107")):
        _set(pair, settled)
        try:
            request = _ask(pair, tmp_path / "request.pcap")
        finally:
            _set(pair, usual)
        assert request.port == 20049
        assert request.initiator_depth == 0
        assert request.responder_resources > 0
        assert (request.retries, request.rnr_retries) == (6, 0)
        # Magic, version 1, R: remote invalidation; in KiB less one what is sent and received.
        private = bytes.fromhex(f"f6ab0e180101{coded}")
        assert request.private_data == private.ljust(len(request.private_data), b"\0")


def _set(pair: Pair, values: dict[str, int] | dict[str, str]) -> None:
    for name, value in values.items():
        pair.client.sh(f"echo {value} > /proc/sys/sunrpc/{name}")


def _ask(pair: Pair, pcap: Path) -> capture.Request:
    """The request of one mount."""
    pair.end_capture()
    pair.capture(pcap)
    pair.mount()
    pair.umount()
    pair.end_capture()
    (request,) = capture.requests(pcap)
    pair.capture(pcap.with_name("rest.pcap"))
    return request
