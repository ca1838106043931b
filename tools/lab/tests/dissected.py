# SPDX-License-Identifier: GPL-2.0
"""Golden messages of version two, packets of a handshake, and tshark's reading of both."""

from __future__ import annotations

import importlib.util
import json
import struct
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

from lab import paths

TSHARK = paths.ROOT / "tools/wireshark/tshark"
VECTORS = paths.ROOT / "rust/wire/vectors"

Fields = dict[str, list[str]]


def _load(name: str, path: str) -> ModuleType:
    """Loads a module of another tool: the folder of this test also has a `packets`."""
    spec = importlib.util.spec_from_file_location(name, paths.ROOT / path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


golden = _load("golden", "tools/checks/checks/golden.py")
handshake = _load("handshake", "tools/host/packets.py")


def vectors(name: str) -> dict[str, bytes]:
    """Returns the golden bytes of a file in rust/wire/vectors, without constants of tables."""
    return golden.arrays((VECTORS / f"{name}.rs").read_text())


def replaced(message: bytes, at: int, *words: int) -> bytes:
    """Returns a message with other words from an offset on."""
    end = at + 4 * len(words)
    return message[:at] + struct.pack(f">{len(words)}I", *words) + message[end:]


def connected(client: bytes, server: bytes, queue: int, number: int = 7) -> list[bytes]:
    """Returns the request for a connection and its acceptance, between the ends of `packets`.

    `client` and `server`: private data. The client's queue pair is 0x11, the server's is `queue`.
    """
    request = handshake.cm_req(number, client.ljust(56, b"\0"))
    answer = handshake.cm_rep(number, server.ljust(196, b"\0"))
    answer = answer.replace(bytes.fromhex("00001200"), (queue << 8).to_bytes(4, "big"))
    # `packets` has the other addresses.
    return [frame[:26] + frame[30:34] + frame[26:30] + frame[34:] for frame in (request, answer)]


def mpa_stream(messages: list[bytes], size: int) -> list[bytes]:
    """Returns the frames of an iWARP connection: its handshake, and Sends of the client.

    A DDP segment has at most `size` bytes, and each TCP segment has a DDP segment.
    """
    frames = [handshake.mpa(0, b"", to_server=True), handshake.mpa(0, b"", to_server=False)]
    sequence = 1 + 20
    for number, message in enumerate(messages, 1):
        for offset in range(0, len(message), size):
            part = message[offset : offset + size]
            fpdu = _fpdu(number, offset, part, last=offset + size >= len(message))
            ports = (1024, handshake.PORT)
            tcp = struct.pack("!HHIIBBHHH", *ports, sequence, 21, 0x50, 0x18, 512, 0, 0)
            frames.append(handshake.ethernet(6, tcp + fpdu))
            sequence += len(fpdu)
    return frames


def _fpdu(number: int, offset: int, part: bytes, *, last: bool) -> bytes:
    """Returns a DDP segment of a Send in the frame of MPA, without a checksum."""
    ddp = struct.pack("!BBIIII", 0x41 if last else 0x01, 0x43, 0, 0, number, offset) + part
    return struct.pack("!H", len(ddp)) + ddp + bytes(-(len(ddp) + 2) % 4) + bytes(4)


def run(pcap: Path, *options: str) -> str:
    """Returns what tshark prints about a capture; fails if the dissector has an error in Lua."""
    command = [TSHARK, "-n", "-r", pcap, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert "Lua" not in done.stderr + done.stdout, (done.stderr + done.stdout)[-3000:]
    return done.stdout


def frames(pcap: Path, prefix: str) -> list[Fields]:
    """Returns for each frame its fields whose names begin with `prefix`, and their values."""
    found = []
    for frame in json.loads(run(pcap, "-T", "json", "--no-duplicate-keys")):
        fields: Fields = {}
        _collect(frame["_source"]["layers"], prefix, fields)
        found.append(fields)
    return found


def _collect(tree: Any, prefix: str, fields: Fields) -> None:
    """Adds the fields below a part of tshark's tree, in the order of the tree."""
    if isinstance(tree, list):
        for part in tree:
            _collect(part, prefix, fields)
    elif isinstance(tree, dict):
        for name, value in tree.items():
            values = value if isinstance(value, list) else [value]
            texts = [text for text in values if isinstance(text, str)]
            if name.startswith(prefix) and texts:
                fields.setdefault(name[len(prefix) :], []).extend(texts)
            _collect(value, prefix, fields)
