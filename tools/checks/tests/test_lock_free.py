# SPDX-License-Identifier: GPL-2.0
"""Tests the check of the page on lock-free places, also with places that differ."""

import unittest

from fixture import TreeTest

from checks import lock_free

SOURCE = """\
/// The registered queue.
pub(crate) static LATEST: Atomic<*mut Queue> = Atomic::new(core::ptr::null_mut());

pub(crate) struct Queue<T: Item> {
    /// The number of entries.
    len: Atomic<u32>,
    name: &'static CStr,
    pub(super) changed: AtomicFlag,
}

struct Count(Atomic<u64>);

impl<T: Item> Queue<T> {
    fn flags(&self) -> usize {
        // SAFETY: The queue exists. `len: Atomic<u8>,` is no field.
        let flags = unsafe { (&raw const (*self.as_raw()).q_flags).read_volatile() };
        smp_mb(Full);
        flags
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
mod tests {
    struct Seen {
        events: Atomic<u32>,
    }
}
"""
PAGE = """\
=======================  =================  =========
place                    meaning            model
=======================  =================  =========
``Queue::len``           entries: release,  ``queue``
                         acquire
``Queue::changed``       ``queue_lock``
``Count``                a counter
``room::queue::LATEST``  the queue
``q_flags``              bits
``smp_mb in flags``      a barrier
=======================  =================  =========
"""
FILE = "rust/room/queue.rs"
MODEL = f"{lock_free.MODELS}/queue.rs"
PARTS = "//< room/queue.rs\n//<   impl<T: Item> Queue<T> { flags }\n"


class LockFree(TreeTest):
    check = staticmethod(lock_free.check)

    def tree_of(self, source=SOURCE, page=PAGE, model=PARTS):
        return {FILE: source, lock_free.PAGE: page, MODEL: model}

    def test_same(self):
        self.passes(self.tree_of())

    def test_place_without_row(self):
        places = {"Queue::changed": 8, "Count": 11, "room::queue::LATEST": 2}
        for name, line in (places | {"q_flags": 16, "smp_mb in flags": 17}).items():
            rows = [row for row in PAGE.splitlines() if not row.startswith(f"``{name}``")]
            expected = (f"{FILE}:{line}", f"{name} is not in {lock_free.PAGE}")
            self.fails(self.tree_of(page="\n".join(rows)), expected)

    def test_new_place(self):
        source = SOURCE.replace("    name: &", "    head: UnsafeCell<u8>,\n    name: &")
        self.fails(self.tree_of(source), (f"{FILE}:7", "Queue::head is not in"))

    def test_row_without_place(self):
        source = SOURCE.replace("changed: AtomicFlag", "changed: bool")
        self.fails(self.tree_of(source), (f"{lock_free.PAGE}:6", "no place Queue::changed"))

    def test_row_without_model(self):
        page = PAGE.replace("a counter", "a counter          ``other``")
        self.fails(self.tree_of(page=page), (f"{lock_free.PAGE}:7", "there is no model other"))

    def test_model_of_another_file(self):
        model = PARTS.replace("room/queue.rs", "room/other.rs")
        expected = (f"{MODEL}:1", "takes nothing from the file of Queue::len")
        self.fails(self.tree_of(model=model), expected)

    def test_model_without_row(self):
        page = PAGE.replace("``queue``", "")
        self.fails(self.tree_of(page=page), (f"{MODEL}:1", f"is not in {lock_free.PAGE}"))


if __name__ == "__main__":
    unittest.main()
