# SPDX-License-Identifier: GPL-2.0
"""The page about tuning proposes what the bench measures."""

from lab import paths
from lab.bench.figures import Figures
from lab.bench.tuning import ADVICES, CHOSEN, DEFAULT, table

PAGE = (paths.ROOT / "Documentation/tuning.rst").read_text(encoding="utf-8")


def test_page_has_what_is_measured() -> None:
    """Each kind of host has a section, and each setting of it is named there."""
    for advice in ADVICES:
        title = f"\nA {advice.host}: "
        assert title in PAGE, advice.title
        section = PAGE.split(title)[1].split("\n===")[1]
        for name in (*advice.client, *advice.server):
            assert name in section, advice.title
        assert advice.setting in section, advice.title


def test_table_has_ratios() -> None:
    """A figure that was measured in one state alone has no ratio."""
    figures = Figures()
    for state, value in ((DEFAULT, 200.0), (CHOSEN, 150.0)):
        figures.note("READ 4 KiB", "instructions", state, value)
    figures.note("half", "KiB", DEFAULT, 7.0)
    lines = table({"database: 16 KiB inline": figures}).splitlines()
    assert lines[1] == "database: 16 KiB inline"
    assert lines[2].split() == ["READ", "4", "KiB", "instructions", "200", "150", "0.75"]
    assert len(lines) == 3
