# SPDX-License-Identifier: GPL-2.0
"""The hostile peers' messages of version two are those of the golden bytes in rust/wire."""

from __future__ import annotations

import sys

import dissected
import pytest

from lab import mountstats, paths

sys.path.insert(0, str(paths.GUEST))
import peer
import second

MESSAGES = dissected.vectors("v2") | dissected.vectors("xchar")
CALL = peer.words(0x12345678, 0)
INIT = second.init(
    second.value(second.RECEIVE_SIZE, 8192),
    second.value(second.INVALIDATION, 1),
    second.value(second.EXPERIMENTAL, b"\x07\x08\x09"),
    fixed=(7,),
)
REQUEST = second.request(second.value(second.RECEIVE_SIZE, 4096))
UPDATE = second.update(second.value(second.BACKWARD, 3), cleared=True)
LONG = peer.lists(reply=[(5, 0x8000, 16)])
WRITTEN = {
    "MSG_INLINE": second.rpc(0x12345678, second.CALL, CALL),
    "NOMSG_REPLY": second.rpc(9, second.REPLY, b"", LONG, 3, peer.NOMSG),
    "ERR_VERS": second.error(12, second.ERR_VERS, 1, 2, grant=6),
    "ERR_BAD_HEADER": second.error(13, second.ERR_BAD_HEADER, grant=7),
    "ERR_INVAL_OPTION": second.error(14, second.ERR_INVAL_OPTION, grant=8),
    "OPTIONAL": second.optional(
        15, second.REPLY, 77, bytes(range(1, 6)), bytes.fromhex("abcdef01"), 9
    ),
    "INIT_OURS": second.optional(1, second.CALL, second.INIT, INIT),
    "REQUEST": second.optional(2, second.CALL, second.REQ, REQUEST, grant=1),
    "UPDATE": second.optional(3, second.CALL, second.UPD, UPDATE, grant=1),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_written(name: str) -> None:
    assert WRITTEN[name].hex() == MESSAGES[name].hex()


def test_read() -> None:
    """The peers' reading of each kind of message."""
    found = {name: second.Message("1", data) for name, data in MESSAGES.items()}
    assert found["MSG_INLINE"].call.payload == CALL
    assert found["NOMSG_REPLY"].call.reply == [(5, 0x8000, 16)]
    assert found["NOMSG_REPLY"].direction == second.REPLY
    assert found["ERR_INVAL_OPTION"].error == second.ERR_INVAL_OPTION
    values = found["INIT"].values()
    assert values == {1: peer.words(8192), 2: peer.words(1), second.EXPERIMENTAL: b"\x07\x08\x09"}
    assert found["UPDATE"].values() == {3: peer.words(3)}
    assert found["RESPONSE"].subsets() == [(2,), (4,), (1,)]


STATISTICS = """
device server:/export mounted on /mnt/nfs with fstype nfs statvers=1.1
\tevents:\t1 2 0 0 1 0 9 1 0 0 0 1 2 0 3 1 0 2 0 0 1 0 0 0 0 0 0
\tper-op statistics
\t        READ: 12 13 1 100 200 3 4 5 2
"""


def test_calls() -> None:
    """The line of events is no operation."""
    assert mountstats.calls(STATISTICS, "/mnt/nfs") == {"READ": [12, 13, 1, 100, 200, 3, 4, 5, 2]}
