# SPDX-License-Identifier: GPL-2.0
"""The detector finds kernel reports and no ordinary lines."""

from __future__ import annotations

import re

import pytest

from lab import paths, splat

REPORTS = (
    "[    5.1] WARNING: CPU: 0 PID: 1 at net/sunrpc/xprt.c:100 xprt_foo+0x1/0x2",
    "[    5.1] WARNING: net/sunrpc/xprt.c:100 at xprt_foo+0x1/0x2, CPU#0: insmod/80",
    "[    5.1] WARNING: possible circular locking dependency detected",
    "[    5.1] BUG: KASAN: slab-use-after-free in foo+0x1/0x2",
    "[    5.1] BUG: sleeping function called from invalid context at mm/slab.h:1",
    "[    5.1] Oops: general protection fault, probably for non-canonical address",
    "[    5.1] rcu: INFO: rcu_preempt self-detected stall on CPU",
    "[    5.1] INFO: task kworker/0:1:9 blocked for more than 120 seconds.",
    "[    5.1] kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
    "[    5.1] DMA-API: rxe0: device driver frees DMA memory it has not allocated",
    "[    5.1] ODEBUG: free active (active state 0) object type: work_struct",
    "[    5.1] rust_kernel: panicked at rust/client.rs:1:1",
    "[    5.1] refcount_t: underflow; use-after-free.",
    "[    5.1] Kernel panic - not syncing: Fatal exception",
    "[    5.1] Internal error: synchronous external abort: 0000000096000010 [#1]  SMP",
    "[    5.1] Call trace:",
    "[    5.1] rpcrdma: queue pair 17 could not be drained: destroyed",
    "[    5.1] unregister_netdevice: waiting for eth1 to become free. Usage count = 2",
)

ORDINARY = (
    "[    0.1] DMA-API: preallocated 65536 debug entries",
    "[    0.1] DMA-API: debugging enabled by kernel config",
    "[    0.1] kmemleak: Kernel memory leak detector initialized (mem pool available: 39000)",
    "[    0.1] kmemleak: Automatic memory scanning thread started",
    "[    6.1] RPC: Registered rdma transport module.",
    "[    6.1] rpcrdma: loading out-of-tree module taints kernel.",
    "[    0.1] Debug: sleep inside atomic section checking is on",
    "[    0.1] Lock dependency validator: Copyright (c) 2006 Red Hat, Inc., Ingo Molnar",
)


#: How the warnings of this module begin that a peer, an administrator or a lack of memory causes,
#: and how a failed KUnit case is named.
CAUSED = ("server: ", "connecting to ", "call to ", "swapon of a file", "{}\\n")
CAUSED += ("{kind} {name} is registered",)
_WARNING = re.compile(r'pr_(?:warn|err|crit|alert|emerg)(?:_once)?!\(\s*"((?:[^"\\]|\\.)*)"')


def test_warnings_of_this_module_are_reports_or_caused_by_others() -> None:
    sources = [path.read_text() for path in (paths.ROOT / "rust").rglob("*.rs")]
    lines = {line for text in sources for line in _WARNING.findall(text)}
    assert len(lines) > 15
    for line in lines:
        # A placeholder stands for a number.
        found = splat.find("[    5.1] rpcrdma: " + line.replace("{}", "17"))
        assert bool(found) != line.startswith(CAUSED), line


@pytest.mark.parametrize("line", REPORTS)
def test_reports_are_found(line: str) -> None:
    assert splat.find(f"[ 1.0] before\n{line}\n[ 9.0] after") != []


@pytest.mark.parametrize("line", ORDINARY)
def test_ordinary_lines_are_not(line: str) -> None:
    assert splat.find(line) == []


def test_one_report_with_its_trace_counts_once() -> None:
    text = "\n".join(
        [
            "[ 1.0] ------------[ cut here ]------------",
            "[ 1.0] WARNING: foo.c:1 at foo+0x1, CPU#0: insmod/1",
            "[ 1.0] Call Trace:",
            "[ 1.0] ---[ end trace 0000000000000000 ]---",
            "[ 2.0] all quiet",
        ]
    )
    (report,) = splat.find(text)
    assert "foo.c:1" in report
    assert "all quiet" not in report


@pytest.mark.parametrize("place", ["drivers/infiniband/sw/rxe/", "/cache/module/device/rxe/"])
def test_warning_of_rxe_is_left_out_on_a_bad_link_only(place: str) -> None:
    ours = "[ 3.0] WARNING: foo.c:1 at foo+0x1, CPU#0: insmod/1\n[ 3.0] ---[ end trace 0 ]---\n"
    link = f"[ 1.0] WARNING: {place}rxe_comp.c:827 at rxe_completer+0x722/0x730, CPU#0: kworker/0\n"
    text = (
        f"[ 1.0] ------------[ cut here ]------------\n{link}[ 1.0] ---[ end trace 0 ]---\n{ours}"
    )
    assert len(splat.find(text)) == 2
    (report,) = splat.find(text, bad_link=True)
    assert "foo.c:1" in report


def test_failed_allocations_are_left_out_on_request_only() -> None:
    def report(first: str) -> str:
        return f"[ 1.0] {first}\n[ 1.0] Call Trace:\n[ 1.0]  <TASK>\n[ 1.0]  </TASK>\n"

    for first in (
        "kworker/u4:3: vmalloc error: size 524672, align 0x1000, vm_struct allocation failed",
        "mount: page allocation failure: order:0, mode:0xdc0(GFP_KERNEL|__GFP_ZERO)",
    ):
        assert len(splat.find(report(first))) == 1
        assert splat.find(report(first), want=True) == []
    assert len(splat.find(report("WARNING: foo.c:1 at foo+0x1"), want=True)) == 1


ALARM = "[ 1.0] rpcrdma: a memory region could not be freed: -22"


def test_an_alarm_does_not_hide_behind_a_known_report() -> None:
    """It is a report of its own, before the known warning, among its lines, and after it."""
    known = _warning("drivers/infiniband/sw/rxe/rxe_comp.c:827 at rxe_completer+0x722").splitlines()
    assert splat.find("\n".join(known), bad_link=True) == []
    for place in range(len(known) + 1):
        lines = [*known[:place], ALARM, *known[place:]]
        assert splat.find("\n".join(lines), bad_link=True) == [ALARM]
        assert len(splat.find("\n".join([*lines, ALARM]), bad_link=True)) == 2


def test_missing_files_are_left_out_without_memory_only() -> None:
    line = "[ 1.0] rpcrdma: no tunables in /proc/sys/sunrpc"
    assert splat.find(line) == [line]
    assert splat.find(line, want=True) == []
    assert splat.find(ALARM, want=True) == [ALARM]


def _warning(first: str, *rest: str) -> str:
    """Returns a WARN of the kernel as the console shows it."""
    lines = (
        "------------[ cut here ]------------",
        f"WARNING: {first}",
        *rest,
        "---[ end trace 0000000000000000 ]---",
    )
    return "\n".join(f"[ 1.0] {line}" for line in lines)


def test_warning_of_a_stopped_server_is_left_out_over_iwarp_only() -> None:
    def report(caller: str) -> str:
        return _warning(
            "drivers/infiniband/core/verbs.c:2164 at ib_destroy_qp_user+0x25c",
            "Call Trace:",
            f" {caller}+0x87/0x140 [rpcrdma]",
        )

    assert splat.find(report("svc_rdma_free"), iwarp=True) == []
    assert len(splat.find(report("svc_rdma_free"))) == 1
    assert len(splat.find(report("rdma_destroy_qp"), iwarp=True)) == 1


SYNC = "DMA-API: lab_dma 0000:00:01.0: device driver tries to sync DMA memory it has not allocated"
SYNC += " [device address=0x00000000ffdfe000] [size=216 bytes]"


def _of_a_sync(first: str, *rest: str) -> str:
    """Returns a report of DMA debugging about a sync as the console shows it."""
    lines = (
        "------------[ cut here ]------------",
        first,
        "WARNING: kernel/dma/debug.c:1162 at check_sync+0x1ae/0xb30, CPU#1: bash/111",
        "Call Trace:",
        " debug_dma_sync_single_for_device+0xbe/0xd0",
        *rest,
        "---[ end trace 0000000000000000 ]---",
    )
    return "\n".join(f"[ 1.0] {line}" for line in lines)


def test_report_of_a_sync_is_left_out_with_lab_dma_only() -> None:
    assert len(splat.find(_of_a_sync(SYNC))) == 1
    assert len(splat.find(_of_a_sync(SYNC), bad_link=True, want=True, iwarp=True)) == 1
    assert splat.find(_of_a_sync(SYNC), lab_dma=True) == []


@pytest.mark.parametrize(
    "first",
    [
        SYNC.replace("lab_dma", "virtio_net"),
        SYNC.replace("tries to sync", "frees"),
        SYNC.replace("tries to sync DMA memory it has not allocated", "syncs DMA memory outside"),
        "lab_dma: the driver syncs 216 bytes at 0xffdfe000: not mapped in this direction",
        "DMA-API: lab_dma 0000:00:01.0: cacheline tracking EEXIST",
    ],
)
def test_other_reports_of_dma_count_with_lab_dma(first: str) -> None:
    text = _of_a_sync(SYNC) + "\n" + _of_a_sync(first)
    (report,) = splat.find(text, lab_dma=True)
    assert first in report


def test_a_report_does_not_hide_in_the_report_of_a_sync() -> None:
    """It is before the known report, among its lines, or after it."""
    known, another = _of_a_sync(SYNC).splitlines(), "[ 1.0] BUG: KASAN: slab-use-after-free in foo"
    for place in range(len(known) + 1):
        text = "\n".join([*known[:place], another, *known[place:]])
        (report,) = splat.find(text, lab_dma=True)
        assert "KASAN" in report
        (alarm,) = splat.find(text.replace(another, ALARM), lab_dma=True)
        assert alarm == ALARM
    # The report has no end: the next one follows.
    (report,) = splat.find("\n".join([*known[:-1], another]), lab_dma=True)
    assert "KASAN" in report


def test_another_report_before_that_warning_counts() -> None:
    server = _warning(
        "drivers/infiniband/core/verbs.c:2164 at ib_destroy_qp_user+0x25c",
        " svc_rdma_free+0x87/0x140 [rpcrdma]",
    ).splitlines()
    # No mark separates the two reports.
    (report,) = splat.find("\n".join(["[ 1.0] BUG: another", *server[1:]]), iwarp=True)
    assert "another" in report


def test_a_lockdep_report_ends_with_its_call_trace() -> None:
    locks = [f"[ 1.0]   lock {n}" for n in range(70)]
    lines = [
        "[ 1.0] WARNING: inconsistent lock state",
        *locks,
        "[ 1.0]  <TASK>",
        "[ 1.0]  foo+0x5c1/0x880",
        "[ 1.0]  </TASK>",
        "[ 2.0] WARNING: foo.c:1 at foo+0x1, CPU#0: insmod/1",
    ]
    lockdep, warning = splat.find("\n".join(lines))
    assert "lock 69" in lockdep and "</TASK>" in lockdep
    assert warning == lines[-1]
