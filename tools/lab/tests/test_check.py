# SPDX-License-Identifier: GPL-2.0
"""How `make lab-check` divides its work into runs of pytest."""

from __future__ import annotations

import threading
from typing import IO

import pytest
from _pytest.mark.expression import Expression

from lab import check
from lab.selection import Case, Run, possible

SWITCHES = ("KERNEL", "LINK", "DMA", "CLIENT", "SERVER", "FULL", "ONLY", "LIST", "KEEP", "GDB")
SWITCHES += ("PAIRS", "PROFILE", "EXPORT")
PLAIN = check.Round("plain", "rxe")


@pytest.fixture(autouse=True)
def _no_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SWITCHES:
        monkeypatch.delenv(name, raising=False)


def test_long_form_has_three_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FULL", "1")
    monkeypatch.setenv("SERVER", "stock")
    rounds = check._rounds()
    assert [(turn.flavour, turn.link) for turn in rounds] == [
        ("plain", "rxe"),
        ("debug", "rxe"),
        ("plain", "siw"),
    ]
    assert [turn.markers for turn in rounds] == ["", "", "not any_link"]


def test_rounds_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's scenarios have two rounds of their own."""
    assert [(turn.client, turn.server, turn.markers) for turn in check._rounds()] == [
        ("ours", "stock", "not server"),
        ("ours", "ours", "(server or both_roles) and not server_long"),
        ("stock", "ours", "both_roles and not server_long"),
        ("ours", "ours", "dma"),
        ("ours", "ours", "dma"),
    ]
    monkeypatch.setenv("FULL", "1")
    rounds = check._rounds()
    assert len(rounds) == 16
    assert rounds[0].markers == ""
    markers = "not any_link and (server or both_roles)"
    assert rounds[8] == check.Round("plain", "siw", markers, "stock", "ours")


def test_rounds_behind_the_dma_api(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both forms have rounds for each mode, unless `DMA` names the mode of all rounds."""
    rounds = [turn for turn in check._rounds() if turn.dma != "none"]
    assert [(turn.dma, turn.markers) for turn in rounds] == [("iommu", "dma"), ("swiotlb", "dma")]
    assert rounds[0].environment["DMA"] == "iommu"
    assert rounds[0].name == "scenarios (plain kernel, ours client, ours server, rxe, DMA=iommu)"
    assert len(check._parts(rounds[0], [])) == 1
    monkeypatch.setenv("PROFILE", "mlx5")
    assert rounds[0].name.endswith("DMA=iommu, PROFILE=mlx5)")
    monkeypatch.setenv("DMA", "swiotlb")
    assert [turn.dma for turn in check._rounds()] == ["swiotlb"] * 3
    monkeypatch.delenv("DMA")
    monkeypatch.setenv("FULL", "1")
    full = [turn for turn in check._rounds() if turn.dma != "none"]
    kinds = [("plain", "rxe"), ("debug", "rxe"), ("plain", "siw")]
    assert [(turn.flavour, turn.link) for turn in full] == kinds * 2
    assert {turn.dma for turn in full} == {"iommu", "swiotlb"}


def test_short_rounds_side_by_side(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The rounds of the DMA API share the host, and each prints its whole text at the end."""
    monkeypatch.setenv("PAIRS", "2")
    assert [len(group) for group in check._groups(check._rounds())] == [1, 1, 1, 2]
    monkeypatch.setenv("KEEP", "1")
    assert all(len(group) == 1 for group in check._groups(check._rounds()))
    monkeypatch.delenv("KEEP")
    both = threading.Barrier(2, timeout=60)

    def run(_words: object, suite: str, output: IO[bytes], **_env: str) -> int:
        for word in ("begin", "end"):
            both.wait()
            output.write(f"{word} {suite[-4:-1]}\n".encode())
        return 0

    monkeypatch.setattr(check, "prepare", lambda _turn: None)
    monkeypatch.setattr(check, "pytest", run)
    monkeypatch.setattr(check.paths, "run_directory", lambda name: name)
    monkeypatch.setattr(check.accesses, "total", lambda _directory: 7)
    *_, group = check._groups(check._rounds())
    assert [one.accesses for one in check._run_group(group, [])] == [7, 7]
    printed = "begin mmu\nend mmu\nbegin tlb\nend tlb\n"
    assert capfd.readouterr().out.endswith(printed)
    monkeypatch.setenv("PAIRS", "1")
    assert [len(group) for group in check._groups(check._rounds())] == [1] * 5


def test_a_round_over_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The long form repeats some scenarios over ext4, unless `EXPORT` names another."""
    assert all(turn.export == "tmpfs" for turn in check._rounds())
    monkeypatch.setenv("FULL", "1")
    *others, last = check._rounds()
    assert all(turn.export == "tmpfs" for turn in others)
    assert (last.export, last.markers, last.server) == ("ext4", "export", "ours")
    assert last.environment["EXPORT"] == "ext4"
    assert last.name == "scenarios (plain kernel, ours client, ours server, rxe, EXPORT=ext4)"
    monkeypatch.setenv("EXPORT", "ext4")
    assert len(check._rounds()) == 15


class _Collected:
    """Keeps the markers of the scenarios that pytest has collected, by their names."""

    def __init__(self) -> None:
        self.markers: dict[str, frozenset[str]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            self.markers[item.nodeid] = frozenset(mark.name for mark in item.iter_markers())


def _takes(turn: check.Round, markers: frozenset[str]) -> bool:
    """Whether a round of the long form contains a scenario with these markers."""
    modules = turn.client, turn.server
    run = Run(turn.flavour, turn.link, *modules, full=True, dma=turn.dma, export=turn.export)
    if not possible(Case("", "", "", markers), run):
        return False
    return not turn.markers or Expression.compile(turn.markers).evaluate(
        lambda name, **_: name in markers
    )


def test_each_scenario_is_in_the_long_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """No markers exclude one another. Quotas need Debian's kernel, which has a run of its own."""
    collected = _Collected()
    monkeypatch.setenv("LIST", "1")
    pytest.main([str(check.paths.LAB / "scenarios"), "-qq"], plugins=[collected])
    monkeypatch.delenv("LIST")
    monkeypatch.setenv("FULL", "1")
    rounds = check._rounds()
    found = collected.markers
    left = {name for name in found if not any(_takes(turn, found[name]) for turn in rounds)}
    assert found
    assert left == {name for name in found if "needs_quotas" in found[name]}


def test_named_modules_are_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER", "ours")
    monkeypatch.setenv("CLIENT", "stock")
    (turn,) = check._rounds()
    assert (turn.client, turn.server, turn.markers) == ("stock", "ours", "")
    assert turn.environment["SERVER"] == "ours"
    assert turn.name == "scenarios (plain kernel, stock client, ours server, rxe)"


def test_names_of_scenarios_are_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FULL", "1")
    monkeypatch.setenv("ONLY", "mount")
    assert check._rounds() == [PLAIN]


def test_a_named_kernel_has_a_round_for_each_pair_of_modules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FULL", "1")
    monkeypatch.setenv("KERNEL", "plain")
    rounds = check._rounds()
    assert rounds[0] == PLAIN
    assert [(turn.client, turn.server) for turn in rounds[1:]] == [
        ("ours", "ours"),
        ("stock", "ours"),
        ("ours", "ours"),
        ("ours", "ours"),
    ]


def test_several_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scenarios by the clock run after the others; the round's marker stays effective."""
    monkeypatch.setenv("PAIRS", "2")
    shared, alone = check._parts(check.Round("plain", "siw", "not any_link"), [])
    assert "not by_the_clock and not any_link" in shared
    assert shared[-4:] == ["-n", "2", "--dist", "loadgroup"]
    assert "by_the_clock and not any_link" in alone
    assert "-n" not in alone


@pytest.mark.parametrize("name", ["ONLY", "KEEP", "GDB"])
def test_watched_runs_have_the_terminal(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("PAIRS", "2")
    monkeypatch.setenv(name, "1")
    assert check._parts(PLAIN, []) == [["-v", "-s"]]


def test_given_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check._parts(PLAIN, ["-k", "x"]) == [["-k", "x"]]
    monkeypatch.setenv("KEEP", "1")
    assert check._parts(PLAIN, ["-k", "x"]) == [["-k", "x", "-v", "-s"]]


@pytest.mark.parametrize(
    ("statuses", "wanted"),
    [([0, 0], 0), ([0, 5], 0), ([5, 5], 5), ([0, 1], 1), ([0, -9], -9), ([-9, 0], -9)],
)
def test_status_of_several_runs(
    monkeypatch: pytest.MonkeyPatch, statuses: list[int], wanted: int
) -> None:
    """A run that a signal has ended is a failure, whatever the others are."""
    monkeypatch.setenv("CLIENT", "ours")
    monkeypatch.setenv("PAIRS", "2")
    assert _status(monkeypatch, statuses, 0) == wanted


@pytest.mark.parametrize(("accesses", "status", "wanted"), [(9, 0, 0), (0, 0, 1), (0, 5, 1)])
def test_a_round_behind_the_dma_api_without_accesses(
    monkeypatch: pytest.MonkeyPatch, accesses: int, status: int, wanted: int
) -> None:
    """The short rounds fail when no scenario of theirs has run."""
    monkeypatch.setenv("PAIRS", "1")
    assert _status(monkeypatch, [0, 0, 0, status, status], accesses) == wanted


def _status(monkeypatch: pytest.MonkeyPatch, statuses: list[int], accesses: int) -> int:
    """Returns the status of a run whose runs of pytest have these, each with that many accesses."""
    monkeypatch.setattr(check.deps, "ensure", lambda: None)
    monkeypatch.setattr(check, "prepare", lambda _flavour: None)
    monkeypatch.setattr(check.paths, "run_directory", lambda name: name)
    monkeypatch.setattr(check.accesses, "total", lambda _directory: accesses)
    left = list(statuses)
    monkeypatch.setattr(check, "pytest", lambda *_, **__: left.pop(0))
    status = check.main([])
    assert left == []
    return status
