# SPDX-License-Identifier: GPL-2.0
"""Creates a test machine for the preparation tool.

The tool, dpkg, apt, tar and make are the real programs. The kernel is a toy: makefiles of a few
lines in the headers build its crates, and scripts that print a version replace its compilers. So a
test can cause each fault exactly, in a fraction of a second.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "prepare-headers"
RELEASE = "7.3.4+toy-amd64"
VERSION = "7.3.4-1~toy1"
RUSTC = "rustc 1.85.1 (4eb161250 2025-03-15) (toy)"
BINDGEN = "bindgen 0.71.1 (toy)"
LLVM = "19.1.7"
GCC = "toy-gcc-14 (Toy 14.2.0-19) 14.2.0"
SYMBOL = "_RNvToy_6kernel4init"

CONFIG = f"""CONFIG_RUST=y
CONFIG_CC_VERSION_TEXT="{GCC}"
CONFIG_RUSTC_VERSION_TEXT="{RUSTC}"
CONFIG_RUSTC_LLVM_VERSION=190107
CONFIG_BINDGEN_VERSION_TEXT="{BINDGEN}"
# CONFIG_TOY is not set
"""

#: The makefiles of the headers: the kernel's own, and that which builds a folder. The second
#: leaves an equal file as it is, as the kernel's own does.
MAKEFILE = "CONFIG_X86_64 := y\nbuild := -f scripts/toy.mk folder\n"
BUILD = f"""
rust: ; hook build $(O)
	mkdir -p $(O)/rust/kernel $(O)/rust/bindings
	echo 'EXPORT_SYMBOL_RUST_GPL({SYMBOL});' > $(O)/rust/exports_kernel_generated.h
	for f in libkernel.rmeta libcore.rmeta libmacros.so; do echo $$f > $(O)/rust/$$f; done
	echo gen > $(O)/rust/kernel/generated_arch.rs
	echo 'pub struct a;' > $(O)/rust/bindings/bindings_generated.rs
scripts/target.json: scripts/generate_rust_target.rs include/uapi FORCE
	test -e include/uapi/../../drivers/base/base.h
	test ! $(O)/include/config/auto.conf -ot $(O)/.config
	echo '{{}}' > $(O)/$@.tmp
	cmp -s $(O)/$@.tmp $(O)/$@ || mv $(O)/$@.tmp $(O)/$@
.PHONY: rust FORCE
"""


#: Starts a program that ignores no signal, also if the tests run in the background of a script.
DEFAULT_SIGNALS = ("env", "--default-signal=INT,TERM,HUP")


@dataclass
class Machine:
    """Header trees, tools and package state below one directory."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    umask: int = -1

    @property
    def build(self) -> Path:
        """The header tree of the toy kernel."""
        return self.root / f"src/linux-headers-{RELEASE}"

    @property
    def bin(self) -> Path:
        """The directory of the toy compilers."""
        return self.root / "bin"

    @property
    def work(self) -> Path:
        """The work directory of the tool."""
        return self.root / "work"

    def program(self, name: str, text: str) -> None:
        """Writes a shell script to the tool's PATH."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def command(self, *arguments: str, source: bool = True) -> list[str]:
        """Returns the command line of a run."""
        args = [sys.executable, str(TOOL), RELEASE, f"--modules={self.root / 'modules'}"]
        args += [f"--work={self.work}"]
        if source:
            args += [f"--source={self.root / 'source.deb'}"]
        return [*args, *arguments]

    def start(
        self, *arguments: str, source: bool = True, by: Sequence[str] = DEFAULT_SIGNALS
    ) -> subprocess.Popen[str]:
        """Starts a run in the background by the program `by`."""
        return subprocess.Popen(
            [*by, *self.command(*arguments, source=source)],
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            umask=self.umask,
        )

    def run(self, *arguments: str, source: bool = True) -> tuple[int, str]:
        """Runs the tool to its end. Returns the exit status and the output."""
        child = self.start(*arguments, source=source)
        text, _ = child.communicate(timeout=60)
        return child.returncode, text

    def snapshot(self) -> Mapping[str, bytes]:
        """Returns every file and directory of the header trees, with contents."""
        found = {}
        for top in (self.root / "src", self.root / "kbuild"):
            for path in sorted(top.rglob("*")):
                found[str(path)] = path.read_bytes() if path.is_file() else b"directory"
        return found

    def succeeds(self) -> None:
        """Runs the tool, and requires that it prepares the tree."""
        status, text = self.run()
        assert status == 0, text
        assert (self.build / "rust/libkernel.rmeta").read_text() == "libkernel.rmeta\n"
        assert not (self.work / RELEASE).exists()


def add_tree(machine: Machine, release: str) -> Path:
    """Creates a header tree in Debian's layout. Flavours share source and scripts."""
    build = machine.root / f"src/linux-headers-{release}"
    common = machine.root / "src/linux-headers-common"
    kbuild = machine.root / "kbuild/scripts"
    for path in (build / "arch/x86", common, kbuild, machine.root / f"modules/{release}/kernel"):
        path.mkdir(parents=True, exist_ok=True)
    for place in ("include/uapi", "include/linux"):
        (common / place).mkdir(parents=True, exist_ok=True)
    (common / "Makefile").write_text(MAKEFILE)
    (common / "arch").mkdir(exist_ok=True)
    (kbuild / "toy.mk").write_text(BUILD)
    (build / "include/config").mkdir(parents=True)
    (build / "include/config/auto.conf").touch()
    (build / ".config").write_text(CONFIG)
    cc = "CC = $(if $(CACHE),$(CCACHE)) $(CROSS_COMPILE)gcc-14\noverride CROSS_COMPILE = toy-\n"
    (build / ".kernelvariables").write_text(cc)
    (build / "Makefile").write_text(f"include {common}/Makefile\n")
    (build / "Module.symvers").write_text(f"0x0\t{SYMBOL}\tvmlinux\tEXPORT_SYMBOL_GPL\t\n")
    (build / "scripts").symlink_to(kbuild)
    (machine.root / f"modules/{release}/build").symlink_to(build)
    status = machine.root / "dpkg/status"
    status.parent.mkdir(exist_ok=True)
    (status.parent / "info").mkdir(exist_ok=True)
    (status.parent / "updates").mkdir(exist_ok=True)
    with status.open("a") as file:
        file.write(
            f"Package: linux-headers-{release}\nStatus: install ok installed\nVersion: {VERSION}\n"
            "Source: linux\nArchitecture: amd64\nMaintainer: Toy <toy@toy.invalid>\n"
            "Description: toy\n\n"
        )
    return build


#: Files of the toy kernel's source, in the order of a tarball. The large ones make several blocks.
SOURCE = {
    "arch/arm/crypto/Kconfig": "# unwanted\n",
    "drivers/android/binder/rust_binder.h": "/* wanted */\n",
    "drivers/android/binder/rust_binder.rs": "// unwanted\n",
    "drivers/base/base.h": "/* wanted */\n",
    "drivers/base/core.c": "/* unwanted */\n",
    "drivers/net/large.c": "",
    "net/socket.c": "/* unwanted */\n",
    "rust/Makefile": "# toy\n",
    "rust/bindgen_parameters": "# toy\n",
    "rust/helpers/net/genetlink.c": "/* wanted */\n",
    "rust/kernel/lib.rs": "// wanted\n" * 5000,
    "scripts/Makefile": "# toy\n",
    "scripts/generate_rust_target.rs": "// wanted\n",
    "scripts/min-tool-version.sh": "echo 1\n",
    "scripts/rust_is_available_bindgen_libclang.h": "\n",
    "scripts/unwanted.sh": "exit 1\n",
    "sound/large.c": "",
}
_BLOCKS = ["xz", "-T1", "--block-size=16KiB", "-c"]


def _tarball(tree: Path, order: Sequence[str]) -> bytes:
    """Returns the files of a folder as a tarball, compressed in small blocks."""
    listed = subprocess.run(
        ["tar", "-C", tree, "-c", *order], check=True, stdout=subprocess.PIPE
    ).stdout
    return subprocess.run(_BLOCKS, input=listed, check=True, stdout=subprocess.PIPE).stdout


def source_package(root: Path, name: str = "linux-source-7.3") -> Path:
    """Creates a package with a kernel source of a few files."""
    tree = root / "package/tree/linux-source-7.3"
    large = random.Random(41)
    for path, text in SOURCE.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        noise = large.randbytes(60_000) if path.endswith("large.c") else b""
        (tree / path).write_bytes(text.encode() + noise)
    inside = root / "package/deb/usr/src/linux-source-7.3.tar.xz"
    inside.parent.mkdir(parents=True)
    inside.write_bytes(_tarball(tree.parent, [f"{tree.name}/{path}" for path in SOURCE]))
    control = root / "package/control"
    control.mkdir()
    (control / "control").write_text(
        f"Package: {name}\nVersion: {VERSION}\nArchitecture: all\n"
        "Maintainer: Toy <toy@toy.invalid>\nDescription: toy\n"
    )
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": _tarball(control, ["./control"]),
        "data.tar.xz": _tarball(root / "package/deb", ["./usr"]),
    }
    deb = root / "source.deb"
    deb.write_bytes(b"!<arch>\n" + b"".join(_member(*entry) for entry in members.items()))
    return deb


def _member(name: str, data: bytes) -> bytes:
    """Returns a member of an `ar` archive."""
    header = f"{name:16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n"
    return header.encode() + data + b"\n" * (len(data) % 2)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Returns a machine on which a run succeeds."""
    machine = Machine(tmp_path)
    machine.bin.mkdir()
    sysroot = tmp_path / "sysroot"
    core = sysroot / "lib/rustlib/src/rust/library/core/src/lib.rs"
    core.parent.mkdir(parents=True)
    core.touch()
    machine.program(
        "rustc",
        f'case $1 in --print) echo {sysroot} ;; *) echo "{RUSTC}" ;; esac\n'
        f'[ "$1" != -vV ] || echo "LLVM version: {LLVM}"',
    )
    machine.program("bindgen", f'echo "{BINDGEN}"')
    machine.program("rustfmt", "echo rustfmt toy")
    machine.program("toy-gcc-14", f'echo "{GCC}"')
    for name in ("make", "gcc", "xz"):
        if not any((Path(part) / name).exists() for part in ("/usr/bin", "/bin")):
            machine.program(name, "exit 0")
    add_tree(machine, RELEASE)
    source_package(tmp_path)
    machine.environment = {
        "PATH": f"{machine.bin}:/usr/bin:/bin",
        "DPKG_ADMINDIR": str(tmp_path / "dpkg"),
        "HOME": str(tmp_path),
    }
    for name in ("RUSTC", "BINDGEN", "RUSTFMT"):
        machine.environment[name] = ""
    hook(machine, "")
    return machine


def hook(machine: Machine, script: str) -> None:
    """Adds commands to the toy kernel's build; `$2` is the object tree."""
    (machine.bin / "hook").write_text(f"#!/bin/sh\n{script}\n")
    (machine.bin / "hook").chmod(0o755)
