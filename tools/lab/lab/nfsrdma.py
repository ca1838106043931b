# SPDX-License-Identifier: GPL-2.0
"""The command nfsrdma in the guests."""

from __future__ import annotations

import io
import json
import tarfile

from . import paths
from .pair import Guest, Pair

TOOL = "/run/nfsrdma/command"


def install(pair: Pair) -> Pair:
    """Puts the command in both guests."""
    tree, data = paths.ROOT / "tools/nfsrdma", io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.add(tree / "command", "command")
        for file in sorted((tree / "nfsrdma").rglob("*.py")):
            tar.add(file, str(file.relative_to(tree)))
    for guest in (pair.client, pair.server):
        guest.sh("mkdir -p /run/nfsrdma && tar -x -C /run/nfsrdma", stdin=data.getvalue())
    return pair


def await_recording(guest: Guest) -> None:
    """Waits until the command has begun to record trace events in a guest."""
    begun = "until ls /sys/kernel/tracing/instances | grep -q nfsrdma; do sleep 0.2; done"
    guest.sh(f"timeout 60 sh -c '{begun}'; sleep 1", timeout=90)


def doctor(guest: Guest, server: str = "", prefix: str = "") -> dict[str, str]:
    """Returns the doctor's fixes, by the name of the finding. `prefix`: runs the command."""
    done = guest.run(f"{prefix} {TOOL} doctor --json {server}")
    told = json.loads(done.stdout)
    wrong = any(finding["severity"] != "note" for finding in told["findings"])
    assert done.status == (3 if wrong else 0)
    return {finding["finding"]: finding["fix"] for finding in told["findings"]}
