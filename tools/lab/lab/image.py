# SPDX-License-Identifier: GPL-2.0
"""The guests' root image: a squashfs of Debian packages, and a payload disk.

The image changes rarely; its name in the cache has a hash of its contents. Modules and scripts
change with every build, so they are in a tar on a second disk, and a new module needs no new image.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from . import arch, debian, given, paths
from .command import capture, logged
from .progress import step

#: mksquashfs of Debian 12 needs more zero blocks at the end than tar guarantees.
_SQUASH = (
    '{ cat "$0"; head -c 20480 /dev/zero; } |'
    ' mksquashfs - "$1" -tar -noI -noD -noF -noX -b 64K -noappend -no-progress'
)
_BINFMT = Path("/proc/sys/fs/binfmt_misc")
_EXCLUDE = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")


def packages() -> list[str]:
    """Returns the package names in guest/packages.txt."""
    lines = (paths.GUEST / "packages.txt").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def ensure(machine: arch.Machine | None = None) -> Path:
    """Returns the root image of a machine, the client's without `machine`.

    Builds it if the cache does not have it.
    """
    if built := given.read():
        return Path(built.image)
    stage1 = paths.GUEST / "stage1"
    release = debian.codename()
    text = "\n".join([release, *packages(), stage1.read_text()])
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    machine = machine or arch.chosen("client")
    name = release if machine == arch.X86 else f"{release}-{machine.debian}"
    image = paths.sub("image") / f"{name}-{key}.sqfs"
    if not image.exists():
        with paths.locked("image"):
            if not image.exists():
                _build(image, stage1, machine)
    return image


def _emulate_programs() -> None:
    """Lets this host run programs of other architectures, by qemu-user, as `mmdebstrap` does."""
    if not _BINFMT.joinpath("register").exists():
        capture(["mount", "-t", "binfmt_misc", "binfmt_misc", _BINFMT])
    capture(["update-binfmts", "--enable"])


def _build(image: Path, stage1: Path, machine: arch.Machine) -> None:
    """Bootstraps under a temporary name and renames, so that the image is complete or absent."""
    mirror = debian.mirror()
    log = paths.log_file("image")
    log.unlink(missing_ok=True)
    tar, partial = image.with_suffix(".tar"), image.with_suffix(".partial")
    if not machine.native:
        _emulate_programs()
    args = ["mmdebstrap", "--format=tar", "--variant=essential"]
    args += [f"--architectures={machine.debian}"]
    args += ["--include=" + ",".join(packages())]
    args += ['--aptopt=Acquire::Retries "5"']
    args += [f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDE]
    args += [f"--customize-hook=copy-in {stage1} /sbin"]
    args += [mirror.codename, str(tar), mirror.source_line(mirror.codename).strip()]
    with step(f"guest image: bootstrapping Debian {mirror.codename} ({machine.debian})", log):
        logged(args, log)
        # Not compressed: decompression under TCG would slow down every boot.
        logged(["bash", "-c", _SQUASH, str(tar), str(partial)], log)
    tar.unlink()
    partial.rename(image)


def payload(target: Path, files: Mapping[str, Path | str]) -> None:
    """Writes the second disk: a tar of `files`, by name in the guest's /lab.

    A `str` is a file's text, a `Path` a file on the host. All files are executable, for the sake of
    the scripts.
    """
    with tarfile.open(target, "w") as tar:
        for name, content in {"init": paths.GUEST / "init", **files}.items():
            data = content.read_bytes() if isinstance(content, Path) else content.encode()
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o755
            tar.addfile(info, io.BytesIO(data))
