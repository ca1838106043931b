# SPDX-License-Identifier: GPL-2.0
"""The variables that the user gives to make, which reach the lab through the environment."""

from __future__ import annotations

import os
import re
import time

from .errors import LabError

#: Whose rpcrdma.ko the server loads without `SERVER`.
SERVER = "stock"


def _choice(variable: str, default: str, allowed: tuple[str, ...]) -> str:
    value = os.environ.get(variable) or default
    if value not in allowed:
        raise LabError(f"{variable}={value}: must be one of {', '.join(allowed)}")
    return value


def llvm() -> str:
    """`LLVM`: the suffix of clang and lld, `-19` by default."""
    return os.environ.get("LLVM") or "-19"


def jobs() -> int:
    """`JOBS`: the number of compilers at a time."""
    value = os.environ.get("JOBS") or str(os.cpu_count() or 1)
    if not value.isdigit() or int(value) < 1:
        raise LabError(f"JOBS={value}: must be a positive number")
    return int(value)


def flavour() -> str:
    """`KERNEL`: the kernel that the guests run."""
    return _choice("KERNEL", "plain", ("plain", "debug", "debian"))


def cpus(flavour: str) -> int:
    """Returns the number of processors of a guest: two, or one under a debug kernel on two cores.

    Two guests with two processors each on two cores wait for locks whose holder does not run; with
    KASAN their boot takes minutes.
    """
    return 1 if flavour == "debug" and (os.cpu_count() or 1) < 4 else 2


def pairs(flavour: str) -> int:
    """`PAIRS`: the number of pairs of guests that share the scenarios of a whole run.

    A pair of plain guests keeps about one processor of the host busy. There is one debug pair only:
    it uses two processors, and its leak detector must see the effect of all scenarios.
    """
    default = 1 if flavour == "debug" else min(os.cpu_count() or 1, 4)
    return max(1, _number("PAIRS", default))


def link() -> str:
    """`LINK`: the software RDMA device of the guests."""
    return _choice("LINK", "rxe", ("rxe", "siw"))


#: How the guests' RDMA device reaches memory: by kernel pointers, or through the DMA API.
DMA_MODES = ("none", "iommu", "swiotlb")


def machine(side: str = "") -> tuple[str, str]:
    """`ARCH` and `PAGES`: architecture and size of pages of the guests; empty if not given.

    `SERVER_ARCH` and `SERVER_PAGES` are for the server, if `side` is ``server``.
    """
    arch, pages = os.environ.get("ARCH", ""), os.environ.get("PAGES", "")
    if side != "server":
        return arch, pages
    own, own_pages = os.environ.get("SERVER_ARCH", ""), os.environ.get("SERVER_PAGES", "")
    # Another architecture need not have pages of that size.
    return (own, own_pages) if own else (arch, own_pages or pages)


def dma() -> str:
    """`DMA`: how the RDMA device reaches memory, one of `DMA_MODES`."""
    return _choice("DMA", "none", DMA_MODES)


#: The file systems that the server may export. Only Debian's own kernel has the last two.
EXPORTS = ("tmpfs", "ext4", "xfs", "btrfs")


def export() -> str:
    """`EXPORT`: the file system that the server exports, one of `EXPORTS`."""
    value = _choice("EXPORT", "tmpfs", EXPORTS)
    if value in EXPORTS[2:] and flavour() != "debian":
        raise LabError(f"EXPORT={value}: the lab's own kernels lack it; use KERNEL=debian")
    return value


def profile() -> str:
    """`PROFILE`: the adapter whose limits the RDMA device has, or `none` (lab/profiles.py)."""
    return os.environ.get("PROFILE") or "none"


def client() -> str:
    """`CLIENT`: whose rpcrdma.ko the client loads."""
    return _choice("CLIENT", "ours", ("ours", "stock"))


def server() -> str:
    """`SERVER`: whose rpcrdma.ko the server loads."""
    return _choice("SERVER", SERVER, ("ours", "stock"))


def legacy() -> bool:
    """`RPCRDMA_LEGACY`: our module has RFC 5666, as it has by default."""
    return _choice("RPCRDMA_LEGACY", "y", ("y", "n")) == "y"


def series() -> tuple[int, ...]:
    """`SERIES`: the series of Debian's own kernel, such as 7.2; empty for the newest one."""
    value = os.environ.get("SERIES", "")
    if value and not re.fullmatch(r"\d+\.\d+", value):
        raise LabError(f"SERIES={value}: must be two numbers, such as 7.2")
    return tuple(map(int, value.split("."))) if value else ()


def suite() -> str:
    """`SUITE`: the suite of Debian whose machine the scenarios of `debian` install."""
    return _choice("SUITE", "trixie", ("trixie", "forky", "sid"))


def modules() -> str:
    """Returns whose module each guest loads, in the words of reports."""
    return f"{client()} client, {server()} server"


def accel() -> str:
    """`ACCEL`: tcg, kvm, or auto (KVM where a guest really boots under it)."""
    return _choice("ACCEL", "auto", ("auto", "tcg", "kvm"))


def full() -> bool:
    """`FULL`: the long form, with every case of every scenario."""
    return _switch("FULL")


def only() -> list[str]:
    """`ONLY`: names of scenarios, separated by spaces or commas; empty for all of them."""
    return os.environ.get("ONLY", "").replace(",", " ").split()


def listing() -> bool:
    """`LIST`: list the scenarios and boot nothing."""
    return _switch("LIST")


def keep() -> bool:
    """`KEEP`: after a failure the guests stay, with a shell."""
    return _switch("KEEP")


def gdb() -> bool:
    """`GDB`: the guests' QEMU has a gdb stub, and the lab writes a command file for gdb."""
    return _switch("GDB")


def attended() -> bool:
    """Whether a person works with the guests, so that nothing may end because of a time limit."""
    return keep() or gdb()


def on() -> str:
    """`ON`: the guest whose shell comes first."""
    return _choice("ON", "client", ("client", "server"))


#: The guests whose module the bench may measure; both: their instructions.
SIDES = ("client", "server", "both")


def side() -> str:
    """`SIDE`: the guest whose module the bench measures."""
    return _choice("SIDE", "client", SIDES)


def soak_time() -> int:
    """`SOAK_TIME`: seconds of `make soak`."""
    return _number("SOAK_TIME", 3600)


def soak_seed() -> int:
    """`SOAK_SEED`: the number of a sequence of faults; a new one each time by default."""
    return _number("SOAK_SEED", int(time.time()) % 100_000)


def _switch(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")


def _number(variable: str, default: int) -> int:
    value = os.environ.get(variable) or str(default)
    if not value.isdigit():
        raise LabError(f"{variable}={value}: must be a number")
    return int(value)
