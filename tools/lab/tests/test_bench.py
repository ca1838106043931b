# SPDX-License-Identifier: GPL-2.0
"""The bench: ratios and verdicts, the table and the plot, and figures from traces."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import cast
from xml.etree import ElementTree

import pytest

from lab import bench
from lab.bench import clock, connections, link, recovery, workloads
from lab.bench.figures import MODULES, Figure, Figures, table
from lab.bench.plot import svg
from lab.errors import GuestError
from lab.kernel import Kernel
from lab.pair import Pair, Setup
from lab.tracing import Event


def _figure(stock: list[float], ours: list[float], *, more: bool) -> Figure:
    return Figure("reads", "IOPS", more, {"stock": stock, "ours": ours})


def test_ratio_is_the_median_of_the_rounds() -> None:
    # The host became three times as fast and then slow again, which must not matter.
    figure = _figure([100.0, 300.0, 110.0], [110.0, 360.0, 143.0], more=True)
    assert figure.rounds == [1.1, 1.2, 1.3]
    assert figure.ratio == 1.2
    assert figure.spread == (1.1, 1.3)


@pytest.mark.parametrize(
    ("ours", "more", "worse"),
    [
        ([90.0, 195.0, 99.0], True, True),
        ([90.0, 201.0, 99.0], True, False),
        ([101.0, 202.0, 101.0], False, True),
        ([99.0, 202.0, 101.0], False, False),
        ([300.0, 400.0, 300.0], True, False),
        ([90.0, 195.0], True, False),
    ],
)
def test_worse_is_worse_in_every_round(ours: list[float], more: bool, worse: bool) -> None:
    stock = [100.0, 200.0, 100.0][: len(ours)]
    assert _figure(stock, ours, more=more).worse is worse


def test_table_has_least_median_and_most() -> None:
    row = table([_figure([1.0, 2.0, 3.0], [4.0, 6.0, 5.0], more=False)]).splitlines()[1]
    assert " ".join(row.split()) == "reads IOPS 1.00 2.00 3.00 4.00 5.00 6.00 3.00 1.67-4.00 worse"


def test_table_without_ours_has_no_ratio() -> None:
    row = table([Figure("reads", "IOPS", True, {"stock": [100.0]})]).splitlines()[1]
    assert " ".join(row.split()) == "reads IOPS 100 100 100 - - -"


def test_modules_take_turns_at_every_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def ready(_: object, __: str) -> AbstractContextManager[None]:
        return nullcontext()

    order: list[str] = []
    found = [
        clock.Job(name, lambda _, module, __, name=name: order.append(f"{name} {module}"), ready)
        for name in ("a", "b")
    ]
    monkeypatch.setattr(clock, "jobs", lambda _: found)
    monkeypatch.setattr(workloads, "prepare", lambda _: None)
    clock.by_the_clock(cast("Pair", None), MODULES, 2, 1, Figures())
    assert order == [
        "a stock", "a ours", "b ours", "b stock",
        "a ours", "a stock", "b stock", "b ours",
    ]  # fmt: skip


def test_figures_of_one_name_are_one() -> None:
    figures = Figures()
    figures.note("a", "s", "ours", 1.0)
    figures.note("b", "s", "ours", 3.0)
    figures.note("a", "s", "ours", 2.0)
    assert [figure.values["ours"] for figure in figures] == [[1.0, 2.0], [3.0]]


def test_plot_has_a_bar_for_each_ratio() -> None:
    figures = [_figure([100.0], [50.0], more=True), Figure("x", "s", True, {"stock": [1.0]})]
    root = ElementTree.fromstring(svg(figures, "a <title>"))
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert "a <title>" in texts
    assert "0.50" in texts
    bars = [element for element in root.iter() if element.tag.endswith("rect")]
    assert len(bars) == 2  # one of them the background


def _events(*lines: tuple[float, str, str]) -> list[Event]:
    return [Event(*line) for line in lines]


def test_connect_ends_with_the_first_call() -> None:
    events = _events(
        (1.0, "xprtrdma_op_connect", ""),
        (1.5, "xprtrdma_post_send", ""),
        (1.6, "xprtrdma_post_send", ""),
        (3.0, "xprtrdma_op_connect", ""),
        (3.25, "xprtrdma_post_send", ""),
    )
    assert connections.connects(events) == [0.5, 0.25]
    with pytest.raises(GuestError):
        connections.connects([])


def test_lock_is_held_from_the_last_taking() -> None:
    events = _events(
        (1.0, "xprt_reserve_cong", "task:1@1 snd_task:2@1"),
        (2.0, "xprt_reserve_cong", "task:1@1 snd_task:1@1"),
        (2.5, "xprt_release_cong", "task:1@1 snd_task:ffffffff@ffffffff"),
        (3.0, "xprt_release_cong", "task:9@1 snd_task:ffffffff@ffffffff"),
    )
    assert connections.holds(events) == [0.5]


PERFTEST = """\
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 1048576    200              203.10             198.55             0.000199
---------------------------------------------------------------------------------------
"""


def test_average_of_perftest() -> None:
    assert link.parse(PERFTEST) == 198.55
    with pytest.raises(GuestError):
        link.parse("Couldn't connect")


def test_recovery_shows_every_round_and_never() -> None:
    figures = Figures()
    for stall in (3.0, recovery.NEVER, 5.26):
        figures.note("restart", "s", "stock", stall)
    figures.note("restart", "s", "ours", 2.0)
    row = recovery.table(figures).splitlines()[1]
    assert row.split() == ["restart", "5.3", "3.0", "never", "5.3", "2.0", "2.0"]
    assert recovery.records(figures) == {"restart": {"stock": [3.0, None, 5.26], "ours": [2.0]}}


def test_recovery_goes_on_after_a_row_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    setup = Setup(cast("Kernel", None), Path(), Path())
    bench = recovery.Bench(setup, Path(), ("3",))
    monkeypatch.setattr(bench, "_set_up", lambda _: done.append("set up") or [])
    monkeypatch.setattr(bench, "_end", lambda _: done.append("end"))

    def stall(_: str, __: object, name: str) -> list[bool]:
        done.append(name)
        return [name != "b"]

    monkeypatch.setattr(bench, "_stall", stall)
    bench.stalls("ours", ["a", "b", "c"])
    assert done == ["set up", "a", "b", "end", "set up", "c", "end"]


@pytest.mark.parametrize("words", [["--side", "both"], ["--counts-only"]])
def test_no_counts_must_leave_something(words: list[str]) -> None:
    """A bench that would measure nothing does not begin."""
    with pytest.raises(SystemExit) as ended:
        bench.main([*words, "--no-counts"])
    assert ended.value.code == 2
