# SPDX-License-Identifier: GPL-2.0
"""The server's side of the bench: goals, costs by function, allocations and connections."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from lab import crowd, paths
from lab.bench import goals, server
from lab.bench.figures import MODULES, Figure, Figures
from lab.bench.server import bulk, connections, functions, libraries
from lab.errors import GuestError, LabError
from lab.pair import Pair

sys.path.insert(0, str(paths.GUEST))
import allocations

LIBRARIES = libraries.Libraries(
    own=frozenset({"rdma_rw_ctx_init", "rust_helper_lock"}),
    shared=frozenset({"xdr_inline_decode"}),
    folder={"rdma_rw_ctx_init": "drivers/infiniband/core", "nfsd_dispatch": "fs/nfsd"},
)
STOCK = functions.Cost(
    {"svc_rdma_recvfrom": 50.0},
    {"svc_rdma_recvfrom": 50.0, "rdma_rw_ctx_init": 30.0, "xdr_inline_decode": 90.0},
)
OURS = functions.Cost(
    {"_RNvC1a1b": 20.0},
    {"_RNvC1a1b": 20.0, "rust_helper_lock": 5.0, "xdr_inline_decode": 60.0, "nfsd_dispatch": 9.0},
)


def _row(figure: Figure) -> str:
    return " ".join(goals.table([figure]).splitlines()[1].split())


def test_goals_are_ratios_or_values() -> None:
    ratio = Figure("GETATTR, module and libraries", "i", False, {"stock": [100.0], "ours": [89.0]})
    assert _row(ratio).endswith("100 89.00 0.89 0.89-0.89 x0.9 reached")
    value = Figure("WRITE 4 KiB, nfsd woken", "t", False, {"stock": [4.7], "ours": [2.1]})
    assert _row(value).endswith("4.70 2.10 0.45 0.45-0.45 1.1 missed")
    nothing = Figure("WRITE 4 KiB, pages", "p", False, {"stock": [0.0], "ours": [0.0]})
    assert _row(nothing).endswith("0.00 0.00 - 0.05 reached")


def test_goal_of_the_stock_module_alone_is_open() -> None:
    figure = Figure("WRITE 4 KiB, nfsd woken", "t", False, {"stock": [4.7]})
    assert _row(figure).endswith("4.70 - - 1.1")


def test_figure_without_a_goal_may_be_worse() -> None:
    figure = Figure("x", "IOPS", True, {"stock": [3.0, 3.0, 3.0], "ours": [2.0, 2.0, 2.0]})
    assert _row(figure).endswith("worse")


def test_goals_name_figures_of_the_bench() -> None:
    verbs = {title.partition(",")[0] for title in goals.GOALS if "idle" not in title}
    others = {"48 connections", "contended"}
    assert verbs == {verb.title for verb in server.costs.VERBS} | others


def test_libraries_count_on_both_sides() -> None:
    # nfsd needs 60 instructions of the shared function with either module.
    assert STOCK.with_libraries(OURS, LIBRARIES) == 50 + 30 + 30
    assert OURS.with_libraries(STOCK, LIBRARIES) == 20 + 5


def test_files_of_functions(tmp_path: Path) -> None:
    rounds = {"GETATTR": {"stock": [STOCK], "ours": [OURS, OURS]}}
    functions.write(tmp_path, rounds, LIBRARIES)
    text = (tmp_path / "functions.txt").read_text()
    assert "GETATTR, module of stock: 50.0 per RPC" in text
    assert "a::b" in text and "_RN" not in text
    kernel = (tmp_path / "kernel.txt").read_text().splitlines()
    assert kernel[2].split() == ["170.0", "94.0", "-76.0", "sum"]
    assert kernel[3].split() == ["50.0", "0.0", "-50.0", "svc_rdma_recvfrom"]
    folders = (tmp_path / "folders.txt").read_text()
    assert "50.0       20.0       -30.0  rpcrdma.ko" in folders
    assert "0.0        9.0        +9.0  fs/nfsd" in folders


TRACE = """\
 nfsd-9 [000] ..... 5.1: kmalloc: call_site=svc_rdma_send+0x1/0x2 [rpcrdma] ptr=1 bytes_req=8
 nfsd-9 [000] ..... 5.1: kmalloc: call_site=rdma_rw_ctx_init+0x1/0x2 ptr=1 bytes_req=8
 nfsd-9 [000] ..... 5.1: kmalloc: call_site=rust_helper_krealloc+0x1/0x2 ptr=1 bytes_req=8
 nfsd-9 [000] ..... 5.1: kmem_cache_alloc: call_site=nfsd_open+0x1/0x2 ptr=1 bytes_req=8
 nfsd-9 [000] ..... 5.1: kmalloc: call_site=krealloc_user+0x1/0x2 [nfsd] ptr=1 bytes_req=8
 nfsd-9 [000] ..... 5.2: mm_page_alloc: page=1 pfn=0x1 order=0 migratetype=0 gfp_flags=GFP_KERNEL
 nfsd-9 [000] ..... 5.2: <stack trace>
 => __alloc_pages_noprof
 => svc_fill_pages
 nfsd-9 [000] ..... 5.2: mm_page_alloc: page=1 pfn=0x1 order=0 migratetype=0 gfp_flags=GFP_ATOMIC
 nfsd-9 [000] ..... 5.3: <stack trace>
 => __alloc_skb
 => svc_rdma_send [rpcrdma]
 nfsd-9 [000] ..... 5.3: mm_page_alloc: page=1 pfn=0x1 order=0 migratetype=0 gfp_flags=GFP_KERNEL
 nfsd-9 [000] ..... 5.3: <stack trace>
 => shmem_alloc_folio
 nfsd-9 [000] ..... 5.4: kmalloc: call_site=nfsd4_sequence+0x1/0x2 ptr=1 bytes_req=8
 nfsd-9 [000] ..... 5.4: mm_page_alloc: page=1 pfn=0x1 order=2 migratetype=0 gfp_flags=GFP_KERNEL
 nfsd-9 [000] ..... 5.4: <stack trace>
 => take+0x1 [rpcrdma]
"""


def test_allocations_of_the_transport() -> None:
    assert allocations.count(TRACE.splitlines()) == (3, 1 + 4)


LISTING = """
ffffffff81299ca6:\te8 05 03 00 00 \tcall   ffffffff81299fb0 <__rmqueue_pcplist>
ffffffff81299cab:\t48 85 c0       \ttest   %rax,%rax
ffffffff81299d63:\te8 48 11 00 00 \tcall   ffffffff8129aeb0 <__alloc_frozen_pages_noprof>
ffffffff81299d68:\t48 85 c0       \ttest   %rax,%rax
"""


def test_place_of_pages_in_bulk() -> None:
    assert bulk.after_call(LISTING) == 0xFFFFFFFF81299CAB
    for listing in ("", LISTING + LISTING):
        with pytest.raises(LabError):
            bulk.after_call(listing)


def test_answer_to_a_crowd() -> None:
    assert crowd.answered("established 48 refused 0 seconds 0.2500\n", 48) == 0.25
    for text in ("established 47 refused 1 seconds 0.25", "fatal rdma_connect: x", ""):
        with pytest.raises(GuestError):
            crowd.answered(text, 48)


def test_fortunes_of_a_crowd() -> None:
    text = """\
established 4 refused 0 seconds 0.2500
pressed 10.0 read16k 812 0 0 0.25 read1m 40 1 0 1.50 write1m 0 0 2 0.00 stop 9 0 1 3.25
"""
    fared = crowd.fared(text)
    assert tuple(fared) == crowd.KINDS
    assert fared["read1m"] == crowd.Pressed(answered=40, failed=1, lost=0, longest=1.5)
    assert fared["write1m"].lost == 2


def test_queues_of_the_device() -> None:
    text = """\
0x1-0x2   36864 rxe_queue_init+0x8a/0x140 pages=8 vmalloc user
0x2-0x3    8192 rxe_queue_init+0x8a/0x140 pages=1 vmalloc user
0x3-0x4   20480 copy_process+0x1a/0x20 pages=4 vmalloc
"""
    assert [connections.device_kilobytes(text, page) for page in (4, 64)] == [36, 576]


def test_modules_take_turns_on_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    @contextmanager
    def serving(_: object, module: str, payload: int) -> Iterator[None]:
        order.append(f"{module} {payload}")
        yield

    monkeypatch.setattr(server, "serving", serving)
    row = server.Row("a", 2, lambda _, module, __: order.append(module), 7)
    plan = server.Plan(["a"], MODULES, None, 1, "4.2")
    server._rounds(cast("Pair", None), row, plan, Figures())
    assert order == ["stock 7", "stock", "ours 7", "ours", "ours 7", "ours", "stock 7", "stock"]
