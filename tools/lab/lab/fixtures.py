# SPDX-License-Identifier: GPL-2.0
"""Objects for several scenarios: tunables that are restored, counters, captures, the relay.

The fixtures of these names in scenarios/conftest.py return the objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from . import mountstats
from .pair import MOUNT_POINT, Guest, Pair

TUNABLES = "/proc/sys/sunrpc"
#: Writes several values to a tunable, and says of each whether it was accepted.
_IN_TURN = """
first=$(cat {path})
for value in {words}; do
    verdict=yes
    if ! why=$( {{ echo $value > {path}; }} 2>&1); then
        verdict=no
        case $why in *'Invalid argument'*) ;; *) echo "$why" >&2; exit 1 ;; esac
    fi
    echo $verdict $(cat {path})
done
echo $first > {path}
"""


class Tunables:
    """The sysctls of a guest's module. `restore` puts back every value that was changed."""

    def __init__(self, guest: Guest) -> None:
        """Nothing is changed yet."""
        self._guest = guest
        self._saved: dict[str, str] = {}

    def get(self, name: str) -> int:
        """Returns the value of a tunable."""
        return int(self._guest.read(f"{TUNABLES}/{name}"))

    def exists(self, name: str) -> bool:
        """Whether the guest's module has this tunable."""
        return self._guest.run(f"test -e {TUNABLES}/{name}").status == 0

    def accepts(self, name: str, value: int | str) -> bool:
        """Writes a value; returns whether the kernel accepted it.

        # Errors
        `AssertionError` when the write failed with another error than EINVAL.
        """
        if name not in self._saved:
            self._saved[name] = self._guest.read(f"{TUNABLES}/{name}").strip()
        done = self._guest.run(f"echo {value} > {TUNABLES}/{name}")
        assert done.status == 0 or b"Invalid argument" in done.stderr, done.stderr.decode()
        return done.status == 0

    def verdicts(self, name: str, values: Sequence[int]) -> list[tuple[bool, int]]:
        """Writes the values in turn by one command, which ends with the value before it.

        Returns for each whether the kernel accepted it, and the value that the setting then had.

        # Errors
        `AssertionError` when a write failed with another error than EINVAL.
        """
        path, words = f"{TUNABLES}/{name}", " ".join(map(str, values))
        done = self._guest.run(_IN_TURN.format(path=path, words=words))
        assert done.status == 0, done.stderr.decode()
        pairs = [line.split() for line in done.stdout.decode().splitlines()]
        return [(verdict == "yes", int(value)) for verdict, value in pairs]

    def set(self, **values: int | str) -> None:
        """Sets several tunables.

        # Errors
        `AssertionError` when the kernel does not accept a value.
        """
        for name, value in values.items():
            assert self.accepts(name, value), f"{name}={value} was not accepted"

    def set_thresholds(self, value: int) -> None:
        """Sets the inline thresholds of both directions."""
        self.set(rdma_max_inline_read=value, rdma_max_inline_write=value)

    def restore(self) -> None:
        """Puts the first values back."""
        for name, value in self._saved.items():
            self._guest.sh(f"echo {value} > {TUNABLES}/{name}")
        self._saved.clear()


class Counters:
    """The counters that a guest shows in /proc/self/mountstats."""

    def __init__(self, guest: Guest) -> None:
        """Reads nothing yet."""
        self._guest = guest

    def __call__(self, at: str = MOUNT_POINT) -> dict[str, int]:
        """Returns the transport's counters for one mount by name."""
        return mountstats.parse(self._text(), at)

    def connects(self, at: str = MOUNT_POINT) -> int:
        """Returns how often the transport has connected."""
        return self(at)["connect_count"]

    def operations(self, at: str = MOUNT_POINT) -> dict[str, int]:
        """Returns how often the client called each operation of NFS."""
        return mountstats.operations(self._text(), at)

    def calls(self, at: str = MOUNT_POINT) -> dict[str, list[int]]:
        """Returns the values of each operation of NFS: see `mountstats.calls`."""
        return mountstats.calls(self._text(), at)

    def _text(self) -> str:
        return self._guest.read("/proc/self/mountstats")


#: The stock module's statistics of the server, the breaches that our module counts, and the use of
#: nfsd's threads, one line for each pool.
SERVER_STATISTICS = f"{TUNABLES}/svc_rdma/rdma_stat_*"
BREACHES = "/sys/kernel/debug/rpcrdma/breaches"
REQUESTER_BREACHES = "/sys/kernel/debug/rpcrdma/requester_breaches"
POOLS = "/proc/fs/nfsd/pool_stats"


class ServerCounters:
    """The counters of a server: those of its module and of the pools of nfsd's threads."""

    def __init__(self, guest: Guest) -> None:
        """Reads nothing yet."""
        self._guest = guest

    def __call__(self) -> dict[str, int]:
        """Returns all counters by name; those of the pools are sums over all pools.

        Counters that the module on the server does not have are left out.
        """
        files = f"{BREACHES} {REQUESTER_BREACHES} {POOLS}"
        text = self._guest.run(f"grep -H . {SERVER_STATISTICS}; cat {files}")
        return server_counters(text.stdout.decode())


def server_counters(text: str) -> dict[str, int]:
    """Parses the files of `ServerCounters`."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        words = line.replace(":", " ").split()
        if line.startswith("/"):
            found[words[0].rpartition("/")[2]] = int(words[1])
        elif len(words) == 2:
            found[words[0]] = int(words[1])
        elif len(words) > 2 and words[0].isdigit():
            for name, value in zip(("messages", "enqueued", "woken"), words[1:], strict=False):
                found[name] = found.get(name, 0) + int(value)
    return found


class Cable:
    """The frames between the guests, in files of the scenario's own."""

    def __init__(self, pair: Pair, directory: Path) -> None:
        """`directory`: the place of the files."""
        self._pair, self._directory = pair, directory
        self._count = 0

    @contextmanager
    def recording(self) -> Iterator[Path]:
        """Captures the frames of the block into a file, which is complete after the block."""
        with self.unseen():
            pcap = self._directory / f"cable-{self._count}.pcap"
            self._pair.capture(pcap)
            try:
                yield pcap
            finally:
                self._pair.end_capture()

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """Captures nothing of the block, whose frames would fill the disk."""
        self._count += 1
        self._pair.end_capture()
        try:
            yield
        finally:
            # The lab ends a capture when the scenario ends.
            self._pair.capture(self._directory / f"rest-{self._count}.pcap")
