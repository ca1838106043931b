# SPDX-License-Identifier: GPL-2.0
"""`make pictures`: the pictures of the README, from a run of the lab.

Two guests with this module work for a while, and nfsd is restarted meanwhile. The text of
`nfsrdma top` goes into the README; the page of `nfsrdma report`, and graphs of the metrics, as a
browser shows them, go into the documentation.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import demo, deps, nfsrdma, paths, settings
from . import picture_metrics as metrics
from .command import capture
from .errors import LabError
from .pair import MOUNT_POINT, Pair
from .progress import say, step

README = paths.ROOT / "README.md"
PICTURE = paths.ROOT / "Documentation/nfsrdma-report.png"

#: Debian packages: the browser, its font, and the library that crops the picture.
PACKAGES = ["chromium", "fonts-dejavu-core", "python3-pil"]
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)
#: Pixels: the page is not wider.
WIDTH = 960
#: Pixels of the window in which the page is measured.
_FIRST = 800
#: Pixels of a page with a graph of Prometheus, and of the bar above, which is left out.
_GRAPH, _BAR = 1000, 100

#: Seconds of an interval of top, of the recording, and from its begin to the restart of nfsd.
INTERVAL, RECORDED, RESTART = 4, 24, 8

#: The server's exports: a directory with a long list, and a file.
FILES = """
mkdir /srv/export/names; cd /srv/export/names; touch $(seq -f %0100.0f 200)
head -c 4M /dev/zero > /srv/export/f
"""
#: Calls of all forms, until /run/busy goes.
WORK = f"""
touch /run/busy
loop() {{ while [ -e /run/busy ]; do "$@"; sleep 0.3; done; }}
reading() {{ dd if={MOUNT_POINT}/f of=/dev/null bs=64k count=16 iflag=direct; }}
writing() {{ dd if=/dev/zero of={MOUNT_POINT}/w bs=64k count=8 oflag=direct; }}
listing() {{ ls {MOUNT_POINT}/names; echo 1 > /proc/sys/vm/drop_caches; }}
asking() {{ stat --cached=never {MOUNT_POINT}/f; }}
for what in reading writing listing asking; do (loop $what) > /dev/null 2>&1 & done
"""

_BLOCK = re.compile(r"(?<=```text\n)nfsrdma top, .*?(?=```\n)", re.DOTALL)


def written(readme: str, shown: str) -> str:
    """Returns the README with another text of `nfsrdma top`.

    # Errors
    `LabError`: it has no place for it.
    """
    text, count = _BLOCK.subn(lambda _: shown, readme)
    if count != 1:
        raise LabError(f"{README.name} has {count} blocks of `nfsrdma top`, and not one")
    return text


def last_of(told: str) -> str:
    """Returns the last of the intervals that `nfsrdma top` has printed."""
    return told[told.rindex("nfsrdma top, ") :]


def _top(pair: Pair) -> str:
    """Returns the second of two intervals: all work has begun then."""
    command = f"{nfsrdma.TOOL} top --interval {INTERVAL} --count 2"
    return last_of(pair.client.sh(command, timeout=120))


def _report(pair: Pair) -> str:
    """Returns the page of a recording with a restart of nfsd."""
    page = "/run/report.html"
    command = f"{nfsrdma.TOOL} report --seconds {RECORDED} --output {page}"
    recording = pair.client.vm.start(command)
    nfsrdma.await_recording(pair.client)
    time.sleep(RESTART)
    pair.restart_nfsd()
    done = pair.client.vm.agent.wait(recording, 400)
    if done.status:
        raise LabError(f"{command}: {done.stderr.decode().strip()}")
    return pair.client.read(page)


def _browse(address: str, *options: str) -> str:
    """Runs the browser without a window and without settings. Returns its output."""
    browser = shutil.which("chromium")
    if not browser:
        raise LabError("no chromium, although its package is installed")
    with tempfile.TemporaryDirectory() as empty:
        return capture([browser, *_FLAGS, f"--user-data-dir={empty}", *options, address])


def _heights(text: str, directory: Path) -> tuple[int, int]:
    """Returns the heights of the page, and of a window that shows all of it.

    The page runs no program, so a copy of it does. A window is higher than what it shows.
    """
    measure = (
        "<script>document.title = JSON.stringify([document.documentElement.scrollHeight,"
        " window.innerHeight])</script></body>"
    )
    copy = directory / "measured.html"
    copy.write_text(text.replace("</body>", measure), encoding="utf-8")
    shown = _browse(copy.as_uri(), f"--window-size={WIDTH},{_FIRST}", "--dump-dom")
    title = re.search(r"<title>(\[\d+,\d+\])</title>", shown)
    if not title:
        raise LabError("the browser has not measured the page")
    whole, inside = json.loads(title[1])
    return int(whole), int(whole) + _FIRST - int(inside)


def photograph_metrics(told: Mapping[str, str], picture: Path) -> None:
    """Writes the picture of the metrics that both guests have exported: a graph for each panel."""
    from PIL import Image, ImageChops  # noqa: PLC0415 - installed with the browser

    graphs = []
    with tempfile.TemporaryDirectory() as name, metrics.served(told) as base:
        taken = Path(name) / "page.png"
        for address in metrics.pages(base, told):
            size = (f"--window-size={WIDTH},{_GRAPH}", "--virtual-time-budget=10000")
            _browse(address, *size, f"--screenshot={taken}")
            with Image.open(taken) as shown:
                graph = shown.convert("RGB").crop((0, _BAR, WIDTH, shown.height))
            blank = Image.new("RGB", graph.size, graph.getpixel((0, graph.height - 1)))
            *_, bottom = ImageChops.difference(graph, blank).getbbox()
            graphs.append(graph.crop((0, 0, WIDTH, bottom)))
    whole = Image.new("RGB", (WIDTH, sum(graph.height for graph in graphs)))
    top = 0
    for graph in graphs:
        whole.paste(graph, (0, top))
        top += graph.height
    whole.save(picture, optimize=True)


def photograph(text: str, picture: Path) -> None:
    """Writes the picture of a whole page."""
    from PIL import Image  # noqa: PLC0415 - installed with the browser

    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        page = directory / "page.html"
        page.write_text(text, encoding="utf-8")
        height, window = _heights(text, directory)
        taken = directory / "page.png"
        _browse(page.as_uri(), f"--window-size={WIDTH},{window}", f"--screenshot={taken}")
        with Image.open(taken) as shown:
            shown.crop((0, 0, shown.width, min(height, shown.height))).save(picture, optimize=True)


def main(arguments: Sequence[str]) -> int:
    """``lab picture``."""
    argparse.ArgumentParser(prog="lab picture", description=__doc__).parse_args(arguments)
    os.environ.update(CLIENT="ours", SERVER="ours")
    deps.install([*PACKAGES, *metrics.PACKAGES])
    built, client_module = demo.prepare("ours", settings.flavour())
    with demo.boot(built, client_module, "picture") as pair:
        nfsrdma.install(pair)
        pair.server.sh(FILES)
        pair.client.sh(WORK)
        with step("nfsrdma top", pair.directory):
            shown = _top(pair)
        with step("nfsrdma report", pair.directory):
            text = _report(pair)
        with step("nfsrdma export", pair.directory):
            told = metrics.record(pair)
        pair.client.sh("rm /run/busy")
    README.write_text(written(README.read_text(encoding="utf-8"), shown), encoding="utf-8")
    photograph(text, PICTURE)
    photograph_metrics(told, metrics.PICTURE)
    pictures = " and ".join(str(p.relative_to(paths.ROOT)) for p in (PICTURE, metrics.PICTURE))
    say(f"written: {README.name}, {pictures}; look at them")
    return 0
