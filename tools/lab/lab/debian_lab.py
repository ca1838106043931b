# SPDX-License-Identifier: GPL-2.0
"""The scenarios' guests with Debian's own kernel, for `KERNEL=debian`.

The guests have the root file system of the machine in which the modules are built, or, if they are
of another architecture, that of the lab's own kernels, with the modules of Debian's kernel. The
kernel's own rpcrdma.ko is not there, so that no mount loads it: each guest loads the module that
`CLIENT` or `SERVER` names, as with the lab's own kernels.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from . import debian_build, debian_pair, debian_root, image, initrd, module, paths
from .command import capture, logged
from .debian_pair import DebianPair, Machine
from .harness import Lab
from .pair import Setup

#: Modules of Debian's kernel that the lab's own kernels have built in, so that scenarios need them.
BUILT_IN = "rdma_cm ib_core sunrpc nfs nfsv3 nfsv4 nfsd"


@dataclass(frozen=True)
class Built:
    """A machine, and our modules for its kernel: the transport, and those that provoke faults."""

    machine: Machine
    modules: module.Modules
    provoker: Path


@contextmanager
def built(directory: Path) -> Iterator[Built]:
    """Builds the modules in the machine, and the images of the guests."""
    base, release, layers = debian_build.prepare()
    log = paths.log_file("debian-modules")
    log.unlink(missing_ok=True)
    directory.mkdir(parents=True, exist_ok=True)
    modules = base / "lib/modules" / release
    stock, disk = directory / "stock-rpcrdma.ko", directory / "initrd"
    stock.write_bytes(initrd.plain(modules / debian_pair.STOCK))
    initrd.build(base, release, debian_root.HERE / "initrd-init", disk)
    root = directory / "root.sqfs"
    with paths.locked("debian"), debian_root.overlay(layers, "with-modules") as merged:
        debian_build.build(merged, release, log)
        found = _taken(merged, directory)
        shutil.rmtree(merged / "root/rpcrdma")
        (merged / "lib/modules" / release / debian_pair.STOCK).unlink()
        logged([*debian_root.inside(merged), "depmod", release], log)
        with _guests_root(merged, release) as guests:
            debian_root.squash(guests, root, log)
    vmlinuz = modules / debian_pair.VMLINUZ
    machine = Machine(release, vmlinuz, disk, root, stock, log, debian_root.machine())
    try:
        yield Built(machine, *found)
    finally:
        root.unlink(missing_ok=True)


@contextmanager
def _guests_root(merged: Path, release: str) -> Iterator[Path]:
    """Returns the root of the guests, with the modules of their kernel.

    It is the machine itself. For guests of another architecture it is the image of the lab's own
    kernels.
    """
    if not debian_root.suffix():
        yield merged
        return
    lower = paths.sub("debian") / "image"
    lower.mkdir(exist_ok=True)
    capture(["mount", "-o", "ro,loop", image.ensure(debian_root.machine()), lower])
    try:
        with debian_root.overlay(lower, "guests") as guests:
            folder = guests / "lib/modules"
            folder.mkdir(exist_ok=True)
            capture(["cp", "-a", merged / "lib/modules" / release, folder])
            yield guests
    finally:
        capture(["umount", lower])


def _taken(merged: Path, directory: Path) -> tuple[module.Modules, Path]:
    """Copies the modules out of the machine."""
    sources = merged / "root/rpcrdma"
    for path in sources.rglob("*.ko"):
        shutil.copy(path, directory / path.name)
    samples = [directory / path.name for path in (sources / "samples").rglob("*.ko")]
    found = module.Modules(directory / "rpcrdma.ko", tuple(sorted(samples)))
    return found, directory / "lab_provoke.ko"


class DebianLab(Lab):
    """Pairs of guests with Debian's own kernel."""

    def __init__(self, made: Built, directory: Path) -> None:
        """Boots nothing yet."""
        super().__init__(made.machine, made.machine, directory, kunit=False)
        self._made = made

    def modules(self, kernel: Machine) -> module.Modules:
        """Returns our modules for the kernel of the machine."""
        del kernel
        return self._made.modules

    def provoker(self, kernel: Machine) -> Path:
        """Returns the module that provokes reports."""
        del kernel
        return self._made.provoker

    def _pair_of(self, setup: Setup, directory: Path) -> DebianPair:
        disk = ("-initrd", str(self._made.machine.initrd))
        loading = {"server-up": debian_root.HERE / "server-up"}
        loading["server-up-nfs"] = paths.GUEST / "server-up"
        setup = replace(
            setup,
            client_extra=disk,
            server_extra=disk,
            files={**setup.files, **loading},
            server_files={**setup.server_files, **loading},
        )
        pair = DebianPair(setup, directory)
        pair.client.sh(f"modprobe -a {BUILT_IN}")
        return pair
