# SPDX-License-Identifier: GPL-2.0
"""The trace events of a connection and of single RPCs have the names of the stock module."""

from __future__ import annotations

import pytest

from lab import settings
from lab.pair import MOUNT_POINT, Guest, Pair
from lab.tracing import TRACING, recording

FILE = f"{MOUNT_POINT}/traced"
#: Events on the path of every RPC, whatever its chunks.
EVERY_RPC = ("xprtrdma_marshal", "xprtrdma_post_send", "xprtrdma_wc_receive", "xprtrdma_reply")

#: Events of the stock module that ours lacks. Documentation/tracing.rst has the reasons.
ABSENT = {
    "svcrdma_dma_map_err",
    "svcrdma_dma_map_page",
    "svcrdma_dma_unmap_page",
    "svcrdma_page_overrun_err",
    "svcrdma_rwctx_empty",
    "svcrdma_wc_reply",
    "svcrdma_wc_reply_err",
    "svcrdma_wc_reply_flush",
    "svcrdma_wc_write",
    "xprtrdma_chunk_wp",
    "xprtrdma_dma_maperr",
    "xprtrdma_err_unrecognized",
    "xprtrdma_frwr_alloc",
    "xprtrdma_frwr_dereg",
    "xprtrdma_frwr_maperr",
    "xprtrdma_frwr_sgerr",
    "xprtrdma_post_recv",
    "xprtrdma_prepsend_failed",
    "xprtrdma_wc_fastreg",
}


def _trace(pair: Pair, command: str) -> list[tuple[str, str]]:
    """Runs a command with the whole group enabled; returns (event, text) in order."""
    with recording(pair.client, ["rpcrdma:*"]) as trace:
        pair.client.sh(command, timeout=120)
    return [(event.name, event.text) for event in trace.events()]


def _names(events: list[tuple[str, str]]) -> set[str]:
    return {name for name, _ in events}


def _formats(guest: Guest) -> dict[str, str]:
    """Returns the fields and the format of each event, without the number of the event.

    Line ends do not count: the stock module has one in the text of a device removal.
    """
    formats: dict[str, str] = {}
    command = f"cd {TRACING}/events/rpcrdma && grep . xprtrdma_*/format svcrdma_*/format"
    for line in guest.sh(command).splitlines():
        name, _, text = line.partition("/format:")
        if not text.startswith(("name:", "ID:")):
            formats[name] = formats.get(name, "") + text.strip()
    return formats


@pytest.mark.needs_ours
@pytest.mark.any_link
@pytest.mark.skipif(settings.server() == "ours", reason="compares with the stock module")
def test_formats(pair: Pair) -> None:
    """Events have the fields of the stock module's events of the same name."""
    ours, stock = _formats(pair.client), _formats(pair.server)
    shared = ours.keys() & stock.keys()
    differ = {name: (ours[name], stock[name]) for name in shared if ours[name] != stock[name]}
    assert differ == {}
    assert stock.keys() - ours.keys() == ABSENT


def test_connection(pair: Pair) -> None:
    """A mount traces the start of its connection, and an umount traces the end."""
    pair.client.sh(f"mkdir -p {MOUNT_POINT}")
    mount = f"mount -t nfs -o vers=4.2,proto=rdma,port=20049 server:/export {MOUNT_POINT}"
    ended = f"until grep -q xprtrdma_disconnect: {TRACING}/trace; do sleep 0.1; done"
    seen = _names(_trace(pair, f"{mount} && umount {MOUNT_POINT} && {ended}"))
    wanted = {"xprtrdma_op_connect", "xprtrdma_connect", "xprtrdma_inline_thresh"}
    assert wanted <= seen
    assert "xprtrdma_disconnect" in seen
    assert set(EVERY_RPC) <= seen


def test_one_read(pair: Pair) -> None:
    """A direct READ of 64 KiB traces its registration and its Write chunk."""
    pair.mount()
    pair.client.sh(f"dd if=/dev/zero of={FILE} bs=64k count=1 oflag=direct")
    events = _trace(pair, f"dd if={FILE} of=/dev/null bs=64k count=1 iflag=direct")
    seen = _names(events)
    assert {*EVERY_RPC, "xprtrdma_mr_map", "xprtrdma_chunk_write"} <= seen
    chunks = [text for name, text in events if name == "xprtrdma_chunk_write"]
    assert any("65536@0x" in text for text in chunks), chunks
    pair.umount()


def test_one_write(pair: Pair) -> None:
    """A direct WRITE of 64 KiB traces its registration and its Read chunk."""
    pair.mount()
    events = _trace(pair, f"dd if=/dev/zero of={FILE} bs=64k count=1 oflag=direct")
    assert {*EVERY_RPC, "xprtrdma_mr_map", "xprtrdma_chunk_read"} <= _names(events)
    chunks = [text for name, text in events if name == "xprtrdma_chunk_read"]
    assert any("65536@0x" in text for text in chunks), chunks
    pair.umount()
