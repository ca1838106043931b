# SPDX-License-Identifier: GPL-2.0
"""Looks whether the module is loaded, and which one."""

from __future__ import annotations

from collections.abc import Iterator

from .. import connections
from ..host import MISSING
from .kinds import Finding, finding
from .view import Fact, View


def check(view: View) -> Iterator[Fact | Finding]:
    """Looks at the loaded module and at the installed one."""
    if _is_denied(view):
        yield finding("not-root")
    if not view.module_is_loaded:
        yield _missing(view)
    elif not view.module_is_ours:
        yield finding("module-stock")
    else:
        yield from _check_ours(view)


def _is_denied(view: View) -> bool:
    """Whether this user may not look at debugfs or at the kernel's log."""
    return view.host.is_denied(connections.FILE) or view.log.status not in (0, MISSING)


def _check_ours(view: View) -> Iterator[Fact | Finding]:
    loaded = (view.host.read("/sys/module/rpcrdma/version") or "?").strip()
    installed = _installed(view)
    if installed and installed != loaded:
        yield finding("module-outdated", loaded=loaded, installed=installed)
    else:
        yield Fact(f"rpcrdma {loaded} is loaded")
    if not view.host.is_denied(connections.FILE) and not view.host.names("/sys/kernel/debug"):
        yield finding("debugfs-missing")


def _missing(view: View) -> Finding:
    if view.host.run("modinfo", "-n", "rpcrdma").status == 0:
        return finding("module-missing")
    release = (view.host.read("/proc/sys/kernel/osrelease") or "?").strip()
    return finding("module-not-installed", release=release)


def _installed(view: View) -> str:
    """Returns the version that modprobe would load; empty if unknown, or the kernel's own."""
    done = view.host.run("modinfo", "-F", "version", "rpcrdma")
    return done.out.strip() if done.status == 0 else ""
