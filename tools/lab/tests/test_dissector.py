# SPDX-License-Identifier: GPL-2.0
"""The dissector of tools/wireshark, on the golden bytes of rust/wire and on made-up messages."""

from __future__ import annotations

import struct
import subprocess
import textwrap
from pathlib import Path

import dissected
import pytest
from dissected import Fields
from packets import CLIENT, SEND_LAST, SERVER, Cable, header, null_call, null_reply

from lab import paths

READ_SEGMENT = (0x200, 5, 0x6000_0000_0000)
WRITE_SEGMENT = (0x100, 4096, 0x7000_0000_0000)

EMPTY_LISTS = {"reads_count": ["0"], "writes_count": ["0"], "reply_count": ["0"]}
#: The fields of each golden message behind the first four words, and its direction.
GOLDEN: dict[str, Fields] = {
    "MSG_INLINE": {"direction": ["0"], **EMPTY_LISTS},
    "NOMSG_REPLY": {
        "direction": ["1"],
        **EMPTY_LISTS,
        "reply_count": ["1"],
        "segment_count": ["1"],
        "rdma_handle": ["0x00000005"],
        "rdma_length": ["32768"],
        "rdma_offset": ["0x0000000000000010"],
    },
    "ERR_VERS": {"errcode": ["1"], "vers_low": ["1"], "vers_high": ["2"]},
    "ERR_BAD_HEADER": {"errcode": ["2"]},
    "ERR_INVAL_OPTION": {"errcode": ["3"]},
    "OPTIONAL": {
        "direction": ["1"],
        "opttype": ["77"],
        "optinfo_length": ["5"],
        "optinfo": ["01:02:03:04:05"],
        "payload": ["ab:cd:ef:01"],
    },
    "INIT": {
        "direction": ["0"],
        "opttype": ["1"],
        "optinfo_length": ["60"],
        "xchar_count": ["3"],
        "xchar_which": ["1", "2", "4294967040"],
        "xchar_length": ["4", "4", "3"],
        "receive_size": ["8192"],
        "invalidation": ["1"],
        "xchar_data": ["07:08:09"],
        "nochg": ["0x00000000"] * 4,
    },
    "REQUEST": {
        "direction": ["0"],
        "opttype": ["2"],
        "optinfo_length": ["16"],
        "xchar_count": ["1"],
        "xchar_which": ["1"],
        "xchar_length": ["4"],
        "receive_size": ["4096"],
    },
    "RESPONSE": {
        "direction": ["1"],
        "opttype": ["3"],
        "optinfo_length": ["24"],
        "done": ["0x00000002"],
        "rejected": ["0x00000004"],
        "pending": ["0x00000001"],
    },
    "UPDATE": {
        "direction": ["0"],
        "opttype": ["4"],
        "optinfo_length": ["16"],
        "xchar_which": ["3"],
        "xchar_length": ["4"],
        "backward": ["3"],
        "pendclr": ["1"],
    },
}
GOLDEN["INIT_OURS"] = {**GOLDEN["INIT"], "optinfo_length": ["48"], "nochg": ["0x00000007"]}


def golden() -> dict[str, bytes]:
    return dissected.vectors("v2") | dissected.vectors("xchar")


def prefix(message: bytes) -> Fields:
    """Returns the fields that every message has."""
    xid, *words = struct.unpack_from(">4I", message)
    numbers = dict(zip(("version", "credits", "proc"), words, strict=True))
    numbers["message_length"] = len(message)
    return {"xid": [f"{xid:#010x}"]} | {name: [str(value)] for name, value in numbers.items()}


@pytest.fixture
def cable() -> Cable:
    return Cable()


def fields(cable: Cable, path: Path) -> list[Fields]:
    return dissected.frames(cable.save(path / "cable.pcap"), "rpcordma2.")


def test_golden_messages(cable: Cable, tmp_path: Path) -> None:
    messages = golden()
    assert messages.keys() == GOLDEN.keys()
    for message in messages.values():
        cable.call(message)
    found = fields(cable, tmp_path)
    for (name, message), here in zip(messages.items(), found, strict=True):
        assert here == prefix(message) | GOLDEN[name], name


def test_values(cable: Cable, tmp_path: Path) -> None:
    cases = {
        "receive_size": (1, 0, 2**32 - 1),
        "invalidation": (2, 0, 1),
        "backward": (3, *range(4)),
    }
    updates = [
        (name, number, dissected.replaced(golden()["UPDATE"], 28, which, 4, number))
        for name, (which, *numbers) in cases.items()
        for number in numbers
    ]
    for _, _, message in updates:
        cable.call(message)
    for (name, number, _), here in zip(updates, fields(cable, tmp_path), strict=True):
        known = {one: here.get(one) for one in cases if one in here}
        assert known == {name: [str(number)]}


def test_listing_in_the_documentation(cable: Cable, tmp_path: Path) -> None:
    cable.call(golden()["INIT_OURS"])
    text = dissected.run(cable.save(tmp_path / "cable.pcap"), "-O", "rpcordma2")
    listing = text[text.index("RPC-over-RDMA version two") :].strip()
    page = (paths.ROOT / "Documentation/wireshark.rst").read_text()
    assert textwrap.indent(listing, "    ") + "\n\n" in page


def test_elements_of_a_long_bit_mask(cable: Cable, tmp_path: Path) -> None:
    """The text does not grow with it."""
    full = 2**32 - 1
    words = (1, full, 3, full, full, full, 0)
    cable.call(dissected.replaced(golden()["RESPONSE"], 24, 4 * len(words), *words))
    text = dissected.run(cable.save(tmp_path / "cable.pcap"), "-O", "rpcordma2")
    first = ", ".join(map(str, range(32)))
    assert f"[Done, elements: {first}]" in text
    assert f"[Rejected, first 32 of 96 elements: {first}]" in text
    assert "[Pending, elements: none]" in text


def test_messages_that_are_cut_short(cable: Cable, tmp_path: Path) -> None:
    """None has an error in Lua; a header that is not whole is marked, or not taken at all."""
    cut = [message[:end] for message in golden().values() for end in range(1, len(message))]
    for message in cut:
        cable.call(message)
    whole = {"MSG_INLINE": 32, "OPTIONAL": 36}
    ends = {golden()[name][:end] for name, end in whole.items()}
    found = fields(cable, tmp_path)
    for message, here in zip(cut, found, strict=True):
        short = not any(message.startswith(end) for end in ends)
        assert not short or "malformed" in here or "xid" not in here, message.hex()


def spoilt(name: str, at: int, word: int) -> bytes:
    """Returns a golden message with another word at an offset."""
    return dissected.replaced(golden()[name], at, word)


#: Malformed messages, and the dissector's objections.
MALFORMED = [
    (spoilt("MSG_INLINE", 24, 2), "0x00000002 where 0 or 1 must be"),
    (spoilt("MSG_INLINE", 24, 1), "0x12345678 where 0 or 1 must be"),
    (spoilt("MSG_INLINE", 28, 1), "4 bytes needed, 0 left"),
    (spoilt("NOMSG_REPLY", 32, 0xFFFFFFFF), "4 bytes needed, 0 left"),
    (spoilt("INIT", 28, 0xFFFFFFFF), "4 bytes needed, 0 left"),
    (spoilt("INIT", 36, 0xFFFFFFFC), "4294967292 bytes needed"),
    (spoilt("INIT", 36, 3), "value of Receive Buffer Size has 3 bytes"),
    (spoilt("INIT", 52, 2), "2 is no value of Requester Remote Invalidation"),
    (spoilt("UPDATE", 36, 4), "4 is no value of Backward Request Support"),
    (spoilt("UPDATE", 40, 2), "0x00000002 where 0 or 1 must be"),
    (spoilt("REQUEST", 20, 4), "value of Receive Buffer Size has 1 bytes"),
    (spoilt("INIT", 20, 2), "20 bytes behind the data of REQ_XCHAR"),
]
#: Messages that are well formed and break a rule.
BREACHES = [
    (header(1, version=2) + null_call(2), "XID of the RPC message differs"),
    (header(1, version=2, direction=1) + null_call(1), "direction of the RPC message differs"),
    (header(1, version=2), "no RPC message"),
    (header(1, version=2, kind=1) + bytes(4), "4 bytes behind the message"),
    (golden()["ERR_VERS"] + bytes(8), "8 bytes behind the message"),
    (spoilt("REQUEST", 16, 1), "REQ_XCHAR in the other direction"),
    (golden()["REQUEST"] + null_call(2), "40 bytes behind the message"),
]


FAULTS = {"malformed": MALFORMED, "breach": BREACHES}


@pytest.mark.parametrize("name", FAULTS)
def test_faults(cable: Cable, tmp_path: Path, name: str) -> None:
    cases = FAULTS[name]
    for message, _ in cases:
        cable.call(message)
    pcap = cable.save(tmp_path / "cable.pcap")
    marks = dissected.run(pcap, "-T", "fields", "-e", f"rpcordma2.{name}")
    assert marks.splitlines() == ["1"] * len(cases)
    texts = dissected.run(pcap, "-O", "rpcordma2").split("\nFrame ")
    group = {"malformed": "Error/Malformed", "breach": "Warning/Protocol"}[name]
    for (_, fault), text in zip(cases, texts, strict=True):
        assert f"[Expert Info ({group}): {fault}" in text


def test_both_versions_side_by_side(cable: Cable, tmp_path: Path) -> None:
    """Wireshark's own dissector keeps version one; other versions are left to nobody."""
    for xid, version in enumerate((1, 2, 1, 2, 3), 1):
        cable.call(header(xid, version=version), null_call(xid))
        cable.answer(header(xid, version=version, direction=1), null_reply(xid))
    pcap = cable.save(tmp_path / "cable.pcap")
    text = dissected.run(
        pcap, "-T", "fields", "-e", "rpcordma.xid", "-e", "rpcordma2.xid", "-e", "rpc.xid"
    )
    want = []
    for xid, version in ((1, 1), (2, 2), (3, 1), (4, 2)):
        name = f"{xid:#010x}"
        want += [f"{name}\t\t{name}" if version == 1 else f"\t{name}\t{name}"] * 2
    assert text.splitlines() == [*want, "\t\t", "\t\t"]


def test_chunks(cable: Cable, tmp_path: Path) -> None:
    lists = {
        "reads": [(40, READ_SEGMENT), (44, READ_SEGMENT)],
        "writes": [[WRITE_SEGMENT], [WRITE_SEGMENT, READ_SEGMENT], []],
        "reply": [WRITE_SEGMENT, READ_SEGMENT],
    }
    cable.call(header(1, version=2, **lists), null_call(1))
    (here,) = fields(cable, tmp_path)
    assert here["reads_count"] + here["writes_count"] + here["reply_count"] == ["2", "3", "1"]
    assert here["position"] == ["40", "44"]
    assert here["segment_count"] == ["1", "2", "0", "2"]
    order = [READ_SEGMENT] * 2 + [WRITE_SEGMENT] * 2 + [READ_SEGMENT, WRITE_SEGMENT, READ_SEGMENT]
    assert here["rdma_handle"] == [f"{handle:#010x}" for handle, _, _ in order]
    assert here["rdma_length"] == [str(length) for _, length, _ in order]
    assert here["rdma_offset"] == [f"{offset:#018x}" for _, _, offset in order]


def write_call(xid: int, count: int) -> bytes:
    """Returns a WRITE of NFSv3 without its data, which stand in a read chunk, and their position.

    The file handle has four bytes.
    """
    return null_call(xid)[:20] + struct.pack(
        ">I4I5I2I", 7, 0, 0, 0, 0, 4, 0xABCD, 0, 0, count, 2, count
    )


def test_data_in_a_read_chunk(cable: Cable, tmp_path: Path) -> None:
    """The dissector of NFS finds the data's length and no fault: zeros stand for the data."""
    message = write_call(1, 9)
    # Two segments are one chunk: nine bytes, and three of padding that are not sent.
    reads = [(len(message), (0x200, length, 0x6000_0000_0000)) for length in (5, 4)]
    cable.call(header(1, version=2, reads=reads), message)
    pcap = cable.save(tmp_path / "cable.pcap")
    text = dissected.run(pcap, "-T", "fields", "-e", "nfs.count3", "-e", "_ws.malformed")
    assert text.splitlines() == ["9\t"]


@pytest.mark.parametrize("more", [3000, 3001, 1024 - 72])
def test_message_in_several_packets(cable: Cable, tmp_path: Path, more: int) -> None:
    messages = [header(xid, version=2) + null_call(xid) + bytes(more) for xid in (1, 2)]
    cable.in_parts(CLIENT, messages[0], 512)
    # The other direction between the parts of a message.
    first = cable.frames[:1]
    cable.answer(header(9, version=2, direction=1), null_reply(9))
    cable.frames = [*first, cable.frames[-1], *cable.frames[1:-1]]
    cable.in_parts(CLIENT, messages[1], 512)
    found = [here for here in fields(cable, tmp_path) if "xid" in here]
    count = -(-(72 + more) // 512)
    text = dissected.run(tmp_path / "cable.pcap", "-O", "rpcordma2")
    assert text.count(f"part of a message, the last of {count}\n") == 2
    assert [here["xid"][0] for here in found] == ["0x00000009", "0x00000001", "0x00000002"]
    assert [here["message_length"][0] for here in found[1:]] == [str(72 + more)] * 2


def test_message_with_a_lost_part(cable: Cable, tmp_path: Path) -> None:
    cable.in_parts(CLIENT, header(1, version=2) + null_call(1) + bytes(3000), 1024)
    del cable.frames[1]
    assert not any("xid" in here for here in fields(cable, tmp_path))


@pytest.mark.parametrize(
    "message",
    [
        spoilt("MSG_INLINE", 16, 2),
        spoilt("MSG_INLINE", 20, 2),
        spoilt("MSG_INLINE", 12, 3),
        spoilt("OPTIONAL", 16, 2),
        spoilt("OPTIONAL", 24, 13),
        spoilt("ERR_VERS", 16, 4),
    ],
)
def test_not_this_version(cable: Cable, tmp_path: Path, message: bytes) -> None:
    """Later drafts have other words in these places, and other protocols anything."""
    cable.call(message)
    assert fields(cable, tmp_path) == [{}]


def test_last_part_alone(cable: Cable, tmp_path: Path) -> None:
    cable._packet(SERVER, SEND_LAST, header(1, version=2) + null_call(1))
    assert fields(cable, tmp_path) == [{}]


@pytest.mark.parametrize("size", [4096, 500, 72, 71])
def test_iwarp(cable: Cable, tmp_path: Path, size: int) -> None:
    messages = [*golden().values(), header(1, version=2) + null_call(1) + bytes(2000)]
    cable.frames = dissected.mpa_stream(messages, size)
    found = [here for here in fields(cable, tmp_path) if "xid" in here]
    assert [here["message_length"][0] for here in found] == [str(len(m)) for m in messages]
    for (name, message), here in zip(golden().items(), found, strict=False):
        assert here == prefix(message) | GOLDEN[name], name


FIRST, SECOND = "f6ab0e180101033f", "b542a32c01000102"
FIRST_FIELDS = {
    "magic": ["0xf6ab0e18"],
    "format": ["1"],
    "r": ["1"],
    "send_size": ["4096"],
    "recv_size": ["65536"],
}
SECOND_FIELDS = {
    "versions_magic": ["0xb542a32c"],
    "versions_format": ["1"],
    "low": ["1"],
    "high": ["2"],
}


@pytest.mark.parametrize(
    ("private", "want"),
    [
        (FIRST + SECOND, FIRST_FIELDS | SECOND_FIELDS),
        ("80108010b5" + FIRST + "b542" + SECOND, FIRST_FIELDS | SECOND_FIELDS),
        (FIRST, FIRST_FIELDS),
        (FIRST + "b542a32c02000102", FIRST_FIELDS),
        (FIRST + "b542a32c01000201", FIRST_FIELDS),
        (FIRST + "b542a32c01010102", FIRST_FIELDS | SECOND_FIELDS | {"s": ["1"]}),
        (FIRST + "b542a32c01fe0102", FIRST_FIELDS | SECOND_FIELDS),
        (SECOND + FIRST, FIRST_FIELDS),
        (SECOND, {}),
        ("f6ab0e180201033f", {}),
        ("", {}),
    ],
)
def test_private_data(cable: Cable, tmp_path: Path, private: str, want: Fields) -> None:
    data, make = bytes.fromhex(private), dissected.handshake
    cable.frames = [
        make.cm_req(1, data.ljust(56, b"\0")),
        make.cm_rep(1, data.ljust(196, b"\0")),
        make.mpa(1, data, to_server=True),
        make.mpa(1, data, to_server=False),
    ]
    pcap = cable.save(tmp_path / "cable.pcap")
    assert dissected.frames(pcap, "rpcordma_cm.") == [want] * 4


def test_private_data_of_the_vectors(cable: Cable, tmp_path: Path) -> None:
    arrays = dissected.vectors("cm_private")
    assert arrays["WITH_VERSIONS"].hex() == FIRST + SECOND
    cable.frames = [dissected.handshake.cm_req(1, arrays["VERSIONS_EMBEDDED"].ljust(56, b"\0"))]
    (here,) = dissected.frames(cable.save(tmp_path / "cable.pcap"), "rpcordma_cm.")
    assert here == FIRST_FIELDS | SECOND_FIELDS | {"low": ["2"], "high": ["255"]}


#: A capture of the lab, which Documentation/wireshark.rst describes.
SAMPLE = paths.ROOT / "tools/wireshark/version-two.pcap"


def _documented(after: str) -> list[str]:
    """Returns the lines of the example that follows a sentence of the document."""
    text = (paths.ROOT / "Documentation/wireshark.rst").read_text()
    block = text.split(f"{after}::\n\n", 1)[1]
    lines = block.splitlines()
    end = next(number for number, line in enumerate(lines) if not line.startswith("    "))
    return textwrap.dedent("\n".join(lines[:end])).splitlines()


def _tshark(*arguments: str) -> list[str]:
    """Returns the lines that tshark prints about the sample."""
    command = [dissected.TSHARK, "-r", SAMPLE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_documented_sample() -> None:
    """The document shows the sample as the dissector does."""
    fields = ["frame.number", "ip.src", "_ws.col.Info"]
    shown = _tshark(
        *("-Y", "rpcordma2 || rpcordma_cm", "-T", "fields"),
        *(option for name in fields for option in ("-e", name)),
    )
    assert [line.split("\t") for line in shown] == [
        line.split(None, 2) for line in _documented("It prints")
    ]


def test_documented_announcement() -> None:
    """The document shows the announcement of the sample's client as the dissector does."""
    shown = _tshark("-Y", "frame.number == 10", "-V", "-O", "rpcordma2")
    begin = next(number for number, line in enumerate(shown) if line.startswith("RPC-over-RDMA"))
    announcement = _documented("the client's announcement")
    assert shown[begin : begin + len(announcement)] == announcement
