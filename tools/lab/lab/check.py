# SPDX-License-Identifier: GPL-2.0
"""Run the scenarios under pytest: the short form on the plain kernel; `FULL=1` all of them.

That is: on the plain kernel, on the debug kernel, and over iWARP what the link matters to.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Sequence

from . import deps, image, kernel, module, paths, settings
from .progress import say

#: What pytest ends with then.
NOTHING_SELECTED = 5
#: Files of scenarios that are the same over any link.
ANY_LINK = ("test_kunit", "test_debian", "test_detector")


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
    worst = 0
    runs = _runs()
    for flavour, link, selection in runs:
        prepare(flavour)
        name = f"scenarios ({flavour} kernel, {settings.client()} client, {link})"
        say(f"{name}: running")
        parts = [rest] if rest else [[*part, *selection] for part in _usual(flavour)]
        for part in parts:
            scenarios = [str(paths.LAB / "scenarios"), *part]
            status = pytest(scenarios, name, KERNEL=flavour, LINK=link)
            # With several runs a selection need not have something in each.
            empty = status == NOTHING_SELECTED and len(runs) * len(parts) > 1
            worst = max(worst, 0 if empty else status)
    return worst


def _usual(flavour: str) -> list[list[str]]:
    """How a whole run goes: each scenario is shown as it ends, and several pairs share the work.

    All but what is measured by the clock, which then has the host to itself.
    """
    shown = ["-v", "--durations", "8"]
    pairs = settings.pairs(flavour)
    if pairs == 1:
        return [shown]
    shared = ["-n", str(pairs), "--dist", "loadgroup"]
    return [[*shown, "-m", "not by_the_clock", *shared], [*shown, "-m", "by_the_clock"]]


def _runs() -> list[tuple[str, str, list[str]]]:
    """Kernel, link and selection of each run of pytest. What the user names is all there is."""
    flavour, link = os.environ.get("KERNEL"), os.environ.get("LINK")
    if flavour or not settings.full():
        return [(settings.flavour(), settings.link(), [])]
    runs = [(name, settings.link(), []) for name in ("plain", "debug")]
    return runs if link else [*runs, ("plain", "siw", ["-k", f"not ({' or '.join(ANY_LINK)})"])]
