#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Count what the server's transport allocated, by the trace: allocations.py < TRACE.

The trace has the events kmalloc, kmem_cache_alloc and mm_page_alloc, and the trigger `stacktrace`
puts a stack after each of the last. Prints two numbers: slab objects and pages.

A slab object counts when its caller is rpcrdma.ko, the kernel's rdma_rw_* functions, or Rust's
allocator, which serves rpcrdma.ko alone. Pages count when the stack has the module, or nfsd's
renewal of the pages of a call. Pages of network packets do not count, whose stacks may have the
module as well.
"""

import re
import sys

CALLER = re.compile(r" (?:kmalloc|kmem_cache_alloc): call_site=(\S+)(?: (\[\w+\]))?")
PAGE = re.compile(r" mm_page_alloc: .* order=(\d+)")
FRAME = re.compile(r" => (\S.*)")
RUST = ("rust_helper_", "_R", "krealloc", "vrealloc")
RENEWAL = ("svc_alloc_arg", "svc_fill_pages", "svc_rqst_replace_page")
PACKETS = ("__alloc_skb", "__netdev_alloc_skb", "skb_page_frag_refill")


def of_transport(caller, module):
    """Whether the transport asked for a slab object."""
    if module == "[rpcrdma]" or caller.startswith("rdma_rw_"):
        return True
    return not module and caller.startswith(RUST)


def wanted(stack):
    """Whether a stack is that of the transport's own pages, or of nfsd's for a call."""
    if any(frame.startswith(PACKETS) for frame in stack):
        return False
    return any("[rpcrdma]" in frame or frame.startswith(RENEWAL) for frame in stack)


def count(lines):
    """Returns the numbers of slab objects and of pages."""
    slabs, pages, order, stack = 0, 0, None, []
    for line in lines:
        if frame := FRAME.match(line):
            stack.append(frame[1])
            continue
        if order is not None and stack:
            pages += wanted(stack) << order
            order = None
        stack = []
        if caller := CALLER.search(line):
            slabs += of_transport(caller[1], caller[2])
        elif page := PAGE.search(line):
            order = int(page[1])
    if order is not None:
        pages += wanted(stack) << order
    return slabs, pages


if __name__ == "__main__":
    print(*count(sys.stdin))
