// SPDX-License-Identifier: GPL-2.0

//! Allocations that may not wait for a file system: it may be waiting for us.
//!
//! Drivers allocate to change, drain and destroy what there is, too, so each end of an object enters
//! the scope, whoever lets go of it last.

use crate::raw as bindings;

/// A scope in which this task's allocations do not start I/O.
pub(super) struct NoIo(u32);

impl NoIo {
    /// Until the value is dropped, in the same function.
    pub(super) fn enter() -> Self {
        // SAFETY: Undone by `drop`, in the same function and so in the same task.
        Self(unsafe { bindings::rr_memalloc_noio_save() })
    }
}

impl Drop for NoIo {
    fn drop(&mut self) {
        // SAFETY: The flags that were saved.
        unsafe { bindings::rr_memalloc_noio_restore(self.0) };
    }
}
