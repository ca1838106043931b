# SPDX-License-Identifier: GPL-2.0
"""Finds kernel reports in a console log.

A scenario fails when it leaves a report in either guest's console. Every line that the kernel
prints only when something is wrong belongs to the list below.
"""

from __future__ import annotations

import re

#: The words by which a report is known.
_REPORT = re.compile(
    r"""
      WARNING: | \bBUG: | kernel\ BUG\ at | Oops: | general\ protection\ fault
    | Kernel\ panic | panicked\ at | Unable\ to\ handle | Bad\ page
    | KASAN: | UBSAN: | ODEBUG: | DMA-API:
    | possible\ (recursive|circular|irq) | inconsistent\ lock\ state
    | suspicious\ RCU\ usage | lock\ held\ when\ returning | bad\ unlock\ balance
    | held\ lock\ freed | MAX_LOCK\w*\ too\ low | INFO:\ lockdep
    | trying\ to\ register\ non-static\ key
    | refcount_t: | list_(add|del)\ corruption | slab\ error
    | blocked\ for\ more\ than | detected\ stalls | self-detected\ stall | soft\ lockup
    | workqueue\ lockup | scheduling\ while\ atomic | page\ allocation\ failure
    | vmalloc\ error
    | kmemleak:\ [1-9][0-9]*\ new | Call\ [Tt]race: | Internal\ error:
    | cut\ here
    """,
    re.VERBOSE,
)

#: Single lines that are reports: those of this module that tell of a defect, in it or below it, and
#: that of the kernel about a network device to which somebody keeps a reference.
_ALARM = re.compile(
    r"queue pair \d+ could not be drained"
    r"|a (memory region|protection domain) could not be freed"
    r"|a memory region is live on a connection that was drained"
    r"|connect without the send lock"
    r"|no tunables in /proc/sys/"
    r"|unregister_netdevice: waiting for"
)

#: Lines with the same words that are no reports.
_HARMLESS = re.compile(
    r"DMA-API: (preallocated|debugging enabled|debugging disabled)"
    r"|kmemleak: (Kernel memory leak detector initialized|Automatic memory scanning)"
)

#: A warning of rxe, or of the lab's copy, on a bad link: a work request ended in an error whose
#: status rxe had not set. No module of RPC is involved.
_OF_A_BAD_LINK = re.compile(r"WARNING: \S*\brxe/rxe_comp\.c:")

#: First lines of reports by the page allocator about a failed allocation, and our module's line
#: about files that it could not make.
_OF_WANT = re.compile(r"page allocation failure|vmalloc error|no tunables in")

#: A warning of the stock server over iWARP when it is stopped while it reads from clients: the
#: queue pair that it destroys still has memory regions.
_OF_A_STOPPED_IWARP_SERVER = (
    re.compile(r"WARNING: \S+/verbs\.c:\d+ at ib_destroy_qp_user\+"),
    "svc_rdma_free+",
)

#: A report of DMA debugging about a sync for the device of `lab_dma`: its first line, and the lines
#: of such a report that have the words of one.
_OF_A_SYNC = re.compile(
    r"DMA-API: lab_dma \S+: device driver tries to sync DMA memory it has not allocated \["
)
_ITS_LINES = re.compile(r"WARNING: \S*kernel/dma/debug\.c:\d+ at check_sync\+|Call Trace:")

#: A report ends at the kernel's end mark, or after this many lines. A report of lockdep has no end
#: mark, and many lines before the call trace at its end.
_CONTEXT, _TRACE = 60, 200


def find(
    console: str,
    *,
    bad_link: bool = False,
    want: bool = False,
    iwarp: bool = False,
    lab_dma: bool = False,
) -> list[str]:
    """Returns the reports in a console text in order, each with all its lines.

    `bad_link`: the relay harms packets, so the known warning of rxe does not count. `want`:
    allocations fail on purpose, so reports about a failed allocation do not count. `iwarp`: the
    link is siw, so the known warning of a stopped stock server does not count. `lab_dma`: this
    module looks at each sync, so that DMA debugging's report of a sync without a mapping, which may
    be false (lab-traps.rst), does not count.

    The lines after a report's first line belong to it, so a WARN with its call trace counts once.
    """
    reports: list[str] = []
    lines = console.splitlines()
    index = 0
    while index < len(lines):
        line, end = lines[index], index + 1
        excused = want and bool(_OF_WANT.search(line))
        if _ALARM.search(line):
            reports += [] if excused else [line]
        elif _REPORT.search(line) and not _HARMLESS.search(line):
            end = _end_of_report(lines, index)
            report = "\n".join(lines[index:end])
            others = _is_others(report, bad_link, iwarp) or (lab_dma and _is_of_a_sync(report))
            if excused or others:
                # Another processor may have printed an alarm meanwhile.
                reports += filter(_ALARM.search, lines[index:end])
            else:
                reports.append(report)
        index = end
    return reports


def _is_others(report: str, bad_link: bool, iwarp: bool) -> bool:
    if bad_link and _OF_A_BAD_LINK.search(report):
        return True
    first, word = _OF_A_STOPPED_IWARP_SERVER
    # A report with another first line counts, even if the known warning follows in its lines.
    begins = next((line for line in report.splitlines() if "cut here" not in line), "")
    return iwarp and bool(first.search(begins)) and word in report


def _is_of_a_sync(report: str) -> bool:
    """Whether DMA debugging's report of a sync without a mapping is all that there is."""
    lines = [ln for ln in report.splitlines() if _REPORT.search(ln) and "cut here" not in ln]
    first, *others = lines or [""]
    return bool(_OF_A_SYNC.search(first)) and all(map(_ITS_LINES.search, others))


def _end_of_report(lines: list[str], start: int) -> int:
    for mark, length in (("end trace", _CONTEXT), ("</TASK>", _TRACE)):
        for index in range(start, min(len(lines), start + length)):
            if index > start and "cut here" in lines[index]:
                return index
            if mark in lines[index]:
                return index + 1
    return min(len(lines), start + _CONTEXT)
