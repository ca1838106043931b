# SPDX-License-Identifier: GPL-2.0
"""Builds software RDMA devices that read and write memory through the DMA API.

rxe and siw register without a DMA device: their device addresses are kernel pointers, so no
scenario would ever map memory. The lab copies both from the source of its kernel, replaces the
places that turn an address into memory by calls to `lab_dma` (tools/lab/device), and builds all as
modules. The kernel has rxe and siw built in; a guest that loads a copy does not start the original.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from . import paths
from .command import logged
from .errors import LabError
from .kernel import Kernel
from .module import clean_environment
from .progress import step

#: The folder of the links in the kernel's source.
SOURCES = "drivers/infiniband/sw"
#: The module of each link in the kernel's Makefile.
_OBJECTS = {"rxe": "rdma_rxe", "siw": "siw"}
#: The function by which the kernel starts the link that is built in.
STARTS = {"rxe": "rxe_module_init", "siw": "siw_init_module"}


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
    Edit("rxe_mr.c", "ib_umem_get_va(&rxe->ib_dev,", "ib_umem_get_va(lab_dma_user(),"),
    Edit(
        "siw.h",
        "#include <linux/socket.h>",
        '#include <linux/socket.h>\n#include "../lab_dma.h"',
    ),
    Edit(
        "siw_main.c",
        "ib_register_device(base_dev, name, NULL)",
        "ib_register_device(base_dev, name, lab_dma_device())",
    ),
    Edit("siw_mem.c", "ib_umem_get_va(base_dev,", "ib_umem_get_va(lab_dma_user(),"),
    # TCP would keep pages whose memory the completion has given back.
    Edit("siw_main.c", "const bool zcopy_tx = true", "const bool zcopy_tx = false"),
    Edit(
        "siw_verbs.c",
        "ib_virt_dma_to_ptr(core_sge->addr)",
        "(void *)(uintptr_t)core_sge->addr",
    ),
    Edit("siw_verbs.c", "ib_virt_dma_to_ptr(pble->addr)", "(void *)(uintptr_t)pble->addr"),
    Edit(
        "siw_qp_tx.c",
        "siw_get_pblpage(struct siw_mem *mem, u64 addr, int *idx)",
        "siw_get_pblpage(struct siw_mem *mem, u64 addr, int *idx, unsigned int len)",
    ),
    Edit(
        "siw_qp_tx.c",
        "return ib_virt_dma_to_page(paddr);",
        "return lab_dma_access(paddr, len, false);",
    ),
    Edit(
        "siw_qp_tx.c",
        "\t\t\t\t unsigned long offset, int *pbl_idx)\n{\n",
        "\t\t\t\t unsigned long offset, int *pbl_idx, unsigned int len)\n{\n"
        "\tif (!mem->mem_obj)\n\t\treturn lab_dma_access(sge->laddr + offset, len, false);\n",
    ),
    Edit(
        "siw_qp_tx.c",
        "return siw_get_pblpage(mem, sge->laddr + offset, pbl_idx);",
        "return siw_get_pblpage(mem, sge->laddr + offset, pbl_idx, len);",
    ),
    Edit(
        "siw_qp_tx.c",
        "memcpy(paddr, ib_virt_dma_to_ptr(sge->laddr), bytes);",
        "lab_dma_read(paddr, sge->laddr, bytes);",
    ),
    Edit(
        "siw_qp_tx.c",
        "siw_get_page(mem, sge, 0, &pbl_idx)",
        "siw_get_page(mem, sge, 0, &pbl_idx, min_t(u32, bytes, PAGE_SIZE - off))",
    ),
    Edit(
        "siw_qp_tx.c",
        "siw_get_page(mem, sge, part, &pbl_idx)",
        "siw_get_page(mem, sge, part, &pbl_idx, 1)",
    ),
    # A kernel pointer is inline data now; memory of a local key goes page by page, as a region.
    Edit("siw_qp_tx.c", "is_kva = mem->mem_obj == NULL ? 1 : 0;", "is_kva = 0;"),
    Edit(
        "siw_qp_tx.c",
        "ib_virt_dma_to_ptr(sge->laddr + sge_off)",
        "(void *)(uintptr_t)(sge->laddr + sge_off)",
    ),
    Edit(
        "siw_qp_tx.c",
        "siw_get_page(mem, sge, sge_off, &pbl_idx)",
        "siw_get_page(mem, sge, sge_off, &pbl_idx, plen)",
    ),
    Edit("siw_qp_tx.c", "ib_virt_dma_to_page(va)", "lab_dma_page(va)"),
    Edit("siw_qp_tx.c", "ib_virt_dma_to_ptr(va)", "(void *)(uintptr_t)va"),
    Edit(
        "siw_qp_rx.c",
        "static int siw_rx_pbl(struct siw_rx_stream *srx,",
        """static int siw_rx_dma(struct siw_rx_stream *srx, u64 addr, int len)
{
	int done = 0;

	while (done < len) {
		unsigned int offset = offset_in_page(addr + done);
		int bytes = min_t(int, len - done, PAGE_SIZE - offset);
		void *va = kmap_local_page(lab_dma_access(addr + done, bytes, true));
		int rv = siw_rx_kva(srx, va + offset, bytes);

		kunmap_local(va);
		if (rv != bytes)
			return rv < 0 ? rv : done;
		done += bytes;
	}
	return len;
}

static int siw_rx_pbl(struct siw_rx_stream *srx,""",
    ),
    Edit(
        "siw_qp_rx.c",
        "siw_rx_kva(srx, ib_virt_dma_to_ptr(buf_addr), bytes)",
        "siw_rx_dma(srx, buf_addr, bytes)",
    ),
    Edit(
        "siw_qp_rx.c",
        "siw_rx_kva(srx, ib_virt_dma_to_ptr(addr), bytes)",
        "siw_rx_dma(srx, addr, bytes)",
    ),
)
#: Nothing else may take an address for a pointer.
_FORBIDDEN = "ib_virt_dma_to_"


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


def _write(kernel: Kernel, target: Path) -> bool:
    """Writes the edited sources to `target`; returns whether a file has changed."""
    ours = paths.LAB / "device"
    wanted = {p.name: p.read_text() for p in (ours / "Kbuild", *ours.glob("*.[ch]"))}
    for link, name in _OBJECTS.items():
        source = kernel.src / SOURCES / link
        wanted |= {f"{link}/{p.name}": edited(p.name, p.read_text()) for p in source.glob("*.[ch]")}
        objects = (source / "Makefile").read_text()
        objects = objects.replace(f"$(CONFIG_RDMA_{link.upper()})", "m")
        wanted[f"{link}/Kbuild"] = re.sub(rf"\b{name}(?=\.o|-)", f"{link}_dma", objects)
    changed = False
    for name, text in wanted.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            changed = True
    return changed


def build(kernel: Kernel) -> Path:
    """Builds the devices for a kernel and returns the folder of the modules.

    # Errors
    `LabError` with the end of the build's log, or when the kernel's source does not fit the edits.
    """
    tree = paths.sub("module") / (kernel.obj.name + "-device")
    log = paths.log_file(f"module-{tree.name}")
    args = ["make", "-C", kernel.obj, f"M={tree}", *kernel.tools.make_args(), "modules"]
    stamp = tree.with_name(f"{tree.name}.built")
    key = f"{args} {kernel.age}"
    with paths.locked(f"module-{tree.name}"):
        known = stamp.read_text() if stamp.exists() else ""
        stamp.unlink(missing_ok=True)
        if _write(kernel, tree) or known != key:
            log.unlink(missing_ok=True)
            with step(f"devices for {kernel.title}: building", log):
                logged(args, log, env=clean_environment(kernel))
        stamp.write_text(key)
    return tree


def files(kernel: Kernel, link: str, dma: str) -> dict[str, Path]:
    """Returns the modules of a link that `dma` needs, by their names in the guests' /lab."""
    if dma == "none":
        return {}
    tree = build(kernel)
    return {"lab_dma.ko": tree / "lab_dma.ko", f"{link}_dma.ko": tree / link / f"{link}_dma.ko"}
