# SPDX-License-Identifier: GPL-2.0
"""Finding kernel reports in a console log.

A scenario that leaves any of these in either guest's console has failed,
whatever else it checked. The list errs on the side of reporting: a line the
kernel prints only when something is wrong belongs here.
"""

from __future__ import annotations

import re

#: What a report's telling line contains.
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
    | kmemleak:\ [1-9][0-9]*\ new | Call\ Trace:
    | cut\ here
    """,
    re.VERBOSE,
)

#: Lines the same words appear in when all is well.
_HARMLESS = re.compile(
    r"DMA-API: (preallocated|debugging enabled|debugging disabled)"
    r"|kmemleak: (Kernel memory leak detector initialized|Automatic memory scanning)"
)

#: What the software device says of itself on a bad link: a work request that ended in an error
#: whose status nobody had set. No module of RPC is involved.
OF_A_BAD_LINK = "WARNING: drivers/infiniband/sw/rxe/rxe_comp.c:"

#: What the page allocator says when it could not serve somebody, in a report's first line.
_OF_WANT = re.compile(r"page allocation failure|vmalloc error")

#: What the stock server was seen to say over iWARP when it was stopped while it read from clients:
#: the queue pair that it destroys still has memory regions.
_OF_A_STOPPED_IWARP_SERVER = (
    re.compile(r"WARNING: \S+/verbs\.c:\d+ at ib_destroy_qp_user\+"),
    "svc_rdma_free+",
)

#: A report and what belongs to it ends where the kernel says so, or after this many lines. Lockdep
#: does not say so, and takes many lines to the call trace that is its last word.
_CONTEXT, _TRACE = 60, 200


def find(
    console: str, *, bad_link: bool = False, want: bool = False, iwarp: bool = False
) -> list[str]:
    """The reports in a console text, each with its lines, in order.

    `bad_link`: packets were dropped or disordered on purpose, so `OF_A_BAD_LINK` is left out.
    `want`: allocations were failed on purpose, so what says no more than that is left out.
    `iwarp`: the link is siw, where what the stock server says when stopped is left out.

    Lines following a report's first are part of it, so one WARN with its call
    trace counts once.
    """
    reports: list[str] = []
    lines = console.splitlines()
    index = 0
    while index < len(lines):
        line = lines[index]
        if _REPORT.search(line) and not _HARMLESS.search(line):
            end = _end_of_report(lines, index)
            report = "\n".join(lines[index:end])
            if not (_is_others(report, bad_link, iwarp) or (want and _OF_WANT.search(line))):
                reports.append(report)
            index = end
        else:
            index += 1
    return reports


def _is_others(report: str, bad_link: bool, iwarp: bool) -> bool:
    if bad_link and OF_A_BAD_LINK in report:
        return True
    first, word = _OF_A_STOPPED_IWARP_SERVER
    # What begins otherwise is somebody else's, even if this follows within its context.
    begins = next((line for line in report.splitlines() if "cut here" not in line), "")
    return iwarp and bool(first.search(begins)) and word in report


def _end_of_report(lines: list[str], start: int) -> int:
    for mark, length in (("end trace", _CONTEXT), ("</TASK>", _TRACE)):
        for index in range(start, min(len(lines), start + length)):
            if index > start and "cut here" in lines[index]:
                return index
            if mark in lines[index]:
                return index + 1
    return min(len(lines), start + _CONTEXT)
