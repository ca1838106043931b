# SPDX-License-Identifier: GPL-2.0
"""The bench: ratios and verdicts, the table and the plot, what is read out of traces."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from lab.bench import connections, link
from lab.bench.figures import Figure, Figures, table
from lab.bench.plot import svg
from lab.errors import GuestError
from lab.tracing import Event


def _figure(stock: list[float], ours: list[float], *, more: bool) -> Figure:
    return Figure("reads", "IOPS", more, {"stock": stock, "ours": ours})


def test_ratio_is_that_of_medians() -> None:
    figure = _figure([90.0, 100.0, 110.0], [50.0, 400.0, 150.0], more=True)
    assert figure.ratio == 1.5
    assert figure.spread == (0.5, 4.0)


@pytest.mark.parametrize(
    ("ours", "more", "worse"),
    [
        ([90.0, 95.0], True, True),
        ([90.0, 101.0], True, False),
        ([101.0, 102.0], False, True),
        ([99.0, 102.0], False, False),
        ([300.0, 400.0], True, False),
    ],
)
def test_worse_is_worse_in_every_round(ours: list[float], more: bool, worse: bool) -> None:
    assert _figure([100.0], ours, more=more).worse is worse


def test_table_has_least_median_and_most() -> None:
    row = table([_figure([1.0, 2.0, 3.0], [4.0, 6.0, 5.0], more=False)]).splitlines()[1]
    assert " ".join(row.split()) == "reads IOPS 1.00 2.00 3.00 4.00 5.00 6.00 2.50 worse"


def test_table_without_ours_has_no_ratio() -> None:
    row = table([Figure("reads", "IOPS", True, {"stock": [100.0]})]).splitlines()[1]
    assert " ".join(row.split()) == "reads IOPS 100 100 100 - - -"


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
