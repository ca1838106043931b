# SPDX-License-Identifier: GPL-2.0
"""Builds kernel and guest image into the cache, unless they are there; on request the modules."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from . import arch, image, kernel, module, settings
from .progress import say


def main(arguments: Sequence[str]) -> int:
    """``lab prepare [--kernel plain|debug] [--modules]``."""
    parser = argparse.ArgumentParser(prog="lab prepare", description=__doc__)
    parser.add_argument("--kernel", default=settings.flavour(), choices=("plain", "debug"))
    parser.add_argument("--modules", action="store_true", help="also build our modules")
    chosen = parser.parse_args(arguments)
    sides = {arch.chosen(side): side for side in ("server", "client")}
    for machine, side in sides.items():
        root = image.ensure(machine)
        built = kernel.ensure(chosen.kernel, side)
        if chosen.modules:
            module.build(built)
            module.build(built, kunit=True)
        say(f"guest image {root}")
        say(f"kernel {chosen.kernel} ({machine.name}): source {built.src}, build tree {built.obj}")
        say(f"rustc {built.tools.rustc}, bindgen {built.tools.bindgen}")
    return 0
