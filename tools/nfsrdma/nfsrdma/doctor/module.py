# SPDX-License-Identifier: GPL-2.0
"""Looks whether the module is loaded, and which one."""

from __future__ import annotations

from collections.abc import Iterator

from .. import connections
from .kinds import Finding, finding
from .view import Fact, View


def check(view: View) -> Iterator[Fact | Finding]:
    """Looks at the loaded module and at the installed one."""
    if not view.module_is_loaded:
        yield _missing(view)
        return
    if not view.module_is_ours:
        yield finding("module-stock")
        return
    loaded = (view.host.read("/sys/module/rpcrdma/version") or "?").strip()
    installed = _installed(view)
    if installed and installed != loaded:
        yield finding("module-outdated", loaded=loaded, installed=installed)
    else:
        yield Fact(f"rpcrdma {loaded} is loaded")
    yield from _can_be_seen(view)


def _missing(view: View) -> Finding:
    if view.host.run("modinfo", "-n", "rpcrdma").status == 0:
        return finding("module-missing")
    release = (view.host.read("/proc/sys/kernel/osrelease") or "?").strip()
    return finding("module-not-installed", release=release)


def _installed(view: View) -> str:
    """Returns the version that modprobe would load; empty if unknown, or the kernel's own."""
    done = view.host.run("modinfo", "-F", "version", "rpcrdma")
    return done.out.strip() if done.status == 0 else ""


def _can_be_seen(view: View) -> Iterator[Finding]:
    if view.host.read(connections.FILE) is not None:
        return
    if view.host.is_denied(connections.FILE):
        yield finding("not-root")
    elif not view.host.names("/sys/kernel/debug"):
        yield finding("debugfs-missing")
