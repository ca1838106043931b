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

STOCK = "kernel/net/sunrpc/xprtrdma/rpcrdma.ko.xz"


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
    if debian_root.suffix():
        raise LabError("the scenarios of `debian` install packages: their guests are as the host")
    log = paths.log_file("debian-package")
    log.unlink(missing_ok=True)
    directory.mkdir(parents=True, exist_ok=True)
    with paths.locked("debian"):
        base, release = debian_root.base(contents)
        modules = base / "lib/modules" / release
        stock = directory / "stock-rpcrdma.ko"
        stock.write_bytes(initrd.plain(modules / STOCK))
        disk = directory / "initrd"
        initrd.build(base, release, debian_root.HERE / "initrd-init", disk)
        root = directory / "root.sqfs"
        with debian_root.overlay(base, "with-package") as merged:
            install(merged, release, log)
            debian_root.squash(merged, root, log)
    try:
        kernel = modules / "vmlinuz.unsigned"
        yield Machine(release, kernel, disk, root, stock, log, debian_root.machine())
    finally:
        root.unlink(missing_ok=True)


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
