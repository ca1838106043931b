# SPDX-License-Identifier: GPL-2.0
"""Tests of the edits that make rxe and siw devices behind the DMA API."""

from pathlib import Path

import pytest

from lab import device
from lab.errors import LabError


def _source(name: str) -> str:
    """Returns a file that has each text that the edits replace."""
    edits = [edit for edit in device.EDITS if edit.file == name]
    return "\n".join(edit.old for edit in edits for _ in range(edit.count))


@pytest.mark.parametrize("name", sorted({edit.file for edit in device.EDITS}))
def test_each_text_is_replaced(name: str) -> None:
    text = device.edited(name, _source(name))
    for edit in device.EDITS:
        assert edit.file != name or text.count(edit.new) == edit.count


def test_the_source_has_each_text(source: Path) -> None:
    files = [
        p for link in device.STARTS for p in (source / f"{device.SOURCES}/{link}").glob("*.[ch]")
    ]
    assert {edit.file for edit in device.EDITS} <= {path.name for path in files}
    for path in files:
        device.edited(path.name, path.read_text())


def test_a_text_that_is_missing_is_reported() -> None:
    text = _source("rxe_mr.c").replace("ib_virt_dma_to_page(dma_addr)", "some_page(dma_addr)")
    with pytest.raises(LabError, match=r"rxe_mr.c has changed.*0 times, not 1"):
        device.edited("rxe_mr.c", text)


def test_a_new_use_of_a_pointer_is_reported() -> None:
    with pytest.raises(LabError, match=r"rxe_recv.c has changed: a new use"):
        device.edited("rxe_recv.c", "p = ib_virt_dma_to_ptr(addr);")


def test_other_files_stay() -> None:
    assert device.edited("rxe_cq.c", "int x;\n") == "int x;\n"
