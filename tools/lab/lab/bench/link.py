# SPDX-License-Identifier: GPL-2.0
"""What the link does for raw verbs, by perftest between the same guests."""

from __future__ import annotations

from ..errors import GuestError
from ..pair import SERVER_ADDRESS, Pair

SIZE, COUNT = 1 << 20, 200
#: Asleep between completions (`-e`): polling would take the processor from the emulated device.
#: perftest cannot do that for Writes.
TESTS = (("RDMA Read", "ib_read_bw -e"), ("RDMA Write", "ib_write_bw"), ("Send", "ib_send_bw -e"))


def bandwidth(pair: Pair) -> dict[str, float]:
    """KiB per second by operation, 1 MiB at a time. No NFS, no kernel transport."""
    return {name: _bandwidth(pair, tool) for name, tool in TESTS}


def _bandwidth(pair: Pair, tool: str) -> float:
    command = f"{tool} -R -F -s {SIZE} -n {COUNT}"
    waiting = pair.server.vm.start(f"exec {command}")
    # It listens when it listens; a client that was too early is refused, and comes again.
    again = f"for i in 1 2 3 4 5; do {command} {SERVER_ADDRESS} && exit; sleep 1; done; exit 1"
    out = pair.client.sh(again, timeout=180)
    pair.server.vm.agent.wait(waiting, 30)
    return parse(out) * 1024


def parse(text: str) -> float:
    """The average of perftest's table, in MiB per second."""
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and words[0] == str(SIZE):
            return float(words[3])
    raise GuestError(f"perftest printed no result: {text[-500:]}")
