# SPDX-License-Identifier: GPL-2.0
"""Short of memory: writeback in a small guest, and allocations of the module that fail."""

from __future__ import annotations

import time

import pytest

from lab import mountstats, settings
from lab.harness import Options
from lab.pair import MOUNT_POINT, Pair
from lab.worker import Worker

VERIFY = "python3 /lab/verify.py"
DEBUGFS = "/sys/kernel/debug"
#: What fails; the second takes seven minutes.
KINDS = ("failslab", pytest.param("fail_page_alloc", marks=pytest.mark.full))
#: Mounts while allocations fail, seconds of that, and seconds after it until each has ended.
MOUNTS, WANT, PATIENCE = 8, 10, 100
#: Megabytes of a small client, and how many 64 MiB files are written at a time.
SMALL, WRITERS = 256, 6


@pytest.mark.full
@pytest.mark.plain_only
@pytest.mark.parametrize("pair", [Options(memory=SMALL)], indirect=True)
@pytest.mark.parametrize("restarts", [0, 2])
def test_writeback(pair: Pair, restarts: int) -> None:
    """More dirty data than the client has memory: it gets out through the transport.

    Also when the server restarts meanwhile: then memory fills up while there is no connection, and
    what a new one needs must be found all the same.
    """
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount("4.2")
    writers = [
        pair.client.vm.start(f"{VERIFY} write big {MOUNT_POINT}/w{index}")
        for index in range(WRITERS)
    ]
    for _ in range(restarts):
        time.sleep(3)
        pair.restart_nfsd(pause=5)
        polled = [pair.client.vm.agent.poll(writer) for writer in writers]
        assert None in polled, "everything was written already"
    for writer in writers:
        done = pair.client.vm.agent.wait(writer, 400)
        assert done.status == 0, done.stderr.decode()
    for index in range(WRITERS):
        pair.server.sh(f"{VERIFY} check big /srv/export/w{index}", timeout=300)
    pair.client.sh(f"{VERIFY} check big {MOUNT_POINT}/w0", timeout=300)
    connects = mountstats.parse(pair.client.read("/proc/self/mountstats"), MOUNT_POINT)
    assert connects["connect_count"] >= 1 + restarts
    pair.umount()


def _module_text(pair: Pair) -> tuple[int, int]:
    """First and last address of the module's code."""
    lines = pair.client.sh("grep '\\[rpcrdma\\]' /proc/kallsyms").splitlines()
    code = sorted(int(line.split()[0], 16) for line in lines if line.split()[1] in "tT")
    return code[0], code[-1]


class Failures:
    """Allocations on the module's behalf fail, now and then, while this is entered."""

    #: More than fail in any scenario; the kernel counts down from it.
    MANY = 1000000

    def __init__(self, pair: Pair, kind: str, percent: int) -> None:
        """`kind`: failslab or fail_page_alloc. What the rest of the kernel allocates is spared."""
        self._pair, self._percent = pair, percent
        self._where = f"{DEBUGFS}/{kind}"
        #: How many have failed, once it is over.
        self.failed = 0

    def __enter__(self) -> Failures:
        """Arm it."""
        self._pair.starved = True
        first, last = _module_text(self._pair)
        knobs = {
            "require-start": first,
            "require-end": last,
            "stacktrace-depth": 32,
            "ignore-gfp-wait": "N",
            "verbose": 0,
            "interval": 1,
            "times": self.MANY,
            "probability": self._percent,
        }
        if self._where.endswith("page_alloc"):
            knobs["min-order"] = 0
        self._pair.client.sh(
            f"cd {self._where}; " + "; ".join(f"echo {v} > {k}" for k, v in knobs.items())
        )
        return self

    def __exit__(self, *_: object) -> None:
        """Disarm it and count."""
        left = self._pair.client.sh(f"cd {self._where}; echo 0 > probability; cat times")
        self.failed = self.MANY - int(left)


def _mount_in_want(pair: Pair, kind: str) -> tuple[bool, float, int]:
    """Mount while allocations fail, for `WANT` seconds at most.

    Returns whether that went well, how long it took once they did not fail any more (connecting is
    tried again after 5, 10, 20 s), and how many have failed.
    """
    options = "vers=3,proto=rdma,port=20049,retry=0"
    with Failures(pair, kind, 10) as failures:
        began = time.monotonic()
        mounting = pair.client.vm.start(f"mount -t nfs -o {options} server:/export {MOUNT_POINT}")
        done = pair.client.vm.agent.poll(mounting)
        while not done and time.monotonic() < began + WANT:
            time.sleep(0.1)
            done = pair.client.vm.agent.poll(mounting)
    began = time.monotonic()
    done = done or pair.client.vm.agent.wait(mounting, PATIENCE)
    if done.status == 0:
        pair.umount()
    return done.status == 0, time.monotonic() - began, failures.failed


@pytest.mark.debug_kernel
@pytest.mark.timeout(1800)
@pytest.mark.skipif(settings.flavour() != "debug", reason="the debug kernel injects failures")
@pytest.mark.parametrize("kind", KINDS)
def test_failing_allocations(pair: Pair, kind: str) -> None:
    """Mounting, reconnecting and I/O while one allocation in ten fails, and afterwards."""
    if pair.client.run(f"test -d {DEBUGFS}/{kind}").status:
        pytest.skip(f"this kernel has no {kind}")
    pair.server.sh("rm -rf /srv/export/*")
    pair.client.sh(f"mkdir -p {MOUNT_POINT}")
    mounts = [_mount_in_want(pair, kind) for _ in range(MOUNTS)]
    well, took, failed = zip(*mounts, strict=True)
    print(f"{sum(well)} of {MOUNTS} mounts; all over after {max(took):.1f} s; failed: {failed}")
    assert all(failed), "no allocation failed"
    pair.mount("3")
    worker = Worker(pair)
    with Failures(pair, kind, 10) as failures:
        for _ in range(2):
            pair.restart_nfsd()
            time.sleep(15)
    assert failures.failed, "no allocation failed while reconnecting"
    worker.await_progress(20, 200)
    print(worker.finish(300))
    pair.umount()
