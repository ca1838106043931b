// SPDX-License-Identifier: GPL-2.0

//! Allocation without I/O: a file system that the allocator would wait for may itself be waiting
//! for this connection.
//!
//! Drivers allocate memory when an object is changed, drained or destroyed, too. The last reference
//! to an object may be dropped in any task, so the code that ends an object enters the scope
//! itself.

use crate::raw as bindings;

/// A scope in which allocations of this task start no I/O. It ends when the value is dropped.
pub(super) struct NoIo(u32);

impl NoIo {
    /// Enters the scope. The value must be dropped in the function that calls this.
    pub(super) fn enter() -> Self {
        // SAFETY: The flags of the current task may be saved at any time. `drop` restores them in
        // the same function, and so in the same task.
        Self(unsafe { bindings::rr_memalloc_noio_save() })
    }
}

impl Drop for NoIo {
    fn drop(&mut self) {
        // SAFETY: `self.0` was returned by `memalloc_noio_save()` in this task.
        unsafe { bindings::rr_memalloc_noio_restore(self.0) };
    }
}
