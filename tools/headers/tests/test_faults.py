# SPDX-License-Identifier: GPL-2.0
"""Tests each fault: a clear message, an unchanged tree, and a second run that succeeds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import BINDGEN, CONFIG, LLVM, RELEASE, RUSTC, VERSION, Machine, add_tree, hook

HANG = "touch {mark}; exec sleep 60"


def fails(machine: Machine, *words: str, source: bool = True) -> str:
    """Requires that a run fails with these words, without a traceback, and changes nothing."""
    before = machine.snapshot()
    status, text = machine.run(source=source)
    assert status == 1, text
    assert "Traceback" not in text
    for word in words:
        assert word in text, text
    assert machine.snapshot() == before
    assert not (machine.work / RELEASE).exists()
    return text


def test_prepares_and_is_idempotent(machine: Machine) -> None:
    machine.succeeds()
    after = machine.snapshot()
    status, text = machine.run()
    assert status == 0 and "already prepared" in text
    assert machine.snapshot() == after


def test_every_user_can_read_the_tree(machine: Machine) -> None:
    machine.umask = 0o077
    machine.succeeds()
    record = json.loads((machine.build / ".rust-headers.json").read_text())
    files = [machine.build / ".rust-headers.json", *map(Path, record["files"])]
    folders = {path.parent for path in files}
    assert not [path for path in files if not path.stat().st_mode & 0o004]
    assert not [path for path in folders if path.stat().st_mode & 0o005 != 0o005]


def test_remove_brings_the_tree_back(machine: Machine) -> None:
    before = machine.snapshot()
    machine.succeeds()
    status, text = machine.run("--remove")
    assert status == 0, text
    assert machine.snapshot() == before


def test_wrong_rustc(machine: Machine) -> None:
    good = (machine.bin / "rustc").read_text()
    machine.program("rustc", "echo rustc 1.96.0 other")
    fails(machine, "1.96.0", RUSTC, "RUSTC=")
    (machine.bin / "rustc").write_text(good)
    machine.succeeds()


def test_the_right_rustc_behind_a_wrong_one(machine: Machine) -> None:
    first = machine.root / "first"
    first.mkdir()
    (first / "rustc").write_text("#!/bin/sh\necho rustc 1.96.0 other\n")
    (first / "rustc").chmod(0o755)
    machine.environment["PATH"] = f"{first}:{machine.environment['PATH']}"
    machine.succeeds()


def test_no_rustfmt(machine: Machine) -> None:
    machine.environment["RUSTFMT"] = "/nonexistent"
    fails(machine, "no rustfmt", "apt-get install", "rustfmt")
    machine.environment["RUSTFMT"] = ""
    machine.succeeds()


def test_wrong_bindgen(machine: Machine) -> None:
    machine.program("bindgen", "echo bindgen 0.60.0")
    fails(machine, "0.60.0", BINDGEN)
    machine.program("bindgen", f'echo "{BINDGEN}"')
    machine.succeeds()


def test_rustc_with_another_llvm(machine: Machine) -> None:
    good = (machine.bin / "rustc").read_text()
    (machine.bin / "rustc").write_text(good.replace(LLVM, "20.1.2"))
    fails(machine, "LLVM 20.1.2", LLVM)
    (machine.bin / "rustc").write_text(good)
    machine.succeeds()


def test_no_library_sources(machine: Machine) -> None:
    core = machine.root / "sysroot/lib/rustlib/src/rust/library/core/src/lib.rs"
    core.unlink()
    fails(machine, "rust-src")
    core.touch()
    machine.succeeds()


def test_wrong_compiler(machine: Machine) -> None:
    good = (machine.bin / "toy-gcc-14").read_text()
    machine.program("toy-gcc-14", "echo toy-gcc-14 15.1.0")
    fails(machine, "15.1.0", "14.2.0")
    (machine.bin / "toy-gcc-14").write_text(good)
    machine.succeeds()


def test_all_faults_at_once(machine: Machine) -> None:
    machine.program("rustc", "exit 1")
    machine.program("bindgen", "exit 1")
    machine.environment["RUSTFMT"] = "/nonexistent"
    text = fails(machine, "things missing")
    assert all(word in text for word in ("rustc", "bindgen", "rustfmt"))


def test_headers_without_config(machine: Machine) -> None:
    (machine.build / ".config").unlink()
    fails(machine, ".config", "--reinstall")
    (machine.build / ".config").write_text(CONFIG)
    machine.succeeds()


def test_kernel_without_rust(machine: Machine) -> None:
    text = CONFIG.replace("CONFIG_RUST=y", "# CONFIG_RUST is not set")
    (machine.build / ".config").write_text(text)
    fails(machine, "CONFIG_RUST")


def test_headers_that_no_package_owns(machine: Machine) -> None:
    (machine.root / "dpkg/status").write_text("")
    fails(machine, f"linux-headers-{RELEASE} is not installed")


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ("7.1.13+deb13-amd64", "too old"),
        ("6.1.0-44-amd64", "too old"),
        ("7.9.9-absent", "no kernel 7.9.9-absent"),
        ("../../etc", "not a kernel release"),
    ],
)
def test_unusable_release(machine: Machine, release: str, words: str) -> None:
    before = machine.snapshot()
    args = [release if arg == RELEASE else arg for arg in machine.command()]
    environment = {**os.environ, **machine.environment}
    done = subprocess.run(args, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert machine.snapshot() == before


def test_headers_not_installed(machine: Machine) -> None:
    link = machine.root / f"modules/{RELEASE}/build"
    link.unlink()
    fails(machine, f"apt-get install linux-headers-{RELEASE}")
    link.symlink_to(machine.build)
    machine.succeeds()


def test_symbol_that_the_image_lacks(machine: Machine) -> None:
    symbols = machine.build / "Module.symvers"
    good = symbols.read_text()
    symbols.write_text(good.replace("_RNvToy", "_RNvOther"))
    fails(machine, "1 of 1 Rust symbols", "_RNvToy")
    symbols.write_text(good)
    machine.succeeds()


def test_build_fails(machine: Machine) -> None:
    hook(machine, "echo dreadful >&2; exit 3")
    fails(machine, "make rust-crates failed", "dreadful")
    hook(machine, "")
    machine.succeeds()


def test_no_room_while_building(machine: Machine) -> None:
    hook(machine, "cat /dev/zero > /dev/full")
    fails(machine, "no room left", str(machine.work))
    hook(machine, "")
    machine.succeeds()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_build(machine: Machine, number: signal.Signals) -> None:
    before = machine.snapshot()
    mark = machine.root / "building"
    hook(machine, HANG.format(mark=mark))
    child = machine.start()
    wait_for(mark)
    child.send_signal(number)
    text, _ = child.communicate(timeout=20)
    assert child.returncode == 130 and "interrupted" in text
    assert machine.snapshot() == before
    assert not (machine.work / RELEASE).exists()
    assert not sleeping_below(machine.root), "the build outlived the interruption"
    hook(machine, "")
    machine.succeeds()


def test_ignored_signal(machine: Machine) -> None:
    """A run under nohup goes on when the terminal is closed."""
    mark = machine.root / "building"
    hook(machine, HANG.format(mark=mark).replace("exec sleep 60", "sleep 1"))
    child = machine.start(by=["nohup"])
    wait_for(mark)
    child.send_signal(signal.SIGHUP)
    text, _ = child.communicate(timeout=20)
    assert child.returncode == 0 and "interrupted" not in text
    assert (machine.build / "rust/libkernel.rmeta").exists()


def test_killed_build_is_cleared_by_the_next_run(machine: Machine) -> None:
    before = machine.snapshot()
    mark = machine.root / "building"
    hook(machine, HANG.format(mark=mark).replace("sleep 60", "sleep 3"))
    child = machine.start()
    wait_for(mark)
    child.kill()
    child.communicate()
    assert machine.snapshot() == before
    assert any(machine.work.iterdir())
    hook(machine, "")
    machine.succeeds()


def test_second_run_beside_the_first(machine: Machine) -> None:
    mark = machine.root / "building"
    hook(machine, HANG.format(mark=mark).replace("exec sleep 60", "sleep 2"))
    first = machine.start()
    wait_for(mark)
    status, text = machine.run()
    assert status == 1, text
    assert "another run" in text and str(first.pid) in text
    text, _ = first.communicate(timeout=20)
    assert first.returncode == 0, text
    machine.succeeds()


def test_a_file_in_the_way(machine: Machine) -> None:
    stranger = machine.build / "rust/libkernel.rmeta"
    stranger.parent.mkdir()
    stranger.write_text("somebody else's\n")
    fails(machine, str(stranger), "in the way")
    stranger.unlink()
    stranger.parent.rmdir()
    machine.succeeds()


def test_killed_while_installing(machine: Machine) -> None:
    """An incomplete record, as after a power failure, is removed first."""
    before = machine.snapshot()
    machine.succeeds()
    record = machine.build / ".rust-headers.json"
    record.write_text(record.read_text().replace('"complete": true', '"complete": false'))
    (machine.build / "rust/libcore.rmeta").write_text("half")
    (machine.build / "rust/libmacros.so.rust-headers-new").write_text("half")
    machine.succeeds()
    machine.run("--remove")
    assert machine.snapshot() == before


@pytest.mark.parametrize("cause", ["upgrade", "damage"])
def test_a_second_preparation_installs_the_same_files(machine: Machine, cause: str) -> None:
    before = machine.snapshot()
    machine.succeeds()
    after = machine.snapshot()
    record = machine.build / ".rust-headers.json"
    version = VERSION
    if cause == "upgrade":
        version = "7.3.4-2~toy1"
        status = machine.root / "dpkg/status"
        status.write_text(status.read_text().replace(VERSION, version))
    else:
        (machine.build / "rust/libkernel.rmeta").write_text("damaged")
    code, text = machine.run()
    assert code == 0 and "preparing" in text
    record.write_text(record.read_text().replace(version, VERSION))
    assert machine.snapshot() == after
    machine.run("--remove")
    assert machine.snapshot() == before


def test_flavours_share_files(machine: Machine) -> None:
    other = add_tree(machine, RELEASE.replace("amd64", "rt-amd64"))
    before = machine.snapshot()
    machine.succeeds()
    args = [arg.replace(RELEASE, RELEASE.replace("amd64", "rt-amd64")) for arg in machine.command()]
    environment = {**os.environ, **machine.environment}
    subprocess.run(args, env=environment, check=True, capture_output=True)
    assert (other / "rust/libkernel.rmeta").exists()
    machine.run("--remove")
    shared = machine.root / "kbuild/scripts/target.json"
    assert shared.exists() and not (machine.build / "rust").exists()
    subprocess.run([*args, "--remove"], env=environment, check=True, capture_output=True)
    assert machine.snapshot() == before


def test_machine_whose_target_rustc_has(machine: Machine) -> None:
    """The kernel of arm64 needs no target.json, and its makefiles have no rule for one."""
    makefile = machine.root / "src/linux-headers-common/Makefile"
    makefile.write_text(makefile.read_text().replace("X86_64", "ARM64"))
    rules = machine.root / "kbuild/scripts/toy.mk"
    rules.write_text(rules.read_text().replace("scripts/target.json:", "scripts/other.json:"))
    machine.succeeds()
    assert not (machine.root / "kbuild/scripts/target.json").exists()


def test_unneeded_files_are_left_out(machine: Machine) -> None:
    hook(machine, f'cd "$2/../source"; find . -type f > {machine.root}/unpacked')
    machine.succeeds()
    unpacked = (machine.root / "unpacked").read_text().split()
    assert "./rust/helpers/net/genetlink.c" in unpacked
    assert "./net/socket.c" not in unpacked
    assert "./drivers/base/core.c" not in unpacked


def wait_for(path: Path) -> None:
    """Waits until the build has reached the mark."""
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def sleeping_below(root: Path) -> list[str]:
    """Returns the processes whose working directory is below `root`."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if link.readlink().is_relative_to(root):
                found.append(link.parent.name)
        except OSError:
            continue
    return found
