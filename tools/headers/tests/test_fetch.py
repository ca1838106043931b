# SPDX-License-Identifier: GPL-2.0
"""Tests the fetch of the source with the real apt, from an archive on this machine."""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import RELEASE, VERSION, Machine
from test_faults import fails

from headers import record


class Archive(http.server.ThreadingHTTPServer):
    """A flat archive.

    While `broken` is set, it sends only half of a package. While `in_parts` is set, it sends parts
    of files; those of `spoilt` have another last byte.
    """

    def __init__(self, directory: Path) -> None:
        """Serves `directory` on a port of the loopback interface."""
        self.directory, self.broken = directory, False
        self.in_parts = self.spoilt = False
        #: The bytes of packages that were sent.
        self.sent = 0
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files, or their first half."""

    server: Archive

    def translate_path(self, path: str) -> str:
        """Maps a URL to a name in the archive's own directory."""
        return str(self.server.directory / Path(urllib.parse.unquote(path)).name)

    def do_GET(self) -> None:
        """Sends a file, or a part of it."""
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not (span and self.server.in_parts):
            super().do_GET()
            return
        begin, end = int(span[1]), int(span[2]) + 1
        data = bytearray(Path(self.translate_path(self.path)).read_bytes()[begin:end])
        data[-1] ^= self.server.spoilt
        self.server.sent += len(data)
        self.send_response(206)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def copyfile(self, source, outputfile) -> None:  # noqa: ANN001
        """Sends the body."""
        data = source.read()
        self.server.sent += len(data) if self.path.endswith(".deb") else 0
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


def succeeds(machine: Machine, *arguments: str) -> str:
    """Prepares the headers again, with the source from the archive."""
    machine.run("--remove", source=False)
    for kept in machine.work.glob("source-*"):
        kept.unlink()
    status, text = machine.run(*arguments, source=False)
    assert status == 0, text
    return text


@pytest.fixture
def known(machine: Machine, archive: Archive) -> str:
    """Records the package of the archive, and returns the option that names the record."""
    deb = next(archive.directory.glob("*.deb"))
    file = machine.root / "known.json"
    record.main([str(deb)], file)
    archive.in_parts = True
    return f"--known={file}"


def whole(archive: Archive) -> int:
    """Returns the length of the package."""
    return next(archive.directory.glob("*.deb")).stat().st_size


def test_known_source_in_pieces(machine: Machine, archive: Archive, known: str) -> None:
    text = succeeds(machine, known)
    assert "fetching 0.0 MB of linux-source-7.3" in text
    assert 0 < archive.sent < whole(archive) - 60_000


def test_pieces_through_a_proxy(machine: Machine, archive: Archive, known: str) -> None:
    """The proxy that apt uses has the bytes, whatever the address of the archive."""
    conf = machine.root / "apt/apt.conf"
    proxy = f'Acquire::http::Proxy "http://127.0.0.1:{archive.server_port}";\n'
    conf.write_text(conf.read_text().replace('Acquire::http::Proxy "false";', proxy))
    use = (machine.root / "apt/sources.list").read_text()
    use = use.replace(f"127.0.0.1:{archive.server_port}", "archive.invalid")
    (machine.root / "apt/sources.list").write_text(use)
    succeeds(machine, known)
    assert 0 < archive.sent < whole(archive) - 60_000


@pytest.mark.parametrize(
    ("fault", "said"),
    [("whole", "whole files only"), ("spoilt", "differ"), ("index", "another linux-source-7.3")],
)
def test_the_whole_source_where_pieces_do_not_do(
    machine: Machine, archive: Archive, known: str, fault: str, said: str
) -> None:
    archive.in_parts, archive.spoilt = fault != "whole", fault == "spoilt"
    if fault == "index":
        file = Path(known.partition("=")[2])
        entries = json.loads(file.read_text())
        entries[VERSION]["sha256"] = "0" * 64
        file.write_text(json.dumps(entries))
    text = succeeds(machine, known)
    assert said in text and "fetching all of it" in text
    assert archive.sent >= whole(archive)


def test_sources_are_kept(machine: Machine, archive: Archive, known: str) -> None:
    """A second preparation fetches nothing, if the needed files of its version are the same."""
    succeeds(machine, known)
    sent = archive.sent
    machine.run("--remove", source=False)
    status, text = machine.run(known, source=False)
    assert status == 0 and "an earlier preparation has kept" in text, text
    assert archive.sent == sent
    (kept,) = machine.work.iterdir()
    assert kept.name.startswith("source-") and kept.stat().st_size < 10_000
    assert not (machine.work / RELEASE).exists()


def damage(kept: Path, how: str) -> None:
    """Replaces the kept sources as a power failure, or somebody else, can."""
    if how == "empty":
        kept.write_bytes(b"")
    elif how == "cut":
        kept.write_bytes(kept.read_bytes()[:-100])
    else:
        tree = kept.parent / "tree"
        tree.mkdir()
        subprocess.run(["tar", "-xJf", kept, "-C", tree], check=True)
        if how == "file":
            (tree / "scripts/planted.sh").write_text("exit 1\n")
        elif how == "link":
            (tree / "Makefile").symlink_to(kept.parents[1] / "written")
        else:
            (tree / "rust/kernel/lib.rs").write_text("// planted\n")
        subprocess.run(["tar", "-cJf", kept, "-C", tree, "."], check=True)
        shutil.rmtree(tree)


@pytest.mark.parametrize("how", ["empty", "cut", "file", "link", "content"])
def test_kept_sources_that_are_damaged(
    machine: Machine, archive: Archive, known: str, how: str
) -> None:
    """They are fetched again, whatever the name of the file says."""
    succeeds(machine, known)
    (kept,) = machine.work.iterdir()
    damage(kept, how)
    machine.run("--remove", source=False)
    sent = archive.sent
    status, text = machine.run(known, source=False)
    assert status == 0 and "they are damaged" in text, text
    assert archive.sent > sent
    assert not (machine.root / "written").exists()
    machine.run("--remove", source=False)
    status, text = machine.run(known, source=False)
    assert status == 0 and "they are damaged" not in text, text


@pytest.mark.skipif(os.geteuid() != 0, reason="chown needs root")
def test_kept_sources_of_another_user(machine: Machine, archive: Archive) -> None:
    """Of a version without a known content only the owner says who has made the file."""
    succeeds(machine)
    (kept,) = machine.work.iterdir()
    damage(kept, "content")
    os.chown(kept, 65534, 65534)
    machine.run("--remove", source=False)
    sent = archive.sent
    status, text = machine.run(source=False)
    assert status == 0 and archive.sent >= sent + whole(archive), text
    assert kept.stat().st_uid == 0


def test_other_package_than_the_known(machine: Machine, archive: Archive, known: str) -> None:
    """Its files are not kept under the name that the known ones have."""
    file = Path(known.partition("=")[2])
    entries = json.loads(file.read_text())
    entries[VERSION].update(sha256="0" * 64, content="0" * 64)
    file.write_text(json.dumps(entries))
    assert "fetching all of it" in succeeds(machine, known)
    assert archive.sent >= whole(archive)
    assert not list(machine.work.iterdir())


def test_only_kept_sources_are_replaced(machine: Machine, archive: Archive) -> None:
    del archive
    machine.work.mkdir()
    foreign = {"source-code.tar.xz", "source-7.3.4-1.tar.xz.asc", "source-abc.tar.xz"}
    old = {"source-7.3.3-1~toy1.tar.xz", "source-0123456789abcdef.tar.xz"}
    for name in foreign | old:
        (machine.work / name).touch()
    status, text = machine.run(source=False)
    assert status == 0, text
    now = {path.name for path in machine.work.iterdir()}
    assert now == foreign | {f"source-{VERSION}.tar.xz"}


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
