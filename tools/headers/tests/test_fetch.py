# SPDX-License-Identifier: GPL-2.0
"""Tests the fetch of the source with the real apt, from an archive on this machine."""

from __future__ import annotations

import http.server
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import VERSION, Machine
from test_faults import fails


class Archive(http.server.ThreadingHTTPServer):
    """A flat archive. While `broken` is set, it sends only half of a package."""

    def __init__(self, directory: Path) -> None:
        """Serves `directory` on a port of the loopback interface."""
        self.directory, self.broken = directory, False
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files, or their first half."""

    server: Archive

    def translate_path(self, path: str) -> str:
        """Maps a URL to a name in the archive's own directory."""
        return str(self.server.directory / Path(urllib.parse.unquote(path)).name)

    def copyfile(self, source, outputfile) -> None:  # noqa: ANN001
        """Sends the body."""
        data = source.read()
        if self.server.broken and self.path.endswith(".deb"):
            outputfile.write(data[: len(data) // 2])
            self.close_connection = True
            return
        outputfile.write(data)

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@pytest.fixture
def archive(machine: Machine) -> Iterator[Archive]:
    """Creates an archive with the toy kernel's source, which the machine's apt uses."""
    directory = machine.root / "archive"
    directory.mkdir()
    name = f"linux-source-7.3_{VERSION}_all.deb"
    (machine.root / "source.deb").rename(directory / name)
    # The package must be large enough to be cut in the middle.
    fields = subprocess.run(
        ["dpkg-deb", "-f", directory / name], check=True, capture_output=True, text=True
    ).stdout
    digest = subprocess.run(
        ["sha256sum", directory / name], check=True, capture_output=True, text=True
    ).stdout.split()[0]
    size = (directory / name).stat().st_size
    index = f"{fields.strip()}\nFilename: {name}\nSize: {size}\nSHA256: {digest}\n"
    (directory / "Packages").write_text(index)
    server = Archive(directory)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    use_sources(machine, f"deb [trusted=yes] http://127.0.0.1:{server.server_port}/ ./\n")
    yield server
    server.shutdown()
    server.server_close()


def use_sources(machine: Machine, line: str) -> None:
    """Gives apt on the test machine one source and a state of its own."""
    home = machine.root / "apt"
    for part in ("lists/partial", "cache/archives/partial", "etc"):
        (home / part).mkdir(parents=True, exist_ok=True)
    (home / "sources.list").write_text(line)
    (home / "apt.conf").write_text(
        f'Dir::State::lists "{home}/lists"; Dir::Cache "{home}/cache";\n'
        f'Dir::State::status "{machine.root}/dpkg/status";\n'
        f'Dir::Etc::sourcelist "{home}/sources.list"; Dir::Etc::sourceparts "-";\n'
        f'Dir::Etc::preferencesparts "-"; Acquire::http::Proxy "false"; Acquire::Retries "0";\n'
    )
    machine.environment["APT_CONFIG"] = str(home / "apt.conf")


def succeeds(machine: Machine) -> str:
    status, text = machine.run(source=False)
    assert status == 0, text
    return text


def test_source_from_the_archive(machine: Machine, archive: Archive) -> None:
    """The machine's own lists are empty: the tool fetches lists, and only for itself."""
    del archive
    text = succeeds(machine)
    assert "fetching fresh package lists" in text
    assert not list((machine.root / "apt/lists").glob("*Packages*"))


def test_lists_at_hand_are_used(machine: Machine, archive: Archive) -> None:
    del archive
    environment = {**machine.environment}
    subprocess.run(["apt-get", "update"], env=environment, check=True, capture_output=True)
    assert "fetching fresh package lists" not in succeeds(machine)


def test_interrupted_download(machine: Machine, archive: Archive) -> None:
    archive.broken = True
    fails(machine, "could not be downloaded whole", "run this again", source=False)
    archive.broken = False
    succeeds(machine)


def test_damaged_download(machine: Machine, archive: Archive) -> None:
    """A package whose hash differs from the index is not used."""
    deb = next(archive.directory.glob("*.deb"))
    good = deb.read_bytes()
    deb.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    fails(machine, "could not be downloaded whole", source=False)
    deb.write_bytes(good)
    succeeds(machine)


def test_no_network(machine: Machine, archive: Archive) -> None:
    del archive
    line = (machine.root / "apt/sources.list").read_text()
    use_sources(machine, "deb [trusted=yes] http://127.0.0.1:9/ ./\n")
    fails(machine, "no network", source=False)
    use_sources(machine, line)
    succeeds(machine)


def test_version_is_gone(machine: Machine, archive: Archive) -> None:
    index = archive.directory / "Packages"
    good = index.read_text()
    index.write_text(good.replace(VERSION, "7.3.5-1~toy1"))
    fails(machine, f"no linux-source-7.3 {VERSION}", "upgrade the kernel", source=False)
    index.write_text(good)
    succeeds(machine)


def test_not_a_source_package(machine: Machine) -> None:
    before = machine.snapshot()
    (machine.root / "source.deb").write_bytes(b"!<arch>\nnonsense")
    status, text = machine.run()
    assert status == 1 and "unpacking the source failed" in text and "Traceback" not in text
    assert machine.snapshot() == before
