# SPDX-License-Identifier: GPL-2.0
"""A Debian machine as a directory, with Debian's own kernel and our package.

The lab bootstraps the machine once for each kernel version and keeps it. It builds our package and
installs it by apt in an overlay of the machine, as a user does: DKMS prepares the headers and
builds the module there.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import aptstate, arch, debian, paths, settings
from .command import capture, logged
from .errors import LabError
from .progress import say, step

HERE = paths.LAB / "debian"
#: Suites whose kernels come from their backports; others have theirs themselves.
_STABLE = ("trixie",)
#: The oldest series that the module builds for.
OLDEST = [7, 2]
_HEADERS = r"linux-headers-7\.\d+\.\d+\+deb\d+-"
#: Packages whose programs the initial RAM disk has.
_IN_DISK = ("busybox-static",)
#: Files that are not in the guests' image: those for compiling, and documentation.
_SKIPPED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/lib/llvm-*")
_SKIPPED += ("usr/lib/*-linux-gnu/librustc*", "usr/lib/*-linux-gnu/libLLVM*")
_SKIPPED += ("usr/lib/rustlib", "usr/src/rustc-*", "var/cache/apt", "var/lib/apt/lists")
#: The other kernel of an upgrade, of the same version and another flavour.
OTHER_FLAVOUR = "rt"
#: The place of the sources in the guests.
SOURCES = "/root/rpcrdma"


def kernels() -> str:
    """Returns the suite of the machine's kernel."""
    suite = settings.suite()
    return f"{suite}-backports" if suite in _STABLE else suite


def machine() -> arch.Machine:
    """Returns the kind of machine of both guests that boot Debian's own kernel.

    # Errors
    `LabError` if the guests differ, or if `PAGES` is not the size of pages of Debian's kernel.
    """
    (chosen, *others) = arch.in_use()
    if others or chosen.pages != "4k":
        raise LabError("guests with Debian's own kernel have one architecture and pages of 4 KiB")
    return chosen


def suffix() -> str:
    """Returns the end of the names of packages of the kernel's architecture, such as ``:arm64``.

    It is empty if the guests have this host's architecture. Otherwise the machine is a root of this
    host's architecture, in which the packages of the kernel and the programs of its initial RAM
    disk are foreign: Debian's headers then depend on a cross compiler.
    """
    own = machine()
    return "" if own.native else f":{own.debian}"


def newest_kernel(log: Path, named: Sequence[int] | None = None) -> tuple[str, str]:
    """Returns release and version of the newest kernel of `SUITE`, of a series.

    `named`: the series, empty for any; `SERIES` by default.
    """
    series = list(settings.series() if named is None else named)
    wanted = machine()
    foreign = "" if wanted.native else wanted.debian
    state = aptstate.open_suite(debian.mirror(), kernels(), log, foreign)
    found = [
        (numbers(version), name.removeprefix("linux-headers-"), version)
        for name, version in state.versions(_HEADERS + wanted.debian)
        if numbers(version)[: len(series)] == series and numbers(version)[:2] >= OLDEST
    ]
    if not found:
        raise LabError(f"{kernels()} has no kernel of series {series or 'any'}")
    _, release, version = max(found)
    return release, version


def numbers(version: str) -> list[int]:
    """Returns the numbers in a version, for comparisons."""
    return [int(number) for number in re.findall(r"\d+", version)]


@dataclass(frozen=True)
class Contents:
    """The contents of a machine before our package is installed."""

    #: The file below debian/ that names its packages.
    listed: str
    #: The packages of its kernel, without the release.
    kernel: tuple[str, ...]
    #: Further packages from the suite of the kernel.
    further: tuple[str, ...] = ()

    def packages(self) -> list[str]:
        """Returns the names of the packages of the stable suite."""
        lines = (HERE / self.listed).read_text().splitlines()
        names = [line for line in map(str.strip, lines) if line and not line.startswith("#")]
        return [f"{name}{suffix()}" if name in _IN_DISK else name for name in names]

    def of_kernel(self, release: str) -> list[str]:
        """Returns the names of the packages of the kernel's suite."""
        own = [f"linux-{kind}-{release}{suffix()}" for kind in self.kernel]
        return own + list(self.further)


#: All that our package needs. libelf-dev must fit the libelf that the kernel's packages install.
PREPARED = Contents("packages.txt", ("headers", "modules", "binary-unsigned"), ("libelf-dev",))
#: A kernel and NFS.
FRESH = Contents("fresh.txt", ("modules", "binary-unsigned"))


def base(contents: Contents = PREPARED) -> tuple[Path, str]:
    """Returns root directory and kernel release of the machine without our package."""
    log = paths.log_file("debian-base")
    log.unlink(missing_ok=True)
    with step("debian machine: asking for its newest kernel", log):
        release, version = newest_kernel(log)
    text = "\n".join([version, *contents.of_kernel(release), *contents.packages()])
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    root = paths.sub("debian") / f"{release}-{key}"
    if not root.exists():
        with step(f"debian machine: bootstrapping {settings.suite()} with {release}", log):
            _bootstrap(root, release, contents, log)
    return root, release


def _bootstrap(root: Path, release: str, contents: Contents, log: Path) -> None:
    """Bootstraps under a temporary name, so that a machine is complete or absent."""
    partial = root.with_name(root.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    mirror = debian.mirror()
    words = " ".join(contents.of_kernel(release))
    install = "DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends"
    hooks = [
        f'chroot "$1" sh -c "{install} -t {kernels()} {words}"',
        f'cp {paths.GUEST / "stage1"} "$1/sbin/stage1"',
        # stage1 needs this command, which testing has in no package of an essential system.
        '[ -e "$1/usr/sbin/pivot_root" ] || ln -s ../bin/busybox "$1/usr/sbin/pivot_root"',
        r'printf "#!/bin/sh\nexit 101\n" > "$1/usr/sbin/policy-rc.d"',
        'chmod 755 "$1/usr/sbin/policy-rc.d"',
    ]
    args = ["mmdebstrap", "--format=directory", "--variant=apt", "--skip=cleanup/apt/lists"]
    args += ["--include=" + ",".join(contents.packages())]
    if suffix():
        native = next(each.debian for each in arch.MACHINES if each.native)
        args += [f"--architectures={native},{machine().debian}"]
    args += [f"--aptopt={option}" for option in debian.age_options()]
    args += [f"--customize-hook={hook}" for hook in hooks]
    suites = dict.fromkeys((settings.suite(), kernels()))
    args += [settings.suite(), str(partial), *(mirror.source_line(s).strip() for s in suites)]
    logged(args, log)
    partial.rename(root)


def with_headers(root: Path, release: str, log: Path) -> str:
    """Returns the layers of a machine whose headers are prepared for Rust modules.

    The cache keeps the layer with the results until the tool for that changes.
    """
    tool = paths.ROOT / "tools/headers/headers"
    text = "".join(path.read_text() for path in sorted(tool.glob("*.py")))
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    layer = root.with_name(f"{root.name}-headers-{key}")
    if not layer.is_dir():
        with step(f"debian machine: preparing the headers of {release}", log):
            _prepare_headers(root, release, layer, log)
    return f"{layer}:{root}"


def _prepare_headers(root: Path, release: str, layer: Path, log: Path) -> None:
    """Makes the layer under a temporary name, so that it is complete or absent."""
    partial = layer.with_name(f"{layer.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    with overlay(root, "preparing") as merged:
        copy_sources(merged / "root/rpcrdma")
        logged([*inside(merged), f"{SOURCES}/tools/prepare-headers", release], log)
        shutil.rmtree(merged / "root/rpcrdma")
        capture(["cp", "-a", merged.parent / "upper", partial])
    for old in root.parent.glob(f"{root.name}-headers-*"):
        if old != partial:
            shutil.rmtree(old)
    partial.rename(layer)


@contextmanager
def overlay(lower: Path | str, name: str) -> Iterator[Path]:
    """Mounts a writable overlay of `lower`, which is gone after the block.

    `lower`: a directory, or several of them, the highest first.

    `/proc` is also mounted there: compilers find their own files by it.
    """
    if os.geteuid() != 0:
        raise LabError("the debian machine is built in a chroot: run this as root")
    home = paths.sub("debian") / name
    merged = home / "merged"
    _detach(home)
    for part in ("upper", "work", "merged"):
        (home / part).mkdir(parents=True)
    layers = f"lowerdir={lower},upperdir={home / 'upper'},workdir={home / 'work'}"
    capture(["mount", "-t", "overlay", "-o", layers, "overlay", merged])
    capture(["mount", "-t", "proc", "proc", merged / "proc"])
    capture(["mount", "--bind", "/dev", merged / "dev"])
    shutil.copy("/etc/resolv.conf", merged / "etc/resolv.conf")
    try:
        yield merged
    finally:
        _detach(home)


def _detach(home: Path) -> None:
    """Unmounts the overlay that an interrupted run may have left, and then removes it."""
    merged = home / "merged"
    for path in (merged / "dev", merged / "proc", merged):
        if path.is_mount():
            capture(["umount", "-l", path])
    shutil.rmtree(home, ignore_errors=True)


def copy_sources(target: Path) -> None:
    """Copies the files that git tracks, as a user's clone has them."""
    listed = capture(["git", "-C", paths.ROOT, "ls-files", "-z"])
    for name in filter(None, listed.split("\0")):
        source = paths.ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / name)


def install_package(merged: Path, release: str, log: Path) -> None:
    """Builds our package in the machine, checks it with lintian, and installs it with apt.

    Also builds the sources without the package, for `make modules_install` in the guest.
    """
    sources = merged / "root/rpcrdma"
    copy_sources(sources)
    deb = _build(merged, log)
    changes = next((sources / "build/deb").glob("*.changes"))
    with step("debian machine: lintian", log):
        options = ["--fail-on", "error,warning", "--allow-root"]
        built = f"/root/rpcrdma/build/deb/{changes.name}"
        logged([*inside(merged), "lintian", *options, built], log)
    _install(merged, deb, log)
    for line in figures(merged, release):
        say(f"    {line}")
    with step("debian machine: make without the package", log):
        make = ["make", "-C", "/root/rpcrdma", f"KDIR=/lib/modules/{release}/build"]
        logged([*inside(merged), *make], log)


def upgrade(merged: Path, release: str, log: Path) -> None:
    """Installs our package, then a higher version of it, then another kernel, all by apt."""
    sources = merged / "root/rpcrdma"
    copy_sources(sources)
    _install(merged, _build(merged, log), log)
    raise_version(sources)
    _install(merged, _build(merged, log), log)
    own = machine().debian
    other = release.replace(f"-{own}", f"-{OTHER_FLAVOUR}-{own}")
    _install_kernel(merged, other, ("headers", "modules"), log)


def change_series(merged: Path, release: str, log: Path) -> None:
    """Installs our package, then the newest kernel of the suite with its headers, all by apt."""
    del release
    copy_sources(merged / "root/rpcrdma")
    _install(merged, _build(merged, log), log)
    newest, _ = newest_kernel(log, ())
    _install_kernel(merged, newest, PREPARED.kernel, log)


def _install_kernel(merged: Path, release: str, kinds: Sequence[str], log: Path) -> None:
    """Installs these packages of a kernel of the suite."""
    words = [f"linux-{kind}-{release}" for kind in kinds]
    with step(f"debian machine: apt-get install {' '.join(words)}", log):
        apt = ["apt-get", "install", "-y", "--no-install-recommends", "-t", kernels()]
        logged([*inside(merged), *apt, *words], log)


def version() -> str:
    """Returns the version of this tree."""
    return (paths.ROOT / "VERSION").read_text().strip()


def higher(version: str) -> str:
    """Returns a version that is higher."""
    return f"{version}.1"


def raise_version(sources: Path) -> None:
    """Makes the sources those of a higher version."""
    old, new = version(), higher(version())
    (sources / "VERSION").write_text(f"{new}\n")
    dkms, changelog = sources / "dkms.conf", sources / "debian/changelog"
    dkms.write_text(dkms.read_text().replace(f'"{old}"', f'"{new}"'))
    changelog.write_text(changelog.read_text().replace(f"({old})", f"({new})", 1))


def inside(merged: Path) -> list[str | Path]:
    """Returns the beginning of a command that runs in the machine."""
    return ["chroot", merged, "env", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"]


def _build(merged: Path, log: Path) -> Path:
    """Builds the packages, and returns that of the module."""
    folder = merged / "root/rpcrdma/build/deb"
    shutil.rmtree(folder, ignore_errors=True)
    with step("debian machine: building the package", log):
        logged([*inside(merged), "make", "-C", "/root/rpcrdma", "deb"], log)
    return next(folder.glob("rpcrdma-dkms_*_all.deb"))


def _install(merged: Path, deb: Path, log: Path) -> None:
    """Installs a package, or upgrades to it."""
    with step(f"debian machine: apt-get install {deb.name} ({deb.stat().st_size} bytes)", log):
        apt = ["apt-get", "install", "-y", "--no-install-recommends"]
        logged([*inside(merged), *apt, f"/root/rpcrdma/build/deb/{deb.name}"], log)


def figures(merged: Path, release: str) -> list[str]:
    """Returns the lines of the log of DKMS about the preparation and the times."""
    logs = (merged / "var/lib/dkms/rpcrdma").glob(f"*/{release}/*/log/make.log")
    telling = re.compile(r"exported Rust symbols|: prepared, |# (?:command|elapsed time): ")
    return [line for log in logs for line in log.read_text().splitlines() if telling.search(line)]


def squash(merged: Path, target: Path, log: Path) -> None:
    """Makes an image of the machine, without the large files of the compilers."""
    args = ["mksquashfs", merged, target, "-noI", "-noD", "-noF", "-noX", "-b", "64K"]
    args += ["-noappend", "-no-progress", "-wildcards", "-e", *_SKIPPED]
    args += ["proc/*", "dev/*", "root/rpcrdma/.git"]
    with step("debian machine: image", log):
        logged(args, log)
