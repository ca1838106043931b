# SPDX-License-Identifier: GPL-2.0
"""Which scenarios a run takes, and the list of them."""

from __future__ import annotations

import pytest

from lab import listing
from lab.errors import LabError
from lab.selection import Case, Run, choose, named


def _case(name: str, *markers: str) -> Case:
    """Builds a case from `file::function[parameters]`."""
    file, _, rest = name.partition("::")
    function, _, parameters = rest.rstrip("]").partition("[")
    return Case(file, function, parameters, frozenset(markers))


CASES = [
    _case("reload::cycles[20]", "debug_kernel"),
    _case("reload::cycles[100]", "debug_kernel", "full"),
    _case("reload::not_while_mounted"),
    _case("mount::first_file[3]"),
    _case("umount::forced[3]", "full"),
    _case("memory::failing", "debug_only", "debug_kernel"),
    _case("kerberos::both_ways", "rxe_only"),
    _case("checksums::both_ways", "needs_ours"),
    _case("unload::refused", "needs_our_server"),
    _case("old_server::files", "needs_legacy"),
    _case("kunit::suites", "needs_kunit"),
    _case("server_quota::space", "full", "needs_quotas"),
    _case("dma::address_in_use_again", "needs_dma", "needs_iommu"),
    _case("dma::small_pool", "needs_dma", "needs_bounce_buffers"),
]
DEBUG = Run(flavour="debug")


def _chosen(*only: str, run: Run | None = None) -> list[int]:
    return sorted(choose(CASES, only, run or Run()))


def test_short_form() -> None:
    assert _chosen() == [0, 2, 3, 6, 7, 9, 10]


def test_long_form() -> None:
    assert _chosen(run=Run(full=True)) == [0, 1, 2, 3, 4, 6, 7, 9, 10]


def test_debug_kernel() -> None:
    assert _chosen(run=DEBUG) == [0, 5]
    assert _chosen(run=Run(flavour="debug", full=True)) == [0, 1, 2, 3, 4, 5, 6, 7, 9, 10]


def test_kernel_of_debian() -> None:
    """It takes what the plain kernel takes, but has no KUnit."""
    assert _chosen(run=Run(flavour="debian")) == [0, 2, 3, 6, 7, 9]


def test_quotas() -> None:
    """They need Debian's kernel and a file system that has them."""
    for export, able in (("xfs", True), ("ext4", True), ("btrfs", False), ("tmpfs", False)):
        run = Run(flavour="debian", full=True, export=export)
        assert (11 in _chosen(run=run)) == able
    assert 11 not in _chosen("server_quota", run=Run(full=True, export="ext4"))


def test_device_behind_the_dma_api() -> None:
    assert {12, 13}.isdisjoint(_chosen())
    assert 12 in _chosen(run=Run(dma="iommu")) and 13 not in _chosen(run=Run(dma="iommu"))
    assert 13 in _chosen(run=Run(dma="swiotlb")) and 12 not in _chosen(run=Run(dma="swiotlb"))


def test_link_and_client() -> None:
    assert 6 not in _chosen(run=Run(link="siw"))
    assert 7 not in _chosen(run=Run(client="stock"))
    assert 8 not in _chosen()
    assert 8 in _chosen(run=Run(server="ours"))


def test_module_without_legacy() -> None:
    assert _chosen(run=Run(legacy=False)) == [0, 2, 3, 6, 7, 10]


def test_name_of_a_file() -> None:
    """A file's name stands for that file alone, although `umount` contains `mount`."""
    assert _chosen("mount") == [3]
    assert _chosen("test_reload.py") == [0, 2]


def test_name_of_a_function() -> None:
    assert _chosen("cycles") == [0]
    assert _chosen("test_both_ways") == [6, 7]
    assert _chosen("kerberos::both_ways") == [6]


def test_name_of_a_case() -> None:
    assert _chosen("cycles[100]") == [1]
    assert _chosen("reload::cycles[100]") == [1]


def test_several_names() -> None:
    assert _chosen("mount", "not_while_mounted") == [2, 3]


def test_part_of_a_name() -> None:
    assert _chosen("while") == [2]


def test_names_of_the_long_form_alone() -> None:
    """The short form has no case of `umount`, so the name stands for all of them."""
    assert _chosen("umount") == [4]
    assert _chosen("not_while_mounted", run=DEBUG) == [2]


def test_long_form_of_a_name() -> None:
    assert _chosen("reload", run=Run(full=True)) == [0, 1, 2]


def test_a_name_that_cannot_run_here() -> None:
    assert _chosen("memory") == []


def test_unknown_name() -> None:
    with pytest.raises(LabError, match=r"relaod.*close to it: reload.*LIST=1"):
        choose(CASES, ["relaod"], Run())


def test_names_for_the_list() -> None:
    assert named(CASES, []) == set(range(len(CASES)))
    assert named(CASES, ["memory", "umount"]) == {4, 5}


def test_list() -> None:
    entries = [
        listing.Entry(CASES[4], "Unmounting", "Force ends calls"),
        listing.Entry(CASES[0], "Loading", "Cycles lose no memory"),
        listing.Entry(CASES[1], "Loading", "Cycles lose no memory"),
        listing.Entry(CASES[2], "Loading", "A module in use stays"),
    ]
    assert listing.lines(entries) == [
        "reload: Loading",
        "  cycles             Cycles lose no memory (FULL=1: 1 of 2 cases)",
        "  not_while_mounted  A module in use stays",
        "umount: Unmounting",
        "  forced             Force ends calls (FULL=1)",
    ]


def test_first_line() -> None:
    assert listing.first_line("One thing.\n\nAnd more.") == "One thing"
    assert listing.first_line(None) == ""
