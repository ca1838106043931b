# SPDX-License-Identifier: GPL-2.0
"""The picture of metrics.rst: panels of the dashboard, as Prometheus draws them from a run.

Both guests export their metrics, and look at them every few seconds. Prometheus imports the texts,
and a browser shows its page of graphs.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from . import paths
from .command import capture
from .errors import LabError
from .nfsrdma import TOOL
from .pair import Pair

PICTURE = paths.ROOT / "Documentation/nfsrdma-metrics.png"
DASHBOARD = paths.ROOT / "tools/nfsrdma/monitoring/dashboard.json"
#: Debian packages: promtool belongs to the same.
PACKAGES = ["prometheus"]
#: The panels, by their titles.
PANELS = ("Bytes by way", "Messages and segments")
#: Seconds of the recording, between two looks, and from its begin to the restart of nfsd.
RECORDED, EVERY, RESTART = 90, 3, 45
#: The time over which a rate is taken.
RATE = "15s"
_PORT = 10049
#: Waits until the exporter answers, and looks at it.
_LOOK = f"""
import time, urllib.request

def told():
    with urllib.request.urlopen("http://127.0.0.1:{_PORT}/metrics", timeout=30) as page:
        return page.read().decode()

for _ in range(60):
    try:
        told()
        break
    except OSError:
        time.sleep(0.5)
with open("/run/metrics", "w") as out:
    for _ in range({RECORDED // EVERY}):
        began = time.time()
        out.write(f"# {{began}}\\n{{told()}}")
        time.sleep(max(0, began + {EVERY} - time.time()))
"""
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")


def record(pair: Pair) -> dict[str, str]:
    """Returns what each guest has exported, by its name. nfsd restarts meanwhile.

    # Errors
    `LabError`: a guest has no metrics.
    """
    looks = {}
    for guest in (pair.server, pair.client):
        guest.vm.start(f"exec {TOOL} export --listen 127.0.0.1:{_PORT}")
        guest.write("/run/look.py", _LOOK.encode())
        looks[guest] = guest.vm.start("exec python3 /run/look.py")
    time.sleep(RESTART)
    pair.restart_nfsd()
    for guest, look in looks.items():
        done = guest.vm.agent.wait(look, RECORDED + 120)
        if done.status:
            raise LabError(f"{guest.name}: no metrics: {done.stderr.decode().strip()}")
    return {guest.name: guest.read("/run/metrics") for guest in looks}


def openmetrics(told: Mapping[str, str]) -> str:
    """Returns all samples with the guest's name and their time, as promtool imports them."""
    lines, now = [], 0.0
    for instance, text in told.items():
        for line in text.splitlines():
            if re.fullmatch(r"# [\d.]+", line):
                now = float(line[2:])
            elif sample := _SAMPLE.match(line):
                labels = ",".join(filter(None, (f'instance="{instance}"', sample[2])))
                lines.append(f"{sample[1]}{{{labels}}} {sample[3]} {now:.3f}")
    return "\n".join([*lines, "# EOF", ""])


def expressions() -> list[str]:
    """Returns the first expression of each panel.

    # Errors
    `LabError`: the dashboard lacks a panel.
    """
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    found = {p["title"]: p["targets"][0]["expr"] for p in panels if p.get("targets")}
    if missing := set(PANELS) - set(found):
        raise LabError(f"{DASHBOARD.name} has no panel {', '.join(sorted(missing))}")
    texts = [found[title] for title in PANELS]
    return [t.replace("$__rate_interval", RATE).replace("$instance", ".*") for t in texts]


def pages(base: str, told: Mapping[str, str]) -> list[str]:
    """Returns the address of Prometheus's page for each panel."""
    times = [re.findall(r"^# ([\d.]+)$", text, re.M) for text in told.values()]
    first, last = (float(pick(found[at] for found in times)) for pick, at in ((min, 0), (max, -1)))
    # The page knows minutes.
    minute = math.ceil(last / 60) * 60
    end = time.strftime("%Y-%m-%d %H:%M", time.gmtime(minute))
    shown = math.ceil(minute - first)
    time_range = {"range_input": f"{shown}s", "end_input": end, "step_input": "1"}
    found = []
    for expression in expressions():
        graph = {"expr": expression, "tab": "0", **time_range}
        fields = {f"g0.{name}": value for name, value in graph.items()}
        found.append(f"{base}/classic/graph?{urllib.parse.urlencode(fields)}")
    return found


@contextmanager
def served(told: Mapping[str, str]) -> Iterator[str]:
    """Imports the samples and runs Prometheus inside the block. Yields its address.

    # Errors
    `LabError`: Prometheus does not start.
    """
    with tempfile.TemporaryDirectory() as name, socket.socket() as probe:
        directory = Path(name)
        (directory / "samples").write_text(openmetrics(told))
        (directory / "prometheus.yml").write_text("global: {}\n")
        data = directory / "data"
        importing = ("tsdb", "create-blocks-from", "openmetrics")
        capture(["promtool", *importing, directory / "samples", data])
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
        probe.close()
        files = (f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={data}")
        program = shutil.which("prometheus")
        if not program:
            raise LabError("no prometheus, although its package is installed")
        server = subprocess.Popen(
            [program, *files, f"--web.listen-address={address}", "--log.level=error"]
        )
        try:
            _await_ready(f"http://{address}", server)
            yield f"http://{address}"
        finally:
            server.terminate()
            server.wait()


def _await_ready(base: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(60):
        try:
            with urllib.request.urlopen(f"{base}/-/ready"):
                return
        except OSError:
            time.sleep(0.5)
        if server.poll() is not None:
            break
    raise LabError("Prometheus does not start")
