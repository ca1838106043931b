# SPDX-License-Identifier: GPL-2.0
"""Builds kernel and guest image into the cache, unless they are there."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from . import image, kernel, settings
from .progress import say


def main(arguments: Sequence[str]) -> int:
    """``lab prepare [--kernel plain|debug]``."""
    parser = argparse.ArgumentParser(prog="lab prepare", description=__doc__)
    parser.add_argument("--kernel", default=settings.flavour(), choices=("plain", "debug"))
    chosen = parser.parse_args(arguments)
    root = image.ensure()
    built = kernel.ensure(chosen.kernel)
    say(f"guest image {root}")
    say(f"kernel {chosen.kernel}: source {built.src}, build tree {built.obj}")
    say(f"rustc {built.tools.rustc}, bindgen {built.tools.bindgen}")
    return 0
