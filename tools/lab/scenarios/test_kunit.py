# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites of our module, run by loading it."""

from __future__ import annotations

import pytest

from lab import ktap
from lab.harness import Lab
from lab.pair import Pair


@pytest.mark.any_link
@pytest.mark.needs_kunit
@pytest.mark.needs_ours
@pytest.mark.debug_kernel
def test_kunit_suites(lab: Lab, pair: Pair) -> None:
    """Every case passes; no case at all would be a failure too."""
    pair.unload()
    before = len(pair.client.console())
    pair.client.sh("insmod /lab/rpcrdma-kunit.ko", timeout=120)
    results = ktap.parse(lab.kernel.src, pair.client.console()[before:])
    print(f"KUnit: {results.passed} passed, {results.failed} failed, {results.skipped} skipped")
    pair.unload()
    pair.load()
    assert results.failed == 0, results.text
    assert results.passed > 0
