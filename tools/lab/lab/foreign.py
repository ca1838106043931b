# SPDX-License-Identifier: GPL-2.0
"""Builds our modules for the machines that are not this host, which takes no kernel and no guest.

A build finds what the sources assume about an architecture or a size of pages. The short form takes
the machine that differs most, the long form each, and a kernel of this host's architecture without
the options that the module can do without.
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
    trees = [(machine, kernel.PREPARED) for machine in machines]
    trees.append((arch.chosen("client"), kernel.BARE))
    for machine, flavour in trees if settings.full() else [(machines[-1], kernel.PREPARED)]:
        built = module.build(kernel.prepared(machine, flavour))
        say(f"{machine.name}, {flavour}: {built.rpcrdma} and {len(built.samples)} samples")
    return 0
