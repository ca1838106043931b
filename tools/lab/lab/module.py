# SPDX-License-Identifier: GPL-2.0
"""Building our modules for the lab's kernels.

Each combination of kernel and options gets a copy of the sources of its own
in the cache, so that the flavours keep their objects and the work tree stays
as it is. The copy skips what git ignores.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from . import paths, settings
from .command import capture, logged
from .errors import LabError
from .kernel import Kernel
from .progress import step


@dataclass(frozen=True)
class Modules:
    """What one build left: the transport and the samples."""

    rpcrdma: Path
    samples: tuple[Path, ...]


def copy_sources(source: Path, target: Path) -> None:
    """Bring `target` up to date with the sources; objects there are kept."""
    target.mkdir(parents=True, exist_ok=True)
    skip = ["--exclude=/.git", "--exclude=/tools/host", "--exclude=/tools/lab"]
    filters = ["--filter=:- .gitignore", *skip]
    # A source that differs is new, whatever its age: the last build may have been of another tree.
    by_content = ["--checksum", "--no-times"]
    capture(["rsync", "-a", *by_content, "--delete", *filters, f"{source}/", f"{target}/"])


def build(kernel: Kernel, *, kunit: bool = False) -> Modules:
    """rpcrdma.ko and samples for `kernel`, with the KUnit suites if asked for.

    # Errors
    `LabError` with the end of the build's log.
    """
    name = kernel.obj.name + ("-kunit" if kunit else "")
    tree = paths.sub("module") / name
    log = paths.log_file(f"module-{kernel.flavour}" + ("-kunit" if kunit else ""))
    log.unlink(missing_ok=True)
    args = ["make", "-C", tree, f"KDIR={kernel.obj}", f"JOBS={settings.jobs()}", "SAMPLES=y"]
    args += kernel.tools.make_args() + (["RPCRDMA_KUNIT=y"] if kunit else [])
    title = f"module rpcrdma.ko{' with KUnit' if kunit else ''} for the {kernel.flavour} kernel"
    with paths.locked(f"module-{name}"), step(f"{title}: building", log):
        copy_sources(paths.ROOT, tree)
        logged(args, log, env=_clean_environment(kernel))
    module = tree / "rpcrdma.ko"
    if not module.exists():
        raise LabError(f"the build left no {module.name}; see {log}")
    return Modules(module, tuple(sorted((tree / "samples").rglob("*.ko"))))


def _clean_environment(kernel: Kernel) -> dict[str, str]:
    """An outer make must not lend its flags and targets to this one."""
    return {**kernel.tools.env(), "MAKEFLAGS": "", "MFLAGS": "", "MAKELEVEL": "0"}


def build_provoker(kernel: Kernel) -> Path:
    """The module that provokes real reports, for the detector's own test.

    `lab_slow.ko`, which makes races likelier, is left beside it.
    """
    tree = paths.sub("module") / (kernel.obj.name + "-provoke")
    log = paths.log_file(f"module-provoke-{kernel.flavour}")
    log.unlink(missing_ok=True)
    args = ["make", "-C", kernel.obj, f"M={tree}", *kernel.tools.make_args(), "modules"]
    module, sources = tree / "lab_provoke.ko", paths.LAB / "provoke"
    changed = max(path.stat().st_mtime for path in [kernel.image, *sources.iterdir()])
    with paths.locked(f"module-{tree.name}"):
        if not module.exists() or module.stat().st_mtime < changed:
            tree.mkdir(parents=True, exist_ok=True)
            capture(["rsync", "-a", f"{sources}/", f"{tree}/"])
            logged(args, log, env=_clean_environment(kernel))
    return module
