# SPDX-License-Identifier: GPL-2.0
"""Our modules for Debian's own kernel, built in a Debian machine.

The headers there are prepared as on a user's machine, and kept in the cache, so that a change of
the module costs no more than its own build.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from . import debian_root, deps, paths
from .command import logged
from .progress import say, step


def prepare() -> tuple[Path, str, str]:
    """Returns the root of the machine, its kernel's release, and the layers with its headers.

    The cache keeps both.
    """
    log = paths.log_file("debian-headers")
    log.unlink(missing_ok=True)
    with paths.locked("debian"):
        base, release = debian_root.base()
        return base, release, debian_root.with_headers(base, release, log)


def build(merged: Path, release: str, log: Path) -> None:
    """Builds the transport with the samples, and then the modules that provoke faults."""
    debian_root.copy_sources(merged / "root/rpcrdma")
    tree = f"/lib/modules/{release}/build"
    make = [*debian_root.inside(merged), "make"]
    with step(f"modules for {release}: building", log):
        logged([*make, "-C", debian_root.SOURCES, f"KDIR={tree}", "SAMPLES=y"], log)
        provoke = f"{debian_root.SOURCES}/tools/lab/provoke"
        logged([*make, "-C", tree, f"M={provoke}", "modules"], log)


def main(arguments: Sequence[str]) -> int:
    """``lab build``: builds the modules for the kernel that `SERIES` names, and boots nothing."""
    argparse.ArgumentParser(prog="lab build", description=main.__doc__).parse_args(arguments)
    if os.geteuid() != 0:
        say("modules for Debian's own kernel: not built, because its machine needs root")
        return 0
    deps.ensure()
    _, release, layers = prepare()
    log = paths.log_file("debian-modules")
    log.unlink(missing_ok=True)
    with paths.locked("debian"), debian_root.overlay(layers, "with-modules") as merged:
        build(merged, release, log)
        count = len(list((merged / "root/rpcrdma").rglob("*.ko")))
    say(f"{count} modules were built for {release}")
    return 0
