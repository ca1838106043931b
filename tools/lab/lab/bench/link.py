# SPDX-License-Identifier: GPL-2.0
"""Measures the bandwidth of raw verbs on the link, by perftest between the same guests."""

from __future__ import annotations

from ..errors import GuestError
from ..pair import SERVER_ADDRESS, Pair

SIZE, COUNT = 1 << 20, 200
#: `-e` sleeps between completions: polling would take the processor from the emulated device.
#: perftest cannot sleep for Writes.
TESTS = (("RDMA Read", "ib_read_bw -e"), ("RDMA Write", "ib_write_bw"), ("Send", "ib_send_bw -e"))


def bandwidth(pair: Pair) -> dict[str, float]:
    """Returns KiB per second by operation, 1 MiB at a time, without NFS and its transport."""
    return {name: _bandwidth(pair, tool) for name, tool in TESTS}


def _bandwidth(pair: Pair, tool: str) -> float:
    command = f"{tool} -R -F -s {SIZE} -n {COUNT}"
    waiting = pair.server.vm.start(f"exec {command}")
    # The server may not listen yet when the client connects, so the client tries again.
    again = f"for i in 1 2 3 4 5; do {command} {SERVER_ADDRESS} && exit; sleep 1; done; exit 1"
    out = pair.client.sh(again, timeout=180)
    pair.server.vm.agent.wait(waiting, 30)
    return parse(out) * 1024


def parse(text: str) -> float:
    """Returns the average in perftest's table, in MiB per second."""
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and words[0] == str(SIZE):
            return float(words[3])
    raise GuestError(f"perftest printed no result: {text[-500:]}")
