# SPDX-License-Identifier: GPL-2.0
"""Run the scenarios under pytest: the short form on the plain kernel, `FULL=1` on both."""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Sequence

from . import deps, image, kernel, module, paths, settings
from .progress import say


def pytest(arguments: Sequence[str], suite: str, **env: str) -> int:
    """Run pytest in the lab's venv; its exit status."""
    python = deps.install_venv() / "bin/python"
    settled = {**os.environ, "PYTHONPATH": str(paths.LAB), "LAB_SUITE": suite, **env}
    settled["PYTHONDONTWRITEBYTECODE"] = "1"
    args = [python, "-m", "pytest", "--rootdir", paths.LAB, "-c", paths.LAB / "pyproject.toml"]
    return subprocess.run([*map(str, args), *arguments], env=settled).returncode


def prepare(flavour: str) -> None:
    """Build all that the scenarios need, so that none of it counts as their time."""
    image.ensure()
    built = kernel.ensure(flavour)
    if settings.client() == "ours":
        module.build(built)
        module.build(built, kunit=True)


def main(arguments: Sequence[str]) -> int:
    """``lab check [pytest arguments]``: plain, with `FULL=1` debug too; or what `KERNEL` names."""
    parser = argparse.ArgumentParser(prog="lab check", description=__doc__)
    _, rest = parser.parse_known_args(arguments)
    deps.ensure()
    flavours = ["plain", "debug"] if settings.full() else ["plain"]
    if os.environ.get("KERNEL"):
        flavours = [settings.flavour()]
    worst = 0
    for flavour in flavours:
        prepare(flavour)
        name = f"scenarios ({flavour} kernel, {settings.client()} client, {settings.link()})"
        say(f"{name}: running")
        # Progress shows at once: -s would mix, -v prints each scenario as it ends.
        tests = rest or ["-v", "--durations", "8"]
        status = pytest([str(paths.LAB / "scenarios"), *tests], name, KERNEL=flavour)
        worst = max(worst, 0 if status == 5 else status)
    return worst
