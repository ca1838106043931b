# SPDX-License-Identifier: GPL-2.0
"""Plays the hostile requester (guest/misrequests.py) against the server, beside an honest mount."""

from __future__ import annotations

import sys
import time
from typing import Any

from . import paths, settings
from .memory import free_kilobytes
from .pair import MOUNT_POINT, Pair

LOG = "/run/requester.log"
RELEASE, STALLED = "/run/requester.release", "/run/requester.stalled"
#: Files of the server that the requester's calls are about: `data` holds its pattern.
PREPARE = """
rm -rf /srv/export/hostile; mkdir -p /srv/export/hostile/names; cd /srv/export/hostile
python3 -c 'import sys
one = [bytes(i ^ mask for i in range(256)) for mask in range(256)]
sys.stdout.buffer.write(b"".join(one[(i ^ i >> 8) & 255] for i in range(4096)))' > data
: > scratch; chmod 777 . names; chmod 666 scratch
for i in $(seq 100); do : > names/$i-$(printf %080d 0); done
"""
HONEST = f"""
cd {MOUNT_POINT} && dd if=/dev/urandom of=honest bs=100k count=3 conv=fsync 2>/dev/null &&
cp honest /tmp/honest && ls -l hostile/names | wc -l && echo 3 > /proc/sys/vm/drop_caches &&
cmp honest /tmp/honest
"""


def cases() -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the cases by name, as the program in the guest has them.

    The cases of the second table break no rule.
    """
    tables = _tables()
    return tables.CASES, tables.LOADS


def results() -> dict[str, Any]:
    """Returns the cases of results that do not fit, and of positions, by name."""
    return _tables().RESULTS


def _tables() -> Any:
    """Returns the program in the guest as a module."""
    sys.path.insert(0, str(paths.GUEST))
    try:
        import misrequests  # noqa: PLC0415
    finally:
        sys.path.pop(0)
    return misrequests


def check(case: Any, outcomes: list[tuple[str, str]], server: str) -> None:
    """Compares the outcomes of a case with those that its table allows a server.

    # Errors
    `AssertionError` when one differs, or there is none.
    """
    assert outcomes, "the requester did nothing"
    wrong = []
    for outcome, what in outcomes:
        wanted = case.allowed(server, what)
        print(f"{what}: {outcome}")
        if outcome not in wanted:
            wrong.append(f"{what}: {outcome}, not {' or '.join(wanted)}")
    assert not wrong, "; ".join(wrong)


def prepare(pair: Pair) -> None:
    """Makes the files on the server unless an earlier scenario of the pair has made them."""
    if pair.server.run("test -e /srv/export/hostile/names/100-*").status:
        pair.server.sh(PREPARE, timeout=120)


def work(pair: Pair, limit: float = 60) -> float:
    """Does honest work through the mount; returns its seconds.

    # Errors
    `GuestError` when it fails, or takes more than `limit` seconds.
    """
    began = time.monotonic()
    pair.client.sh(HONEST, timeout=limit)
    return time.monotonic() - began


def connections(pair: Pair) -> int:
    """Returns the number of the server's connected queue pairs."""
    text = pair.server.run("rdma resource show qp").stdout.decode()
    return sum("type RC" in line for line in text.splitlines())


def settle(pair: Pair, wanted: int, limit: float) -> int:
    """Waits until the server has no more than `wanted` queue pairs; returns how many it has."""
    deadline = time.monotonic() + limit
    while (found := connections(pair)) > wanted and time.monotonic() < deadline:
        time.sleep(0.5)
    return found


def free(pair: Pair) -> int:
    """Returns the free kilobytes of the server."""
    return free_kilobytes(pair.server)


class Play:
    """A case that is being played."""

    def __init__(self, pair: Pair, name: str) -> None:
        """Starts the requester on the client's guest."""
        self._pair = pair
        pair.client.sh(f"rm -f {RELEASE} {STALLED} {LOG}")
        command = f"exec python3 /lab/misrequests.py {name} > {LOG} 2>&1"
        self._pid = pair.client.vm.start(f"export PATIENCE={pair.patience:.1f}; {command}")

    def text(self) -> str:
        """Returns the requester's output so far."""
        return self._pair.client.run(f"cat {LOG}").stdout.decode()

    def await_word(self, word: str, limit: float = 120) -> None:
        """Waits until the requester prints a word.

        # Errors
        `AssertionError` when it ends before that, or does not print it in time.
        """
        deadline = time.monotonic() + limit
        while word not in self.text().splitlines():
            ended = self._pair.client.vm.agent.poll(self._pid)
            assert not ended, f"the requester has ended: {self.text()[-1500:]}"
            assert time.monotonic() < deadline, f"no {word}: {self.text()[-1500:]}"
            time.sleep(0.1)

    def let_go(self, path: str) -> None:
        """Makes the file that the requester waits for."""
        self._pair.client.sh(f"touch {path}")

    def finish(self, limit: float) -> list[tuple[str, str]]:
        """Waits for the end; returns each step with its outcome.

        # Errors
        `AssertionError` when the requester failed.
        """
        done = self._pair.client.vm.agent.wait(self._pid, limit)
        text = self.text()
        assert done.status == 0, f"the requester ended {done.status}: {text[-2000:]}"
        lines = [line.partition(": ") for line in text.splitlines() if ": " in line]
        return [(outcome, what) for outcome, _, what in lines]


def play(pair: Pair, name: str, limit: float) -> None:
    """Plays a case of `results` to its end.

    # Errors
    `AssertionError` when an outcome is not that of the table.
    """
    prepare(pair)
    check(results()[name], Play(pair, name).finish(limit), settings.server())
