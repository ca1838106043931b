# SPDX-License-Identifier: GPL-2.0
"""The detector finds real reports, which a module of the lab provokes in a guest's kernel.

Otherwise a quiet console might mean that the detector does not work.
"""

from __future__ import annotations

import pytest

from lab import harness, settings, splat
from lab.pair import Pair

EXPECTED = {"warn": "provoked by the lab"}
#: Reports that only the debug kernel makes. Lockdep turns itself off after its first report, and
#: after the first report of KASAN.
EXPECTED_DEBUG = {
    "atomic": "sleeping function called from invalid context",
    "dma": "DMA-API:",
    "lockdep": "possible circular locking",
    "kasan": "KASAN: slab-use-after-free",
}


def _provoke(pair: Pair, report: str) -> str:
    """Loads the provoking module, which never stays loaded; returns the console's new lines."""
    before = len(pair.client.console())
    assert pair.client.run(f"insmod /lab/lab_provoke.ko report={report}").status != 0
    return pair.client.console()[before:]


@pytest.mark.any_link
@pytest.mark.provokes
@pytest.mark.debug_kernel
def test_reports_are_seen(pair: Pair) -> None:
    """The detector finds a report of each kind in the client's console."""
    debug = settings.flavour() == "debug"
    expected = EXPECTED | (EXPECTED_DEBUG if debug else {})
    for report, words in expected.items():
        found = "\n".join(splat.find(_provoke(pair, report)))
        assert words in found, f"{report}: detector saw: {found or 'nothing'}"


@pytest.mark.after_all
@pytest.mark.any_link
@pytest.mark.debug_kernel
@pytest.mark.debug_only
def test_no_leaks(pair: Pair) -> None:
    """There is no leak after all other scenarios, and kmemleak finds a leak made on purpose."""
    pair.unload()
    found = [text for guest in (pair.client, pair.server) if (text := harness.leaks(guest))]
    assert found == []
    # All reports from here on are provoked.
    for guest in (pair.client, pair.server):
        assert splat.find(guest.console()) == []
    _provoke(pair, "leak")
    # kmemleak has no name for a module that is gone.
    assert 'comm "insmod"' in harness.leaks(pair.client)
    pair.client.sh(f"echo clear > {harness.KMEMLEAK}")
    pair.load()
