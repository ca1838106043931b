# SPDX-License-Identifier: GPL-2.0
"""Tests the parts of the tool: finding a tree, comparing, installing and removing."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import BINDGEN, RELEASE, RUSTC, SOURCE, SYMBOL, VERSION, Machine, add_tree
from headers.errors import HeadersError, NoRoomError

from headers import build, install, pieces, record, run, source, toolcheck, tree

TOP = Path(__file__).resolve().parents[3]


@pytest.fixture
def found(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> tree.Tree:
    """Returns the toy kernel's headers, as the tool finds them."""
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)
    return tree.find(RELEASE, machine.root / "modules")


def built(root: Path) -> tuple[Path, Path]:
    """Creates source and object tree as after a build."""
    sources, objects = root / "s", root / "o"
    for name in ("rust/Makefile", "rust/bindgen_parameters", *map("scripts/{}".format, _SCRIPTS)):
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        (sources / name).write_text(name)
    for name in _OBJECTS:
        (objects / name).parent.mkdir(parents=True, exist_ok=True)
        (objects / name).write_text(name)
    return sources, objects


_SCRIPTS = ("min-tool-version.sh", "rust_is_available_bindgen_libclang.h")
_OBJECTS = (
    "rust/libkernel.rmeta",
    "rust/libmacros.so",
    "rust/kernel/generated_arch.rs",
    "rust/bindings/bindings_generated.rs",
    "scripts/target.json",
)


def test_find(found: tree.Tree, machine: Machine) -> None:
    assert found.build == machine.build
    assert found.version == VERSION
    assert found.series == "7.3"
    assert found.compiler == "toy-gcc-14"
    assert found.source == machine.root / "src/linux-headers-common"
    assert found.scripts == machine.root / "kbuild/scripts"


@pytest.mark.parametrize(
    ("state", "there"),
    [
        ("install ok unpacked", True),
        ("install ok half-configured", True),
        ("install ok half-installed", False),
        ("deinstall ok config-files", False),
    ],
)
def test_headers_as_their_package_comes_and_goes(
    found: tree.Tree, machine: Machine, state: str, there: bool
) -> None:
    """DKMS runs while the package of the headers, or of the image, is being configured."""
    status = machine.root / "dpkg/status"
    status.write_text(status.read_text().replace("install ok installed", state))
    if there:
        assert tree.find(RELEASE, machine.root / "modules") == found
        return
    with pytest.raises(HeadersError, match="is not installed"):
        tree.find(RELEASE, machine.root / "modules")


def test_tools_that_fit(found: tree.Tree, machine: Machine) -> None:
    assert toolcheck.check(found).rustc == str(machine.bin / "rustc")


def test_tools_that_do_not(found: tree.Tree, machine: Machine) -> None:
    machine.program("rustc", "echo rustc 1.96.0 other")
    machine.program("bindgen", "exit 1")
    machine.program("toy-gcc-14", "echo toy-gcc-14 15.1.0")
    with pytest.raises(HeadersError) as caught:
        toolcheck.check(found)
    text = f"{caught.value}\n{caught.value.details}"
    for words in ("1.96.0", RUSTC, BINDGEN, "15.1.0"):
        assert words in text


@pytest.mark.parametrize(
    ("missing", "advice"),
    [
        ([".kernelvariables"], "a kernel you built yourself needs `make modules_prepare`"),
        ([".kernelvariables", ".config"], "a kernel you built yourself needs"),
        ([".config"], "apt-get install --reinstall linux-headers-"),
    ],
)
def test_incomplete_tree(
    found: tree.Tree, machine: Machine, missing: list[str], advice: str
) -> None:
    """No package can be installed again for a kernel that is from no package."""
    for name in missing:
        (found.build / name).unlink()
    with pytest.raises(HeadersError, match=re.escape(advice)):
        tree.find(RELEASE, machine.root / "modules")


@pytest.mark.parametrize("release", ["6.1.0-44-amd64", "7.2.12+deb13-amd64", "7.9.9-absent", "x y"])
def test_unusable_release(found: tree.Tree, machine: Machine, release: str) -> None:
    del found
    with pytest.raises(HeadersError):
        tree.find(release, machine.root / "modules")


def test_install_and_remove(found: tree.Tree, machine: Machine) -> None:
    before = machine.snapshot()
    sources, objects = built(machine.root)
    assert not install.is_prepared(found)
    assert install.install(found, sources, objects) > 0
    assert install.is_prepared(found)
    (found.build / "rust/libkernel.rmeta").write_text("other")
    assert not install.is_prepared(found)
    install.remove(found.build)
    assert machine.snapshot() == before


@pytest.fixture
def safe_renames(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Requires that a file is on the disk when it is renamed. Returns the names from then on."""
    synced, names = set(), list[str]()
    fsync, rename = os.fsync, Path.rename

    def noted(handle: int) -> None:
        fsync(handle)
        synced.add(os.fstat(handle).st_ino)

    def checked(self: Path, target: Path) -> Path:
        assert self.stat().st_ino in synced, f"{self} may be empty after a power failure"
        names.append(target.name)
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(Path, "rename", checked)
    return names


def test_files_are_on_the_disk_before_they_have_their_names(
    found: tree.Tree, machine: Machine, safe_renames: list[str]
) -> None:
    install.install(found, *built(machine.root))
    assert {Path(name).name for name in _OBJECTS} < set(safe_renames)


def test_install_over_an_unfinished_one(found: tree.Tree, machine: Machine) -> None:
    before = machine.snapshot()
    sources, objects = built(machine.root)
    install.install(found, sources, objects)
    record = install.Record.load(found.build)
    assert record is not None
    install.Record(False, record.version, record.rustc, record.files).store(found.build)
    (found.build / "rust/libkernel.rmeta").write_text("half")
    (found.build / "rust/libmacros.so.rust-headers-new").write_text("half")
    assert not install.is_prepared(found)
    install.install(found, sources, objects)
    assert install.is_prepared(found)
    install.remove(found.build)
    assert machine.snapshot() == before


def test_a_stranger_in_the_way_stays(found: tree.Tree, machine: Machine) -> None:
    sources, objects = built(machine.root)
    stranger = found.build / "rust/libkernel.rmeta"
    stranger.parent.mkdir()
    stranger.write_text("somebody else's")
    before = machine.snapshot()
    with pytest.raises(HeadersError, match="in the way"):
        install.install(found, sources, objects)
    assert machine.snapshot() == before


def test_flavours_share_files(found: tree.Tree, machine: Machine) -> None:
    release = RELEASE.replace("amd64", "cloud-amd64")
    add_tree(machine, release)
    other = tree.find(release, machine.root / "modules")
    before = machine.snapshot()
    sources, objects = built(machine.root)
    install.install(found, sources, objects)
    install.install(other, sources, objects)
    install.remove(found.build)
    assert install.is_prepared(other)
    install.remove(other.build)
    assert machine.snapshot() == before


@pytest.mark.parametrize("clear", ["next", "all"])
def test_leftovers_of_a_removed_kernel(found: tree.Tree, machine: Machine, clear: str) -> None:
    sources, objects = built(machine.root)
    install.install(found, sources, objects)
    release = RELEASE.replace("7.3.4", "7.3.5")
    other = add_tree(machine, release)
    for path in sorted(found.build.rglob("*"), reverse=True):
        if "rust" not in str(path.relative_to(found.build)):
            path.unlink() if path.is_file() or path.is_symlink() else path.rmdir()
    if clear == "next":
        install.remove_orphans(other)
    else:
        install.remove_all(other.parent)
    assert not found.build.exists()
    assert other.exists()


def test_symbols_that_differ(found: tree.Tree, machine: Machine) -> None:
    exports = machine.root / "o/rust/exports_kernel_generated.h"
    exports.parent.mkdir(parents=True)
    exports.write_text(f"EXPORT_SYMBOL_RUST_GPL({SYMBOL});\n")
    build.require_same_exports(found, machine.root / "o")
    exports.write_text("EXPORT_SYMBOL_RUST_GPL(_RNvOther);\n")
    with pytest.raises(HeadersError, match="1 of 1 Rust symbols"):
        build.require_same_exports(found, machine.root / "o")


def files(root: Path) -> dict[str, str]:
    """Returns all files below a folder."""
    found = sorted(path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_text() for path in found}


def test_unpacking_takes_what_is_needed(machine: Machine) -> None:
    source.unpack(machine.root / "source.deb", machine.root / "s", machine.root / "log")
    assert files(machine.root / "s") == needed_files()


def test_two_runs_keep_their_sources_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, safe_renames: list[str]
) -> None:
    """The runs are for kernels of different versions, so nothing excludes them."""
    kept = [tmp_path / f"source-{number:016x}.tar.xz" for number in (1, 2)]
    sources = [tmp_path / release / "source" for release in "ab"]
    for path in sources:
        path.mkdir(parents=True)
    plain, left = run.logged, [1]

    def both(*args: object, **more: object) -> None:
        plain(*args, **more)
        if left and left.pop():
            source._keep(sources[1], kept[1], tmp_path / "log")

    monkeypatch.setattr(source, "logged", both)
    source._keep(sources[0], kept[0], tmp_path / "log")
    assert kept[0].is_file()
    assert safe_renames == [kept[1].name, kept[0].name]


def needed_files() -> dict[str, str]:
    """Returns the needed files of the toy kernel's source."""
    return {path: text for path, text in SOURCE.items() if pieces.needed(Path(path))}


def test_needed_files() -> None:
    marked = [path for path, text in SOURCE.items() if " wanted" in text]
    assert [path for path in needed_files() if path in marked] == marked
    assert not any("unwanted" in text for text in needed_files().values())
    assert not pieces.needed(Path("rust/../drivers/x"))


def test_pieces_hold_what_is_needed(machine: Machine) -> None:
    """The recorded pieces are a part of the package, and all needed files are in them."""
    deb = machine.root / "source.deb"
    found = record.record(deb)
    data = deb.read_bytes()
    assert len(found) > 1 and sum(piece.length for piece in found) < len(data) - 60_000
    for piece in found:
        part = piece.unpacked(data[piece.start : piece.start + piece.length])
        pieces.extract(part, machine.root / "s")
    assert files(machine.root / "s") == needed_files()


@pytest.mark.parametrize("place", [0, -1])
def test_a_piece_with_other_bytes_is_not_read(machine: Machine, place: int) -> None:
    data = (machine.root / "source.deb").read_bytes()
    piece = record.record(machine.root / "source.deb")[0]
    part = bytearray(data[piece.start : piece.start + piece.length])
    part[place] ^= 1
    with pytest.raises(ValueError, match="differ"):
        piece.unpacked(bytes(part))


def test_a_package_that_is_one_block_has_no_pieces(machine: Machine, tmp_path: Path) -> None:
    deb = tmp_path / "other.deb"
    package = machine.root / "package/other"
    (package / "DEBIAN").mkdir(parents=True)
    (package / "DEBIAN/control").write_text((machine.root / "package/control/control").read_text())
    subprocess.run(["dpkg-deb", "-Znone", "-b", package, deb], check=True, capture_output=True)
    with pytest.raises(ValueError, match=r"no data\.tar\.xz"):
        record.record(deb)


def test_progress_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("$ tar" + " --exclude=x" * 200 + "\n")
    assert run.last_line(log) == "…"
    log.write_text(f"$ make\n  CC      {tmp_path}/objects/rust/helpers.o\n")
    assert run.last_line(log) == "CC      objects/rust/helpers.o"


def test_one_lower_limit_everywhere() -> None:
    """The tools have the same oldest kernel."""
    oldest = ".".join(map(str, tree.OLDEST))
    assert f'BUILD_EXCLUSIVE_KERNEL_MIN="{oldest}"' in (TOP / "dkms.conf").read_text()
    assert re.search(rf"older .* {re.escape(oldest)} ", (TOP / "tools/preflight.sh").read_text())
    doctor = (TOP / "tools/nfsrdma/nfsrdma/doctor/module.py").read_text()
    assert f"OLDEST = {tree.OLDEST}\n" in doctor
    assert f"SERIES={oldest} " in (TOP / "tools/lab/targets.mk").read_text()


def test_one_upper_limit_everywhere() -> None:
    """DKMS builds for no series that the documents do not name, and `make` warns of the same."""
    limit = re.search(r'^BUILD_EXCLUSIVE_KERNEL_MAX="(\d+)\.(\d+)"$', _text("dkms.conf"), re.M)
    assert limit
    major, after = map(int, limit.groups())
    assert re.search(rf"older .* {major}\.{after} ", _text("tools/preflight.sh"))
    assert f"Linux {major}.{after} or newer" in _text("tools/preflight.sh")
    doctor = _text("tools/nfsrdma/nfsrdma/doctor/module.py")
    assert f"NEWEST = {(major, after - 1)}\n" in doctor
    oldest, newest = ".".join(map(str, tree.OLDEST)), f"{major}.{after - 1}"
    assert f"the series {oldest} and {newest}." in _text("debian/control")
    for name in ("README.md", "CHANGELOG.md", "Documentation/kernel-range.rst"):
        assert f"Linux {oldest} and {newest}" in _text(name), name


def _text(name: str) -> str:
    return (TOP / name).read_text()


def test_one_version_in_two_places() -> None:
    """DKMS and the package have the same version."""
    version = re.match(r"rpcrdma \(([\d.]+)\)", (TOP / "debian/changelog").read_text())
    assert version
    assert f'PACKAGE_VERSION="{version[1]}"' in (TOP / "dkms.conf").read_text()


def test_full_disk_is_told_by_its_kind(tmp_path: Path) -> None:
    """A full disk is recognised by the kind of the error, not by a word that a path may have."""
    log = tmp_path / "classroom.log"
    log.write_text("tar: write error: No space left on device\n")
    assert isinstance(run._failure(log, "unpacking", 2), NoRoomError)
    log.write_text("tar: Unexpected EOF in archive\n")
    found = run._failure(log, f"unpacking {log}", 2)
    assert "room" in str(found)
    assert not isinstance(found, NoRoomError)
    assert "could not be downloaded whole" in str(source._broken_off("linux-source", found))
