# SPDX-License-Identifier: GPL-2.0
"""The detector sees real reports: each is provoked in a guest's kernel.

Without this, a clean console could as well mean a deaf detector.
"""

from __future__ import annotations

import pytest

from lab import harness, settings, splat
from lab.pair import Pair


def _provoke(pair: Pair, report: str) -> str:
    """Load the provoking module; it never stays loaded. Returns the console's new part."""
    before = len(pair.client.console())
    assert pair.client.run(f"insmod /lab/lab_provoke.ko report={report}").status != 0
    return pair.client.console()[before:]


@pytest.mark.provokes
@pytest.mark.debug_kernel
def test_warning_is_seen(pair: Pair) -> None:
    """A WARN in the client's kernel."""
    (report,) = splat.find(_provoke(pair, "warn"))
    assert "provoked by the lab" in report


DEBUG_ONLY = {
    "lockdep": "possible circular locking",
    "atomic": "sleeping function called from invalid context",
    "kasan": "KASAN: slab-use-after-free",
    "dma": "DMA-API:",
}


@pytest.mark.provokes
@pytest.mark.debug_kernel
@pytest.mark.parametrize("report", DEBUG_ONLY)
@pytest.mark.skipif(settings.flavour() != "debug", reason="needs the debug kernel")
def test_debug_report_is_seen(pair: Pair, report: str) -> None:
    """What only the debug kernel notices."""
    found = "\n".join(splat.find(_provoke(pair, report)))
    assert DEBUG_ONLY[report] in found


@pytest.mark.provokes
@pytest.mark.debug_kernel
@pytest.mark.skipif(settings.flavour() != "debug", reason="needs the debug kernel")
def test_leak_is_seen(pair: Pair) -> None:
    """The leak detector is armed: it finds memory that nothing points to any more."""
    _provoke(pair, "leak")
    assert "lab_provoke" in harness.leaks(pair.client)
