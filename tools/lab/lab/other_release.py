# SPDX-License-Identifier: GPL-2.0
"""Runs checks and a scenario on the other release of Debian: on 12 in a root of 13, and reverse.

The lab runs on both, but a machine has one. The root begins as a user's machine does, with
essential packages, make, git and certificates, and `make lab-deps` installs the rest there. The
cache keeps it, with what cargo has built in it.

The short form runs what depends on the tools of a release, and a scenario whose capture is
dissected. Its guests have the kernel, the modules and the image that this machine's lab has built.
With `FULL=1` the root runs all of `check-fast` and builds kernel, modules and image by itself.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from . import debian, deps, given, image, kernel, module, paths, settings
from .command import capture, logged
from .errors import LabError
from .progress import say, step

#: The releases, each with the other one, and their names.
OTHER = {"bookworm": "trixie", "trixie": "bookworm"}
NAMES = {"bookworm": "Debian 12", "trixie": "Debian 13"}
#: The packages that the README requires of a machine, beside essential ones.
FRESH = ("make", "git", "ca-certificates")
#: The parts of check-fast that the short form leaves out depend on the kernel's compilers, not on
#: the release: check-harness, check-clippy, lab-modules.
SHORT = ("check-tree", "check-lint", "check-host", "check-crates", "check-rfc-map", "check-wire")
SHORT += ("check-nfsrdma", "headers-check", "lab-lint")
#: A scenario with a capture, which the dissector in Lua decodes.
SCENARIO = "version_two::mount[auto]"
#: Places in the root: the sources, the lab's cache, and the description of what is given.
SOURCES, CACHE, GIVEN = "/srv/rpcrdma", "/var/cache/lab", "/srv/given.json"
#: Variables that reach the root: how this machine gets at registries, and how the lab runs.
KEPT = ("PIP_", "CARGO_HTTP_", "SSL_CERT_", "http_proxy", "https_proxy", "no_proxy")
KEPT += ("TERM", "LANG", "CI", "ACCEL", "JOBS")


def directory(release: str) -> Path:
    """Returns the folder of a release's root; its name has a hash of the installed packages."""
    texts = [deps.HOST_PACKAGES.read_text(), deps.REQUIREMENTS.read_text(), *FRESH]
    key = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]
    return paths.sub("release") / f"{release}-{key}"


def environment(**further: str) -> list[str]:
    """Returns the beginning of a command in the root, which gets only these variables."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    settled = {"PATH": path, "HOME": "/root", "XDG_CACHE_HOME": CACHE, **kept, **further}
    settled["KERNEL_SRC"] = str(kernel.source().path)
    return ["env", "-i", *(f"{name}={value}" for name, value in settled.items())]


def entered(root: Path, *folders: str) -> list[str]:
    """Returns the beginning of a command in the root with these folders and the kernel's source.

    They need not be in the cache: the user may have named another source, or a build tree.
    """
    command = ["unshare", "--mount", "--propagation", "unchanged"]
    command += ["--pid", "--fork", "--kill-child"]
    seen = dict.fromkeys([str(kernel.source().path), *folders])
    return [*command, str(paths.LAB / "debian/enter"), str(root), *seen, "--"]


def ensure(release: str) -> Path:
    """Returns the root, and makes it if the cache does not have it. Removes older ones."""
    root = directory(release)
    if not root.exists():
        log = paths.log_file(f"release-{release}")
        log.unlink(missing_ok=True)
        for old in root.parent.glob(f"{release}-*"):
            shutil.rmtree(old)
        partial = root.with_name(root.name + ".partial")
        _bootstrap(partial, release, log)
        partial.rename(root)
    return root


def _bootstrap(root: Path, release: str, log: Path) -> None:
    """Makes the root like a user's machine, and installs the lab's dependencies there."""
    source = debian.mirror().source_line(release).strip()
    args = ["mmdebstrap", "--format=directory", "--variant=apt", f"--include={','.join(FRESH)}"]
    # Nobody needs the root after a loss of power.
    args += ["--dpkgopt=force-unsafe-io", '--aptopt=Acquire::Retries "5"']
    with step(f"{NAMES[release]}: bootstrapping a root", log):
        logged([*args, release, str(root), source], log)
    _renew(root)
    with step(f"{NAMES[release]}: make lab-deps", log):
        make = ["make", "-C", SOURCES, "lab-deps"]
        logged([*entered(root), *environment(), *make], log)


def _renew(root: Path) -> None:
    """Copies what finds and proves hosts on this machine, and sources that have changed.

    What git ignores is left alone, so cargo builds in the root only what has changed.
    """
    for file in ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"):
        shutil.copy(Path("/", file), root / file)
    target = root / SOURCES.lstrip("/")
    target.mkdir(parents=True, exist_ok=True)
    options = ["-a", "--checksum", "--no-times", "--delete"]
    filters = ["--filter=:- .gitignore", "--exclude=/.git"]
    capture(["rsync", *options, *filters, f"{paths.ROOT}/", f"{target}/"])


def _give(root: Path) -> list[str]:
    """Describes what this machine's lab has built to that in the root; returns the folders."""
    built = kernel.ensure("plain")
    modules = [module.build(built).rpcrdma, module.build_provoker(built)]
    trees = [built.src, built.obj, *(path.parent for path in modules)]
    what = given.Given(str(image.ensure()), *map(str, trees))
    what.write(root / GIVEN.lstrip("/"))
    return what.folders()


def commands(full: bool) -> Iterator[list[str]]:
    """Yields what runs in the root: first what boots no guest, then the scenario."""
    make = ["make", "--no-print-directory", "-C", SOURCES]
    targets = ("check-fast",) if full else SHORT
    jobs = [f"-j{settings.jobs()}", "--keep-going", "--output-sync=target"]
    yield [*environment(), *make, *jobs, *targets]
    scenario = {"ONLY": SCENARIO, "CLIENT": "ours", "SERVER": "ours"}
    scenario |= {} if full else {"LAB_GIVEN": GIVEN}
    yield [*environment(**scenario), *make, "lab-check"]


def run(command: Sequence[str], name: str) -> int:
    """Runs a command and prints its lines with a name in front. Returns the status."""
    with _started(command) as child:
        assert child.stdout is not None
        for line in child.stdout:
            print(f"{name}: {line}", end="", flush=True)
        return child.wait()


@contextmanager
def _started(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Starts a command that does not outlive the block, with all that it has started."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        yield child
    finally:
        # unshare ignores the gentler signals, and takes its processes along.
        child.kill()
        child.wait()


def main(arguments: Sequence[str]) -> int:
    """``lab other-release``."""
    argparse.ArgumentParser(prog="lab other-release", description=__doc__).parse_args(arguments)
    release = OTHER.get(debian.codename())
    if not release:
        raise LabError(f"the lab runs on {' and '.join(NAMES.values())}")
    if os.geteuid() != 0:
        say(f"{NAMES[release]}: not run, because its root needs root")
        return 0
    with paths.locked("release"):
        root = ensure(release)
        _renew(root)
        begin = entered(root, *([] if settings.full() else _give(root)))
        name = NAMES[release]
        statuses = [run([*begin, *command], name) for command in commands(settings.full())]
    return next(filter(None, statuses), 0)
