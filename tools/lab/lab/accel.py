# SPDX-License-Identifier: GPL-2.0
"""Finds out whether KVM can run a guest on this machine, by running one.

In a nested virtual machine /dev/kvm may exist and even create a machine, but not execute it. Only
a kernel that has printed something proves that KVM works.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from . import arch, paths, settings
from .errors import LabError
from .kernel import Bootable

_PATIENCE = 15


def choose(kernel: Bootable) -> str:
    """Returns `kvm` or `tcg`, as `ACCEL` asks and the host allows for this kernel's machine.

    # Errors
    `LabError` when `ACCEL` demands KVM and KVM does not work.
    """
    asked = settings.accel()
    works = asked != "tcg" and kernel.machine.native and os.access("/dev/kvm", os.W_OK)
    works = works and _probe_once(kernel.image, kernel.machine)
    if asked == "kvm" and not works:
        raise LabError("ACCEL=kvm: KVM does not run a guest on this machine")
    return "kvm" if works else "tcg"


def _probe_once(kernel: Path, machine: arch.Machine) -> bool:
    """Returns the result of the probe, which a file keeps until the machine reboots."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    note = paths.sub("tmp") / f"kvm-{boot}"
    if not note.exists():
        note.write_text("works" if _boots(kernel, machine) else "fails")
    return note.read_text() == "works"


def _boots(kernel: Path, machine: arch.Machine) -> bool:
    args = [machine.program, "-machine", machine.board, "-accel", "kvm", "-cpu", "host"]
    args += ["-m", "512"]
    args += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    args += ["-serial", "stdio", "-kernel", str(kernel), "-append"]
    args += [f"console={machine.console} panic=-1"]
    try:
        # Without a root file system the kernel panics, and QEMU ends.
        done = subprocess.run(args, capture_output=True, timeout=_PATIENCE)
    except (subprocess.TimeoutExpired, FileNotFoundError):
        return False
    return b"Linux version" in done.stdout
