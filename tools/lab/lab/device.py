# SPDX-License-Identifier: GPL-2.0
"""Builds a software RDMA device that reads and writes memory through the DMA API.

rxe registers without a DMA device: its device addresses are kernel pointers, so no scenario would
ever map memory. The lab copies rxe from the source of its kernel, replaces the places that turn an
address into memory by calls to `lab_dma` (tools/lab/device), and builds both as modules. The kernel
has rxe built in, so the copy is a link of another type.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from . import paths, settings
from .command import logged
from .errors import LabError
from .kernel import Kernel
from .progress import step

#: The type of the link that the edited device makes.
LINK = "rxe_dma"
_RXE = "drivers/infiniband/sw/rxe"


@dataclass(frozen=True)
class Edit:
    """A text that occurs in a file so often, and the text that replaces it."""

    file: str
    old: str
    new: str
    count: int = 1


#: A region keeps the device address beside each page, so that an access is translated when it
#: happens. Inline data of a Send has a kernel pointer on every device.
EDITS = (
    Edit(
        "rxe.h", "#include <linux/skbuff.h>", '#include <linux/skbuff.h>\n#include "../lab_dma.h"'
    ),
    Edit("rxe.c", '.type = "rxe"', f'.type = "{LINK}"'),
    Edit("rxe.c", 'MODULE_ALIAS_RDMA_LINK("rxe")', f'MODULE_ALIAS_RDMA_LINK("{LINK}")'),
    Edit(
        "rxe_verbs.c",
        "ib_register_device(dev, ibdev_name, NULL)",
        "ib_register_device(dev, ibdev_name, lab_dma_device())",
    ),
    Edit(
        "rxe_verbs.c",
        "memcpy(p, ib_virt_dma_to_ptr(sge->addr), sge->length)",
        "memcpy(p, (void *)(uintptr_t)sge->addr, sge->length)",
    ),
    Edit("rxe_verbs.h", "\tstruct page\t\t*page;\n", "\tstruct page\t\t*page;\n\tu64\t\t\tdma;\n"),
    Edit("rxe_mr.c", "= ib_virt_dma_to_page(addr)", "= lab_dma_page(addr)"),
    Edit(
        "rxe_mr.c",
        "mr->page_info[mr->nbuf].page = sub_page;",
        "mr->page_info[mr->nbuf].page = sub_page;\n\t\tmr->page_info[mr->nbuf].dma = addr;",
    ),
    Edit("rxe_mr.c", "page = ib_virt_dma_to_page(iova)", "page = lab_dma_access(iova, 8, true)", 2),
    Edit(
        "rxe_mr.c",
        "page = ib_virt_dma_to_page(dma_addr);",
        "page = lab_dma_access(dma_addr, min_t(unsigned int, length, PAGE_SIZE - page_offset),\n"
        "\t\t\t\t      dir == RXE_TO_MR_OBJ);",
    ),
    Edit(
        "rxe_mr.c",
        "va = kmap_local_page(info->page);\n\n\t\tif (dir == RXE_FROM_MR_OBJ)",
        "va = kmap_local_page(lab_dma_region(info->page, info->dma, page_offset, bytes,\n"
        "\t\t\t\t\t\t      dir == RXE_TO_MR_OBJ));\n\n"
        "\t\tif (dir == RXE_FROM_MR_OBJ)",
    ),
)
#: Nothing else may take an address for a pointer.
_FORBIDDEN = "ib_virt_dma_to_"


@dataclass(frozen=True)
class Device:
    """The modules of the device, in the order of loading."""

    dma: Path
    link: Path


def edited(name: str, text: str) -> str:
    """Returns a source of the device with our calls.

    # Errors
    `LabError` when the source is not the one that the edits were made for.
    """
    for edit in (edit for edit in EDITS if edit.file == name):
        if text.count(edit.old) != edit.count:
            found = f"{text.count(edit.old)} times, not {edit.count}"
            raise LabError(f"{name} has changed: `{edit.old}` occurs {found} (lab/device.py)")
        text = text.replace(edit.old, edit.new)
    if _FORBIDDEN in text:
        raise LabError(f"{name} has changed: a new use of {_FORBIDDEN} (lab/device.py)")
    return text


def _write(source: Path, target: Path) -> bool:
    """Writes the edited sources to `target`; returns whether a file has changed."""
    changed = False
    (target / "rxe").mkdir(parents=True, exist_ok=True)
    wanted = {f"rxe/{p.name}": edited(p.name, p.read_text()) for p in source.glob("*.[ch]")}
    objects = (source / "Makefile").read_text().replace("$(CONFIG_RDMA_RXE)", "m")
    wanted["rxe/Kbuild"] = objects.replace("rdma_rxe", LINK)
    wanted |= {p.name: p.read_text() for p in (paths.LAB / "device").iterdir()}
    for name, text in wanted.items():
        path = target / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            changed = True
    return changed


def build(kernel: Kernel) -> Device:
    """Builds the device for a kernel.

    # Errors
    `LabError` with the end of the build's log, or when the kernel's source does not fit the edits.
    """
    tree = paths.sub("module") / (kernel.obj.name + "-device")
    device = Device(tree / "lab_dma.ko", tree / "rxe" / f"{LINK}.ko")
    log = paths.log_file(f"module-device-{kernel.flavour}")
    args = ["make", "-C", kernel.obj, f"M={tree}", *kernel.tools.make_args(), "modules"]
    stamp = tree.with_name(f"{tree.name}.built")
    key = hashlib.sha256(f"{args} {kernel.image.stat().st_mtime_ns}".encode()).hexdigest()
    with paths.locked(f"module-{tree.name}"):
        known = stamp.read_text() if stamp.exists() else ""
        stamp.unlink(missing_ok=True)
        if _write(kernel.src / _RXE, tree) or known != key or not device.link.exists():
            log.unlink(missing_ok=True)
            with step(f"device {LINK} for the {kernel.flavour} kernel: building", log):
                logged(args, log, env={**kernel.tools.env(), "MAKEFLAGS": "", "MAKELEVEL": "0"})
        stamp.write_text(key)
    return device


def files(kernel: Kernel) -> dict[str, Path]:
    """Returns the modules that `DMA` needs by their names in the guests' /lab."""
    if settings.dma() == "none":
        return {}
    if settings.link() != "rxe":
        raise LabError(f"DMA={settings.dma()}: only with LINK=rxe")
    device = build(kernel)
    return {path.name: path for path in (device.dma, device.link)}
