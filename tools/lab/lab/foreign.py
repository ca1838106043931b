# SPDX-License-Identifier: GPL-2.0
"""Builds our modules for the machines that are not this host, which takes no kernel and no guest.

A build finds what the sources assume about an architecture or a size of pages. The short form takes
the machine that differs most, the long form each.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from . import arch, deps, kernel, module, settings
from .progress import say


def main(arguments: Sequence[str]) -> int:
    """``lab foreign``."""
    argparse.ArgumentParser(prog="lab foreign", description=__doc__).parse_args(arguments)
    deps.ensure()
    machines = [machine for machine in arch.MACHINES if not machine.native]
    for machine in machines if settings.full() else machines[-1:]:
        built = module.build(kernel.prepared(machine))
        say(f"{machine.name}: {built.rpcrdma} and {len(built.samples)} samples")
    return 0
