# SPDX-License-Identifier: GPL-2.0
"""The machines of the guests: architecture and size of pages, and what depends on them.

A machine differs from another in its kernel's configuration and build, in the packages of its root
image, and in the hardware that QEMU emulates. The two guests of a pair may be different machines.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass

from . import settings
from .errors import LabError


@dataclass(frozen=True)
class Machine:
    """One kind of machine."""

    #: The architecture, as Kbuild calls it.
    arch: str
    #: The size of a page.
    pages: str
    #: The architecture, as Debian calls it.
    debian: str
    #: The kernel's target of make, below `arch/*/boot`.
    target: str
    #: QEMU's program, and the Debian packages that have it.
    program: str
    packages: tuple[str, ...]
    #: QEMU's arguments for the board.
    board: str
    #: QEMU's model of the processor under TCG.
    cpu: str
    #: The serial devices of the console and of the interactive shell.
    console: str
    terminal: str
    #: Further words for the kernel's command line.
    words: str = ""

    @property
    def name(self) -> str:
        """The machine's name in reports, and in names of files."""
        return self.arch if self.pages == "4k" else f"{self.arch}-{self.pages}"

    @property
    def prefixes(self) -> tuple[str, str]:
        """The words that begin a line of the kernel's fragment that is for such machines only."""
        return self.arch, self.pages

    @property
    def tools(self) -> str:
        """The beginning of the names of GNU's compiler and tools for this machine."""
        return "" if self.native else f"{_TRIPLETS[self.arch]}-"

    @property
    def libraries(self) -> str:
        """The name of the folder in which Debian has the machine's libraries."""
        return _TRIPLETS[self.arch]

    @property
    def native(self) -> bool:
        """Whether this host is such a machine, apart from the size of its pages."""
        return self.arch == host()


#: Five-level paging is off: with it an early interrupt causes a report of KASAN. On a busy host the
#: kernel's own test of the timer interrupt times out and panics.
X86 = Machine(
    arch="x86",
    pages="4k",
    debian="amd64",
    target="bzImage",
    program="qemu-system-x86_64",
    packages=("qemu-system-x86", "qemu-system-data", "seabios"),
    board="q35",
    cpu="max,la57=off",
    console="ttyS0",
    terminal="ttyS1",
    words="no_timer_check tsc=reliable",
)


def _arm64(pages: str) -> Machine:
    # Emulation of the architected algorithm for pointer authentication takes most of the time of a
    # guest that uses it.
    return Machine(
        arch="arm64",
        pages=pages,
        debian="arm64",
        target="Image",
        program="qemu-system-aarch64",
        packages=("qemu-system-arm", "qemu-system-data"),
        board="virt,gic-version=3",
        cpu="max,pauth-impdef=on,sve=off,sme=off",
        console="ttyAMA0",
        terminal="ttyAMA1",
    )


MACHINES = (X86, _arm64("4k"), _arm64("64k"))
#: GNU's names of the architectures.
_TRIPLETS = {"arm64": "aarch64-linux-gnu", "x86": "x86_64-linux-gnu"}
_HOSTS = {"x86_64": "x86", "aarch64": "arm64"}


def host() -> str:
    """Returns the architecture of this host, as Kbuild calls it."""
    return _HOSTS.get(platform.machine(), platform.machine())


def chosen(side: str) -> Machine:
    """Returns the machine that `ARCH` and `PAGES` name, or those variables of the server.

    `side`: ``client`` or ``server``.

    # Errors
    `LabError` if there is no such machine.
    """
    arch, pages = settings.machine(side)
    wanted = (arch or host(), pages or "4k")
    for machine in MACHINES:
        if (machine.arch, machine.pages) == wanted:
            return machine
    known = ", ".join(machine.name for machine in MACHINES)
    raise LabError(f"ARCH={wanted[0]} PAGES={wanted[1]}: the lab's machines are {known}")


def in_use() -> list[Machine]:
    """Returns the machines of both guests, the client's first, each once."""
    return list(dict.fromkeys((chosen("client"), chosen("server"))))
