# SPDX-License-Identifier: GPL-2.0
"""The lab kernels: source from Debian, a small configuration, cached builds.

The name of a build's directory contains all that decides its contents: the version of the source,
and a hash of configuration and compilers. make continues an interrupted build; a build is complete
only when it has its stamp.

A tree that is only prepared for modules has no kernel. It takes a tenth of the time, and shows that
a module compiles for a machine whose guests nobody boots, or for a kernel with few options.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Protocol

from . import aptstate, arch, debian, given, paths, settings, toolchain
from .command import logged
from .errors import LabError
from .progress import say, step

FRAGMENT = paths.ROOT / ".config.fragment"
#: The flavour of a tree that is only prepared for modules.
PREPARED = "prepared"
#: The same, without the options that the module can do without. Its warnings are errors.
BARE = "bare"
STOCK_MODULE = "net/sunrpc/xprtrdma/rpcrdma.ko"
_PACKAGE = r"linux-source-7\.[0-9]+"
_STAMP = ".lab-built"


class Bootable(Protocol):
    """A kernel that QEMU boots, of the lab or of a distribution."""

    @property
    def image(self) -> Path:
        """The file that QEMU boots."""

    @property
    def machine(self) -> arch.Machine:
        """The kind of machine."""


@dataclass(frozen=True)
class Source:
    """An unpacked kernel source tree and its name."""

    path: Path
    version: str


@dataclass(frozen=True)
class Kernel:
    """A built kernel: source, object tree, and the tools that made them."""

    flavour: str
    src: Path
    obj: Path
    tools: toolchain.Toolchain
    machine: arch.Machine = arch.X86

    @property
    def image(self) -> Path:
        """The file that QEMU boots."""
        return self.obj / "arch" / self.machine.arch / "boot" / self.machine.target

    @property
    def title(self) -> str:
        """The kernel's name in reports."""
        return f"the {self.flavour} kernel ({self.machine.name})"

    @property
    def bootable(self) -> bool:
        """Whether there is a kernel, and not only what modules are built against."""
        return self.flavour not in (PREPARED, BARE)

    @property
    def age(self) -> int:
        """When the tree was built, in nanoseconds."""
        newest = self.image if self.bootable else self.obj / "rust/libkernel.rmeta"
        return newest.stat().st_mtime_ns

    @property
    def vmlinux(self) -> Path:
        """The kernel with its symbols, for gdb."""
        return self.obj / "vmlinux"

    @property
    def stock_module(self) -> Path:
        """The kernel's own rpcrdma.ko, our peer and the reference for measurements."""
        return self.obj / STOCK_MODULE


def config_lines(text: str, flavour: str, machine: arch.Machine) -> list[str]:
    """Returns the fragment's lines for one kernel: common lines, and lines with its prefixes."""
    ours = {f"#{word}" for word in (flavour, *machine.prefixes)}
    lines = []
    for line in text.splitlines():
        first, _, rest = line.partition(" ")
        lines.append((rest if first in ours else line).strip())
    return [line for line in lines if line.startswith("CONFIG_")]


def missing_lines(wanted: list[str], config: str) -> list[str]:
    """Returns the wanted lines that `olddefconfig` dropped.

    `CONFIG_X=n` survives when X is not set. A later line of the fragment overrides an earlier one,
    as it does for Kconfig.
    """
    have = set(config.splitlines())
    final = {line.partition("=")[0]: line for line in wanted}
    lost = []
    for key, line in final.items():
        if line.endswith("=n"):
            if any(entry.startswith(f"{key}=") for entry in have):
                lost.append(line)
        elif line not in have:
            lost.append(line)
    return lost


def pick_version(found: list[tuple[str, str, str]]) -> tuple[str, str, str]:
    """Chooses among (suite, package, version): 7.3 if available, otherwise the newest 7.x."""

    def minor(entry: tuple[str, str, str]) -> int:
        return int(entry[1].rpartition(".")[2])

    fit = [entry for entry in found if minor(entry) >= 3]
    if not fit:
        raise LabError("Debian's backports hold no linux-source-7.3 or newer; set KERNEL_SRC=")
    wanted = 3 if any(minor(e) == 3 for e in fit) else max(minor(e) for e in fit)
    if wanted != 3:
        say(f"Debian has moved past 7.3: using linux-source-7.{wanted}")
    fit = [entry for entry in fit if minor(entry) == wanted]
    return max(fit, key=lambda e: [int(n) for n in re.findall(r"\d+", e[2])])


def source() -> Source:
    """Returns the kernel source: `KERNEL_SRC`, the cached copy, or a fresh download."""
    chosen = os.environ.get("KERNEL_SRC")
    if chosen:
        path = Path(chosen).resolve()
        if not (path / "Makefile").exists():
            raise LabError(f"KERNEL_SRC={chosen}: no kernel source there")
        tag = hashlib.sha256(str(path).encode()).hexdigest()[:8]
        return Source(path, f"local-{tag}")
    note = paths.sub("src") / "current.json"
    if note.exists():
        known = json.loads(note.read_text())
        if Path(known["path"]).is_dir():
            return Source(Path(known["path"]), known["version"])
    return _fetch(note)


def _fetch(note: Path) -> Source:
    """Downloads and unpacks Debian's kernel source, which is complete or absent afterwards."""
    log = paths.log_file("kernel-source")
    log.unlink(missing_ok=True)
    mirror = debian.mirror()
    found: list[tuple[str, str, str]] = []
    states: dict[str, aptstate.AptState] = {}
    with step("kernel source: asking Debian's backports", log):
        for suite in dict.fromkeys(["trixie-backports", f"{mirror.codename}-backports"]):
            try:
                states[suite] = aptstate.open_suite(mirror, suite, log)
            except LabError as err:
                say(f"    {suite}: not usable ({str(err).splitlines()[0][:80]})")
                continue
            found += [(suite, *entry) for entry in states[suite].versions(_PACKAGE)]
    suite, package, version = pick_version(found)
    target = paths.sub("src") / f"{package}-{version}"
    if not target.is_dir():
        with step(f"kernel source: fetching {package} {version} from {suite}", log):
            deb = states[suite].download(package, version, paths.sub("src") / "deb", log)
        with step("kernel source: unpacking", log):
            _unpack(deb, package, target)
        deb.unlink()
    note.write_text(json.dumps({"path": str(target), "version": version}))
    return Source(target, version)


def _unpack(deb: Path, package: str, target: Path) -> None:
    """Unpacks the tarball of the package beside `target` and then renames the directory."""
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    pipe = (
        f'dpkg-deb --fsys-tarfile "$0" | tar -xO ./usr/src/{package}.tar.xz'
        ' | tar -xJ --strip-components=1 -C "$1"'
    )
    args = ["bash", "-o", "pipefail", "-c", pipe, str(deb), str(partial)]
    done = subprocess.run(args, capture_output=True, text=True)
    if done.returncode:
        raise LabError(f"unpacking {deb}: {done.stderr.strip()}")
    partial.rename(target)


def configure(kernel: Kernel, log: Path) -> None:
    """Writes `.config` in the object tree from allnoconfig and the fragment.

    # Errors
    `LabError` naming every line of the fragment that Kconfig dropped.
    """
    obj, tools = kernel.obj, kernel.tools
    wanted = config_lines(FRAGMENT.read_text(), kernel.flavour, kernel.machine)
    make = ["make", "-C", kernel.src, f"O={obj}", *tools.make_args()]
    logged([*make, "allnoconfig"], log, env=tools.env())
    with (obj / ".config").open("a") as config:
        config.write("\n".join(wanted) + "\n")
    logged([*make, "olddefconfig"], log, env=tools.env())
    lost = missing_lines(wanted, (obj / ".config").read_text())
    if lost:
        (obj / ".config").unlink()
        raise LabError(f"{FRAGMENT.name}: these lines did not survive: " + " ".join(lost))


@cache
def ensure(flavour: str = "plain", side: str = "client") -> Kernel:
    """Returns the kernel of this flavour, and builds it if the cache does not have it.

    `side`: the guest that boots it, ``client`` or ``server``; their machines may differ.
    """
    if flavour not in ("plain", "debug"):
        raise LabError(f"KERNEL={flavour}: there are two kernels, plain and debug")
    if flavour == "plain" and (built := given.read()):
        # Its compilers are not on this machine.
        none = toolchain.Toolchain("", "", "")
        return Kernel(flavour, Path(built.source), Path(built.objects), none)
    machine = arch.chosen(side)
    kdir = os.environ.get("KDIR")
    if kdir and flavour == "plain" and Path(kdir, "source").exists():
        return _existing(Path(kdir).resolve(), machine)
    return _in_cache(flavour, machine)


@cache
def prepared(machine: arch.Machine, flavour: str = PREPARED) -> Kernel:
    """Returns a tree that is prepared for modules of this machine; `Kernel.bootable` is false."""
    return _in_cache(flavour, machine)


def _in_cache(flavour: str, machine: arch.Machine) -> Kernel:
    """Returns a tree of the cache, which has it or builds it."""
    with paths.locked("kernel-source"):
        src = source()
    tools = toolchain.choose(src.path, settings.llvm())
    lines = "\n".join(config_lines(FRAGMENT.read_text(), flavour, machine))
    key = hashlib.sha256(f"{lines}\n{tools.digest()}".encode()).hexdigest()[:12]
    name = flavour if machine == arch.X86 else f"{flavour}-{machine.name}"
    obj = paths.sub("kernel") / f"{name}-{src.version}-{key}"
    kernel = Kernel(flavour, src.path, obj, replace(tools, arch=machine.arch), machine)
    if not (obj / _STAMP).exists():
        with paths.locked(obj.name):
            if not (obj / _STAMP).exists():
                _build(kernel)
    return kernel


def _existing(obj: Path, machine: arch.Machine) -> Kernel:
    """Returns the kernel that the user has built in `KDIR`, unchanged."""
    src = (obj / "source").resolve()
    tools = replace(toolchain.choose(src, settings.llvm()), arch=machine.arch)
    kernel = Kernel("plain", src, obj, tools, machine)
    for needed in (kernel.image, kernel.stock_module):
        if not needed.exists():
            raise LabError(f"KDIR={obj}: {needed.name} is not built there")
    return kernel


def _build(kernel: Kernel) -> None:
    """Configures once, builds, and writes the stamp last."""
    log = paths.log_file(f"kernel-{kernel.flavour}-{kernel.machine.name}")
    log.unlink(missing_ok=True)
    kernel.obj.mkdir(parents=True, exist_ok=True)
    if not (kernel.obj / ".config").exists():
        with step(f"{kernel.title}: configuring", log):
            configure(kernel, log)
    with step(f"{kernel.title}: building", log):
        make = ["make", "-C", kernel.src, f"O={kernel.obj}", f"-j{settings.jobs()}"]
        targets = [kernel.machine.target, "modules"] if kernel.bootable else ["modules_prepare"]
        logged([*make, *kernel.tools.make_args(), *targets], log, env=kernel.tools.env())
    (kernel.obj / _STAMP).touch()
