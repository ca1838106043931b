# SPDX-License-Identifier: GPL-2.0
"""The detector sees real reports: each is provoked in a guest's kernel.

Without this, a clean console could as well mean a deaf detector.
"""

from __future__ import annotations

import pytest

from lab import harness, settings, splat
from lab.pair import Pair

EXPECTED = {"warn": "provoked by the lab"}
#: What only the debug kernel notices. Lockdep turns itself off after its first report, and after
#: the first one of KASAN.
EXPECTED_DEBUG = {
    "atomic": "sleeping function called from invalid context",
    "dma": "DMA-API:",
    "lockdep": "possible circular locking",
    "kasan": "KASAN: slab-use-after-free",
}


def _provoke(pair: Pair, report: str) -> str:
    """Load the provoking module; it never stays loaded. Returns the console's new part."""
    before = len(pair.client.console())
    assert pair.client.run(f"insmod /lab/lab_provoke.ko report={report}").status != 0
    return pair.client.console()[before:]


@pytest.mark.provokes
@pytest.mark.debug_kernel
def test_reports_are_seen(pair: Pair) -> None:
    """One of each kind, in the client's kernel."""
    debug = settings.flavour() == "debug"
    expected = EXPECTED | (EXPECTED_DEBUG if debug else {})
    for report, words in expected.items():
        found = "\n".join(splat.find(_provoke(pair, report)))
        assert words in found, f"{report}: detector saw: {found or 'nothing'}"


@pytest.mark.after_all
@pytest.mark.debug_kernel
@pytest.mark.skipif(settings.flavour() != "debug", reason="needs the debug kernel")
def test_no_leaks(pair: Pair) -> None:
    """All that the scenarios before this one allocated is still pointed to, or freed.

    Then the same detector finds memory that really was lost, so it is armed.
    """
    pair.unload()
    found = [text for guest in (pair.client, pair.server) if (text := harness.leaks(guest))]
    assert found == []
    # What the consoles say from here on is provoked.
    for guest in (pair.client, pair.server):
        assert splat.find(guest.console()) == []
    _provoke(pair, "leak")
    # The module's name is gone with it.
    assert 'comm "insmod"' in harness.leaks(pair.client)
    pair.client.sh(f"echo clear > {harness.KMEMLEAK}")
    pair.load()
