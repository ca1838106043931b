# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites of our module, run by loading it."""

from __future__ import annotations

import pytest

from lab import frames, ktap, module, paths
from lab.harness import Lab
from lab.pair import Pair


@pytest.mark.any_link
@pytest.mark.needs_kunit
@pytest.mark.needs_ours
@pytest.mark.debug_kernel
def test_kunit_suites(lab: Lab, pair: Pair) -> None:
    """Every suite and every case that the sources declare runs and passes, on a small stack."""
    if lab.kernel.flavour == "plain":  # KASAN has larger frames, and stacks of twice the size.
        tested = module.build(lab.kernel, kunit=True).rpcrdma
        used = frames.of(tested, f"{lab.kernel.machine.tools}objdump")
        assert frames.check(used, frames.TESTS_LIMIT)
    declared = ktap.declared(paths.ROOT / "rust")
    pair.unload()
    before = len(pair.client.console())
    pair.client.sh("insmod /lab/rpcrdma-kunit.ko", timeout=120)
    results = ktap.parse(lab.kernel.src, pair.client.console()[before:])
    print(f"KUnit: {results.passed} passed, {results.failed} failed, {results.skipped} skipped")
    pair.unload()
    pair.load()
    assert results.failed == 0, results.text
    missing = {
        suite: absent
        for suite, cases in declared.items()
        if (absent := cases - results.suites.get(suite, set()))
    }
    assert not missing, f"declared, and not run: {missing}"
    assert results.passed == sum(map(len, declared.values()))
