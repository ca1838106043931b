# SPDX-License-Identifier: GPL-2.0
"""The command nfsrdma in the guests."""

from __future__ import annotations

import io
import json
import tarfile

from . import paths
from .pair import Guest, Pair

TOOL = "/run/nfsrdma/command"
#: Waits until the command has a trace instance, and until the number of the module's events that it
#: has enabled there does not change any more.
_BEGUN = """
count() { cat /sys/kernel/tracing/instances/nfsrdma*/set_event 2>/dev/null | grep -c ^rpcrdma:; }
until n=$(count); [ "$n" -gt 0 ]; do sleep 0.2; done
until [ "$n" = "$before" ]; do before=$n; sleep 1; n=$(count); done
"""


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
    """Waits until the command records the module's trace events in a guest."""
    guest.sh(_BEGUN, timeout=90)


def doctor(guest: Guest, server: str = "", prefix: str = "") -> dict[str, str]:
    """Returns the doctor's fixes, by the name of the finding. `prefix`: runs the command."""
    done = guest.run(f"{prefix} {TOOL} doctor --json {server}")
    told = json.loads(done.stdout)
    wrong = any(finding["severity"] != "note" for finding in told["findings"])
    assert done.status == (3 if wrong else 0)
    return {finding["finding"]: finding["fix"] for finding in told["findings"]}
