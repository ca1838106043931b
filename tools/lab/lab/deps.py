# SPDX-License-Identifier: GPL-2.0
"""Installs the lab's dependencies on a bare Debian machine."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from . import arch, debian, emulator, kernel, paths, settings, toolchain
from .command import logged
from .errors import LabError
from .progress import say, step

HOST_PACKAGES = paths.LAB / "host-packages.txt"
REQUIREMENTS = paths.LAB / "requirements.txt"


def wanted(text: str, codename: str, foreign: Sequence[str] = ()) -> list[str]:
    """Returns the packages of the list that this release and machine need.

    `foreign`: the architectures of guests that are not the host's.
    """
    names = []
    for line in text.splitlines():
        name, *conditions = line.split() or ["#"]
        if name.startswith("#"):
            continue
        releases = [c[1:] for c in conditions if c.startswith("@")]
        commands = [c[1:] for c in conditions if c.startswith("?")]
        guests = [c[1:] for c in conditions if c.startswith("=")]
        if releases and codename not in releases:
            continue
        if guests and not set(guests) & set(foreign):
            continue
        if commands and all(shutil.which(command) for command in commands):
            continue
        names.append(name)
    return names


def absent(names: list[str]) -> list[str]:
    """Returns the packages that are not installed."""
    query = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *names]
    done = subprocess.run(query, capture_output=True, text=True)
    have = {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" installed")}
    return [name for name in names if name not in have]


def install_packages() -> None:
    """Installs the packages of the list that are missing.

    # Errors
    As for `install`.
    """
    foreign = [machine.arch for machine in arch.in_use() if not machine.native]
    install(wanted(HOST_PACKAGES.read_text(), debian.codename(), foreign))


def install(packages: list[str]) -> None:
    """Installs those of the packages that are missing.

    # Errors
    `LabError` with the exact command for a user who is not root.
    """
    names = absent(packages)
    if not names:
        say("Debian packages: all installed")
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends"]
    command += ["-o", "Acquire::Retries=5", *names]
    if os.geteuid() != 0:
        raise LabError("packages are missing; as root:\n    " + " ".join(command))
    log = paths.log_file("packages")
    log.unlink(missing_ok=True)
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    with step(f"Debian packages: installing {len(names)}: {' '.join(names)}", log):
        try:
            logged(command, log, env=env)
        except LabError:
            logged(["apt-get", "update"], log)
            logged(command, log, env=env)


def install_venv() -> Path:
    """Makes a virtual environment with the pinned tools that Debian does not package."""
    key = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    venv = paths.cache() / f"venv-{key}"
    if (venv / ".complete").exists():
        return venv
    log = paths.log_file("venv")
    with step("Python tools: installing into a venv of the cache", log):
        shutil.rmtree(venv, ignore_errors=True)
        logged(["/usr/bin/python3", "-m", "venv", "--system-site-packages", venv], log)
        logged([venv / "bin/pip", "install", "-q", "-r", REQUIREMENTS], log)
        (venv / ".complete").touch()
    return venv


def install_bindgen(src: Path) -> None:
    """Builds a bindgen into the cache when no installed one satisfies the kernel."""
    try:
        toolchain.choose(src, settings.llvm())
        return
    except LabError as err:
        if toolchain.cached_bindgen().exists():
            raise
        complaint = str(err).splitlines()[-1]
    cargo = shutil.which("cargo") or shutil.which("cargo", path="/usr/bin")
    if not cargo:
        raise LabError(f"no cargo to build bindgen with ({complaint})")
    root = toolchain.cached_bindgen().parent.parent
    partial = root.with_name(root.name + ".partial")
    log = paths.log_file("bindgen")
    version = toolchain.BINDGEN_VERSION
    with step(f"bindgen {version}: building", log):
        args = [cargo, "install", "--locked", "bindgen-cli", "--version", version]
        logged([*args, "--root", partial, "--force"], log)
        partial.rename(root)
    toolchain.choose(src, settings.llvm())


def ensure() -> None:
    """Installs everything in order; skips the parts that are there already."""
    with paths.locked("deps"):
        install_packages()
        install_venv()
        for machine in arch.in_use():
            emulator.ensure(machine)
        install_bindgen(kernel.source().path)


def main(arguments: Sequence[str]) -> int:
    """``lab deps``."""
    argparse.ArgumentParser(prog="lab deps", description=__doc__).parse_args(arguments)
    ensure()
    say("the lab has what it needs")
    return 0
