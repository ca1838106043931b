# SPDX-License-Identifier: GPL-2.0
"""Builds our modules for the kernels of the lab.

Each combination of kernel and options has its own copy of the sources in the cache, so each keeps
its objects and the work tree stays as it is. The copy leaves out the files that git ignores.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from . import given, paths, settings
from .command import capture, logged
from .errors import LabError
from .kernel import Kernel
from .progress import step

#: The beginnings of warnings that are not about our sources: of make about clocks, and of Kbuild.
_OF_THE_MACHINE = ("make", "warning: the compiler differs")


@dataclass(frozen=True)
class Modules:
    """The modules of one build: the transport and the samples."""

    rpcrdma: Path
    samples: tuple[Path, ...]


def copy_sources(source: Path, target: Path) -> bool:
    """Copies changed sources to `target` and keeps the objects there; returns if any changed."""
    target.mkdir(parents=True, exist_ok=True)
    skip = ["--exclude=/.git", "--exclude=/tools/host", "--exclude=/tools/lab"]
    filters = ["--filter=:- .gitignore", *skip]
    # A source that differs is new, whatever its age: the last build may have been of another tree.
    by_content = ["--checksum", "--no-times", "--itemize-changes"]
    args = ["rsync", "-a", *by_content, "--delete", *filters, f"{source}/", f"{target}/"]
    return bool(capture(args).strip())


def _check_warnings(log: Path, tree: Path) -> None:
    """Refuses a build with warnings, and has the next call repeat them.

    Only a real build runs objtool, which reports code that ends where no function does.

    # Errors
    `LabError` with the first of the warnings.
    """
    lines = log.read_text(errors="replace").splitlines()
    found = [ln for ln in lines if "warning: " in ln and not ln.startswith(_OF_THE_MACHINE)]
    if found:
        for name in ("rpcrdma.o", "rust/rpcrdma.o"):
            (tree / name).unlink(missing_ok=True)
        raise LabError(f"the build has warnings; the first of {len(found)}: {found[0]}; see {log}")


def build(kernel: Kernel, *, kunit: bool = False) -> Modules:
    """Builds rpcrdma.ko and the samples for `kernel`, on request with the KUnit suites.

    With `GDB=1` the modules have debug information, with `RPCRDMA_LEGACY=n` no RFC 5666.

    A build with the same sources, options and kernel as the last one does not call make.

    # Errors
    `LabError` with the end of the build's log.
    """
    if found := given.read():
        return _in(Path(found.modules))
    name = kernel.obj.name + ("-kunit" if kunit else "") + ("-gdb" if settings.gdb() else "")
    name += "" if settings.legacy() else "-no-legacy"
    tree = paths.sub("module") / name
    log = paths.log_file(f"module-{name}")
    args = ["make", "-C", tree, f"KDIR={kernel.obj}", f"JOBS={settings.jobs()}", "SAMPLES=y"]
    args += kernel.tools.make_args() + (["RPCRDMA_KUNIT=y"] if kunit else [])
    args += [] if settings.legacy() else ["RPCRDMA_LEGACY=n"]
    # Without a kernel nothing exports symbols.
    args += [] if kernel.bootable else ["KBUILD_MODPOST_WARN=1"]
    if settings.gdb():
        args += ["KRUSTFLAGS=-g", "KCFLAGS=-g"]
    title = f"module rpcrdma.ko{' with KUnit' if kunit else ''} for {kernel.title}"
    module, stamp = tree / "rpcrdma.ko", tree.with_name(f"{name}.built")
    key = f"{args} {kernel.age}"
    with paths.locked(f"module-{name}"):
        known = stamp.read_text() if stamp.exists() else ""
        # After an interruption the next call must build again.
        stamp.unlink(missing_ok=True)
        if copy_sources(paths.ROOT, tree) or not module.exists() or known != key:
            log.unlink(missing_ok=True)
            with step(f"{title}: building", log):
                logged(args, log, env=clean_environment(kernel))
            # Users build for a kernel like the plain one.
            if kernel.flavour != "debug":
                _check_warnings(log, tree)
            if not module.exists():
                raise LabError(f"the build left no {module.name}; see {log}")
        stamp.write_text(key)
    return _in(tree)


def _in(tree: Path) -> Modules:
    """Returns the modules that were built in `tree`."""
    return Modules(tree / "rpcrdma.ko", tuple(sorted((tree / "samples").rglob("*.ko"))))


def chosen(kernel: Kernel, whose: str) -> Path:
    """Returns rpcrdma.ko for a guest: the kernel's own, or ours, which may have to be built.

    `whose`: ``stock`` or ``ours``.

    # Errors
    The same as those of `build`.
    """
    return kernel.stock_module if whose == "stock" else build(kernel).rpcrdma


def clean_environment(kernel: Kernel) -> dict[str, str]:
    """Returns an environment without the flags and targets of an outer make."""
    return {**kernel.tools.env(), "MAKEFLAGS": "", "MFLAGS": "", "MAKELEVEL": "0"}


def build_provoker(kernel: Kernel) -> Path:
    """Builds the module that provokes reports, for the scenarios that test the detector.

    The same build makes `lab_slow.ko`, which lengthens the windows of races, and `lab_sleepy.ko`,
    which makes mapping of memory sleep.
    """
    if found := given.read():
        return Path(found.provoke) / "lab_provoke.ko"
    tree = paths.sub("module") / (kernel.obj.name + "-provoke")
    log = paths.log_file(f"module-{tree.name}")
    log.unlink(missing_ok=True)
    args = ["make", "-C", kernel.obj, f"M={tree}", *kernel.tools.make_args(), "modules"]
    module, sources = tree / "lab_provoke.ko", paths.LAB / "provoke"
    changed = max(path.stat().st_mtime for path in [kernel.image, *sources.iterdir()])
    with paths.locked(f"module-{tree.name}"):
        if not module.exists() or module.stat().st_mtime < changed:
            tree.mkdir(parents=True, exist_ok=True)
            capture(["rsync", "-a", f"{sources}/", f"{tree}/"])
            logged(args, log, env=clean_environment(kernel))
    return module
