# SPDX-License-Identifier: GPL-2.0
"""Two guests with Debian's own kernel: a stock server, and a client with our package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from . import accel, arch, debian_root, initrd, paths, settings
from .errors import LabError
from .pair import Pair, Setup
from .vm import Spec

#: The stock module and the kernel, below the modules of a release.
STOCK = "kernel/net/sunrpc/xprtrdma/rpcrdma.ko.xz"
VMLINUZ = "vmlinuz.unsigned"


@dataclass(frozen=True)
class Machine:
    """The image, RAM disk and root image of a distribution, which the guests boot.

    It takes the place of one of the lab's own kernels (`kernel.Kernel`).
    """

    release: str
    image: Path
    initrd: Path
    root: Path
    stock_module: Path
    log: Path
    machine: arch.Machine
    flavour: str = "debian"


class DebianPair(Pair):
    """A pair whose guests boot a `Machine`."""

    def _spec(self, name: str, address: str, payload: Path) -> Spec:
        machine = self.setup.kernel
        spec = super()._spec(name, address, payload)
        return replace(spec, image=machine.root)


#: Installs software in a machine: its folder, the release of its kernel, the log.
Install = Callable[[Path, str, Path], None]


@contextmanager
def machine(
    directory: Path,
    install: Install = debian_root.install_package,
    contents: debian_root.Contents = debian_root.PREPARED,
) -> Iterator[Machine]:
    """Bootstraps the machine or takes it from the cache, installs our package, makes the images.

    # Errors
    `LabError` for guests of another architecture: the package is installed natively.
    """
    with machines(directory, install, contents) as (first, *_):
        yield first


@contextmanager
def machines(
    directory: Path, install: Install, contents: debian_root.Contents = debian_root.PREPARED
) -> Iterator[list[Machine]]:
    """Does the same for each kernel that the machine has at the end; its first one comes first."""
    if debian_root.suffix():
        raise LabError("the scenarios of `debian` install packages: their guests are as the host")
    log = paths.log_file("debian-package")
    log.unlink(missing_ok=True)
    directory.mkdir(parents=True, exist_ok=True)
    with paths.locked("debian"):
        base, release = debian_root.base(contents)
        found = [_bootable(base, release, directory, log)]
        root = found[0].root
        with debian_root.overlay(base, "with-package") as merged:
            install(merged, release, log)
            others = sorted(path.parent.name for path in merged.glob(f"lib/modules/*/{VMLINUZ}"))
            found += [_bootable(merged, o, directory, log) for o in others if o != release]
            debian_root.squash(merged, root, log)
    try:
        yield found
    finally:
        root.unlink(missing_ok=True)


def _bootable(root: Path, release: str, directory: Path, log: Path) -> Machine:
    """Takes a kernel, its stock module and an initial RAM disk out of a root directory."""
    modules = root / "lib/modules" / release
    # DKMS keeps the stock module elsewhere when it has installed ours.
    kept = root.glob(f"var/lib/dkms/rpcrdma/original_module/{release}/*/rpcrdma.ko*")
    stock, kernel = directory / f"stock-{release}.ko", directory / f"vmlinuz-{release}"
    stock.write_bytes(initrd.plain(next(kept, modules / STOCK)))
    kernel.write_bytes((modules / VMLINUZ).read_bytes())
    disk = directory / f"initrd-{release}"
    initrd.build(root, release, debian_root.HERE / "initrd-init", disk)
    squash = directory / "root.sqfs"
    return Machine(release, kernel, disk, squash, stock, log, debian_root.machine())


def boot(machine: Machine, directory: Path) -> DebianPair:
    """Boots both guests and starts the server; the client has not loaded our module yet."""
    up = debian_root.HERE / "server-up"
    disk = ("-initrd", str(machine.initrd))
    setup = Setup(
        kernel=machine,
        client_module=machine.stock_module,
        server_module=machine.stock_module,
        link=settings.link(),
        accel=accel.choose(machine),
        client_extra=disk,
        server_extra=disk,
        files={"server-up": up, "server-up-nfs": paths.GUEST / "server-up"},
    )
    return DebianPair(setup, directory)
