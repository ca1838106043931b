# SPDX-License-Identifier: GPL-2.0
"""Failing allocations in rpcrdma.ko, by the kernel's fault injection (the debug kernel has it)."""

from __future__ import annotations

from .pair import Guest

DEBUGFS = "/sys/kernel/debug"
#: The kinds of allocations that can fail: small objects, and pages.
KINDS = ("failslab", "fail_page_alloc")


def _module_text(guest: Guest) -> tuple[int, int]:
    """Returns the first and the last address of the module's code."""
    lines = guest.sh("grep '\\[rpcrdma\\]' /proc/kallsyms").splitlines()
    code = sorted(int(line.split()[0], 16) for line in lines if line.split()[1] in "tT")
    return code[0], code[-1]


class Failures:
    """Makes a part of the module's allocations fail inside a `with` block.

    The scenario sets `Pair.starved`, so that the kernel's reports of failed allocations are none.
    """

    #: The kernel counts down from this number, which no scenario reaches.
    MANY = 1000000

    def __init__(self, guest: Guest, kind: str, percent: int) -> None:
        """`kind`: one of `KINDS`. Allocations of the rest of the kernel succeed."""
        self._guest, self._percent = guest, percent
        self._where = f"{DEBUGFS}/{kind}"
        #: The number of failures, known after the block.
        self.failed = 0

    def __enter__(self) -> Failures:
        """Starts the failures."""
        first, last = self._callers()
        knobs = {
            "require-start": first,
            "require-end": last,
            "stacktrace-depth": 32,
            "ignore-gfp-wait": "N",
            "verbose": 0,
            "interval": 1,
            "times": self.MANY,
            "probability": self._percent,
        }
        if self._where.endswith("page_alloc"):
            knobs["min-order"] = 0
        self._guest.sh(
            f"cd {self._where}; " + "; ".join(f"echo {v} > {k}" for k, v in knobs.items())
        )
        return self

    def _callers(self) -> tuple[int, int]:
        """Returns the range of code addresses one of which is on the stack of a failure."""
        return _module_text(self._guest)

    def __exit__(self, *_: object) -> None:
        """Ends the failures and counts them."""
        left = self._guest.sh(f"cd {self._where}; echo 0 > probability; cat times")
        self.failed = self.MANY - int(left)


class BufferFailures(Failures):
    """Makes every allocation of a buffer fail inside a `with` block.

    These are allocations of 4 or 8 KiB by Rust code, of which the module's is the only one. Rust's
    allocator calls krealloc_node_align() for them. Drivers and ib_core do not.
    """

    CACHES = ("kmalloc-4k", "kmalloc-8k")

    def __init__(self, guest: Guest) -> None:
        """All such allocations fail."""
        super().__init__(guest, "failslab", 100)

    def __enter__(self) -> BufferFailures:
        """Starts the failures."""
        for cache in self.CACHES:
            self._guest.sh(f"echo 1 > /sys/kernel/slab/{cache}/failslab")
        self._guest.sh(f"echo Y > {self._where}/cache-filter")
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the failures and counts them."""
        super().__exit__(*error)
        self._guest.sh(f"echo N > {self._where}/cache-filter")

    def _callers(self) -> tuple[int, int]:
        after = "grep -A 1 ' krealloc_node_align_noprof$' /proc/kallsyms"
        first, last = (int(line.split()[0], 16) for line in self._guest.sh(after).splitlines())
        return first, last
