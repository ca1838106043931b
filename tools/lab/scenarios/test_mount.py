# SPDX-License-Identifier: GPL-2.0
"""Mounting with each version of NFS."""

from __future__ import annotations

import pytest

from lab.fixtures import Counters
from lab.pair import MOUNT_POINT, Pair

VERSIONS = ("3", "4.0", "4.1", "4.2")


@pytest.mark.dma
@pytest.mark.both_roles
@pytest.mark.parametrize("version", VERSIONS)
def test_mount_and_first_file(pair: Pair, counters: Counters, version: str) -> None:
    """A file that the client writes reaches the server over RDMA."""
    pair.mount(version)
    options = pair.client.sh(f"findmnt -no OPTIONS {MOUNT_POINT}")
    assert "proto=rdma" in options
    assert f"vers={version}" in options
    pair.client.sh(f"echo hello from {version} > {MOUNT_POINT}/hello && sync {MOUNT_POINT}/hello")
    assert pair.server.read("/srv/export/hello") == f"hello from {version}\n"
    stats = counters()
    assert stats["sends"] > 0
    assert stats["recvs"] > 0
    pair.umount()
