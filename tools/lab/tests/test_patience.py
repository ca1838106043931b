# SPDX-License-Identifier: GPL-2.0
"""How many times longer a scenario waits on a slow host."""

from pathlib import Path
from typing import Any, cast

import pytest

from lab.kernel import Kernel
from lab.pair import Pair, Setup


@pytest.mark.parametrize(
    ("flavour", "seconds", "patience"),
    [
        ("plain", 3, 1),
        ("plain", 12, 1),
        ("plain", 30, 2.5),
        ("plain", 1000, 8),
        ("debug", 30, 4),
        ("debug", 60, 5),
    ],
)
def test_patience_follows_the_boot(flavour: str, seconds: float, patience: float) -> None:
    nowhere = Path("/none")
    pair = object.__new__(Pair)
    pair.setup = Setup(Kernel(flavour, nowhere, nowhere, cast(Any, None)), nowhere, nowhere)
    pair.boot_seconds = seconds
    assert pair.patience == patience
