# SPDX-License-Identifier: GPL-2.0
"""Writes Documentation/devices.rst from tools/lab/profiles.toml."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from . import paths, profiles
from .profiles import Profile, Value

#: The mark of a value that the driver asks the device for.
ASKED = "\\*"
PAGE = paths.ROOT / "Documentation" / "devices.rst"

_HEAD = f"""\
.. SPDX-License-Identifier: GPL-2.0

=======
Devices
=======

These are the drivers whose devices a mount may use. The module has run only over the software
devices rxe and siw. In the lab, rxe can have the limits of each adapter: with ``PROFILE=`` and the
name of the first column, in all scenarios; and in the scenarios ``profiles``, one adapter after the
other. The device then reports those of the limits that are lower than the limits of rxe (512 pages,
32 entries, 1048576 work requests, 32767 completions, 128 Reads). It refuses a work request with
more entries, a longer page list, and more work requests than the queue was made for, with a report
that fails the scenario (``tools/lab/provoke/lab_limits.c``).

``tools/lab/lab/devices.py`` writes this page from ``tools/lab/profiles.toml``, where each value has
its place in the source of Linux {profiles.VERSION}. The lab's tests check that the places name the
value; they do not compare the numbers.
"""
_LIMITS = """
Limits
======

The columns are the pages of a memory region; the scatter/gather entries of a Send, of a Receive and
of an RDMA Read; the work requests of a queue; the entries of a completion queue; the RDMA Reads
that the device serves at a time, and those that it may have outstanding. For a value with \\* the
driver asks its device; the number here is assumed, from the driver's own bound if it has one.

A memory region has pages of the kernel's size. A device whose page sizes do not include this size
is refused by a client, and over iWARP by a server: on a kernel with pages of 64 KiB, those of irdma
and ionic. Page sizes are a sum of powers of two.

"""
_RUNS = """
Runs
====

Client and server have the same profile, and this module over rxe. Files are written, read and
compared by direct I/O with NFSv4.2 over version two and with NFSv3 over version one; the server
recalls a delegation; under load, nfsd restarts and each side loses its device. With the smallest
profiles (cxgb4-t4, erdma, irdma-x722) long names and extended attributes are compared as well, and
files that go through the page cache with NFSv3. The date is that of the last run, of the module as
it was then. This command repeats a run, here the first::

        FULL=1 KERNEL=plain SERVER=ours ONLY="profiles::data_and_recovery[mlx5-pair0]" \\
                make lab-check

Other runs lower a single limit. A mount works with regions of 2 pages, with 1 entry in each kind of
work request, with queues of 48 work requests, with completion queues of 73 entries, and with 1 RDMA
Read in each direction. The client refuses a device with regions of 1 page, queues of 47 work
requests or completion queues of 72 entries, and the server queues of 9 work requests or completion
queues of 19 entries. The log says why.

"""
_WITHOUT = """
Drivers without a mount
=======================

"""
#: The columns of the limits.
_COLUMNS = ("pages", "Send", "Recv", "Read", "queue", "CQ", "serves", "reads")
_FACTS = {
    "local_dma_lkey": "a local DMA key",
    "sg_gaps": "gaps in regions",
    "remote_invalidation": "remote invalidation",
}


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    rule = " ".join("=" * width for width in widths)
    text = [
        " ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    ]
    return "\n".join([rule, text[0], rule, *text[1:], rule]) + "\n"


def _shown(value: Value) -> str:
    return f"{value.value} {ASKED}" if value.firmware else str(value.value)


def _about(profile: Profile) -> str:
    """Returns the paragraph of a driver: what it is for, its abilities, and its places."""
    has = [text for key, text in _FACTS.items() if key in profile.values]
    sizes = profile.values["page_size_cap"].value
    vectors = profile.values["num_comp_vectors"].value
    files = sorted({place.partition(":")[0] for v in profile.values.values() for place in v.places})
    shown = [name for name in files if not name.startswith("..")]
    lines = [
        f"``{profile.name}``: {profile.about}",
        f"    {profile.transport}. Supports {', '.join(has)}.",
        f"    Page sizes {sizes:#x}; completion vectors: {vectors}.",
        *_wrapped(shown),
    ]
    return "\n".join(lines)


def _wrapped(words: Sequence[str]) -> list[str]:
    lines, line = [], "    Source:"
    for word in words:
        if len(line) + len(word) + 6 > 100:
            lines.append(line)
            line = "   "
        line += f" ``{word}``"
    return [*lines, line]


def page() -> str:
    """Returns the text of the page."""
    known, runs = profiles.load(), profiles.runs()
    limits = [
        [f"``{p.name}``", *(_shown(p.values[key]) for key in profiles.LIMITS)]
        for p in known.values()
    ]
    results = [[f"``{name}``", *runs.get(name, ["not run", ""])] for name in known]
    without = [f"``{name}``\n    {value.value}." for name, value in profiles.without().items()]
    return "".join(
        [
            _HEAD,
            _LIMITS,
            _table(("driver", *_COLUMNS), limits),
            "\n",
            "\n".join(_about(profile) for profile in known.values()),
            "\n",
            _RUNS,
            _table(("profile", "result", "date"), results),
            _WITHOUT,
            "\n".join(without),
            "\n",
        ]
    )


def main(arguments: Sequence[str]) -> int:
    """``lab devices``: writes the page."""
    argparse.ArgumentParser(prog="lab devices", description=__doc__).parse_args(arguments)
    PAGE.write_text(page())
    return 0
