# SPDX-License-Identifier: GPL-2.0
"""Checks whether the module is loaded, and which one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from .. import connections
from ..host import MISSING
from .kinds import Finding, finding
from .view import Fact, View

#: The oldest and the newest series that DKMS builds for (Documentation/kernel-range.rst).
OLDEST = (7, 2)
NEWEST = (7, 3)
_LIMITS = {"oldest": ".".join(map(str, OLDEST)), "newest": ".".join(map(str, NEWEST))}
#: Meanings of the letters of a taint (Documentation/admin-guide/tainted-kernels.rst).
_TAINTS = {
    "P": "its licence is not free",
    "F": "it was loaded by force",
    "C": "it is from the staging tree",
    "O": "it was built out of the kernel's tree",
    "E": "it has no signature that the kernel knows",
    "K": "it patches the running kernel",
    "X": "its distribution marks it",
    "N": "it is for tests",
}


def check(view: View) -> Iterator[Fact | Finding]:
    """Examines the loaded module and the installed one."""
    yield from _denied(view)
    if not view.module_is_loaded:
        yield _missing(view)
        return
    if view.module_is_ours:
        yield from _check_ours(view)
    else:
        yield _stock(view)
    yield from _taint(view)


def _denied(view: View) -> Iterator[Fact | Finding]:
    """Says whether debugfs or the kernel's log is not readable for this user."""
    denied = [connections.FOLDER] if view.host.is_denied(connections.FILE) else []
    denied += ["the kernel's log"] if view.log.status not in (0, MISSING) else []
    if denied and not view.host.is_root():
        yield finding("not-root")
    elif denied:
        yield Fact(f"root may not read here, as in a container: {', '.join(denied)}")


def _check_ours(view: View) -> Iterator[Fact | Finding]:
    loaded = (view.host.read("/sys/module/rpcrdma/version") or "?").strip()
    installed = _installed(view)
    if installed and installed != loaded:
        yield finding("module-outdated", loaded=loaded, installed=installed)
    else:
        yield Fact(f"rpcrdma {loaded} is loaded")
    if not view.host.is_denied(connections.FILE) and not view.host.names("/sys/kernel/debug"):
        yield finding("debugfs-missing")


def _stock(view: View) -> Finding:
    installed = _installed(view)
    if installed:
        return finding("module-unused", installed=installed)
    release = _release(view)
    if OLDEST <= _series(release) <= NEWEST:
        return finding("module-stock", release=release)
    if _series(release) > NEWEST:
        # The kernel's own module works, but shows less.
        return replace(_too_new(release, "the kernel's own module is loaded"), is_note=True)
    return finding("kernel-skipped", release=release, **_LIMITS)


def _too_new(release: str, instead: str) -> Finding:
    return finding("kernel-too-new", release=release, instead=instead, **_LIMITS)


def _taint(view: View) -> Iterator[Fact]:
    """Adds the taint of the module."""
    letters = view.host.read("/sys/module/rpcrdma/taint")
    if letters is None:
        return
    told = [f"{_TAINTS.get(letter, 'another reason')} ({letter})" for letter in letters.strip()]
    yield Fact(f"it taints the kernel: {', '.join(told)}" if told else "it taints no kernel")


def _missing(view: View) -> Finding:
    if view.host.run("modinfo", "-n", "rpcrdma").status == 0:
        return finding("module-missing")
    release = _release(view)
    if _series(release) < OLDEST:
        return finding("kernel-too-old", release=release, oldest=_LIMITS["oldest"])
    if _series(release) > NEWEST:
        return _too_new(release, "it has no module rpcrdma")
    return finding("module-not-installed", release=release)


def _release(view: View) -> str:
    return (view.host.read("/proc/sys/kernel/osrelease") or "?").strip()


def _series(release: str) -> tuple[int, ...]:
    """Returns the series of a kernel release, or the oldest one that is supported if unreadable."""
    numbers = re.match(r"(\d+)\.(\d+)", release)
    return tuple(map(int, numbers.groups())) if numbers else OLDEST


def _installed(view: View) -> str:
    """Returns the version that modprobe would load; empty if unknown, or the kernel's own."""
    done = view.host.run("modinfo", "-F", "version", "rpcrdma")
    return done.out.strip() if done.status == 0 else ""
