// SPDX-License-Identifier: GPL-2.0

//! Allocation scopes of a task, which `kernel::alloc` lacks in Linux 7.3.
//!
//! The allocator may wait for a file system that itself waits for a connection. All work that the
//! file system may wait for therefore allocates within such a scope. Drivers also allocate while an
//! object is changed, drained or destroyed, and any task may drop the last reference to an object,
//! so the code that destroys an object enters the scope itself.
//!
//! C header: [`include/linux/sched/mm.h`](srctree/include/linux/sched/mm.h)

use kernel::bindings::{PF_MEMALLOC_NOFS, PF_MEMALLOC_NOIO};
use kernel::types::NotThreadSafe;

use crate::raw;

/// A scope that restricts the allocations of the task, until the value is dropped. Scopes of one
/// kind end in the reverse order of their beginning.
#[must_use = "the scope ends when the value is dropped"]
pub(crate) struct MemallocScope {
    /// The flag of the task that this scope set, or 0 if an outer scope did.
    set: u32,
    _task: NotThreadSafe,
}

impl MemallocScope {
    /// Enters a scope in which allocations start no I/O (`memalloc_noio_save()`).
    pub(crate) fn noio() -> Self {
        Self::enter(PF_MEMALLOC_NOIO)
    }

    /// Enters a scope in which allocations do not recurse into a file system
    /// (`memalloc_nofs_save()`).
    pub(crate) fn nofs() -> Self {
        Self::enter(PF_MEMALLOC_NOFS)
    }

    fn enter(flag: u32) -> Self {
        Self {
            // SAFETY: The flag is one that a task may set for itself at any time.
            set: unsafe { raw::rr_memalloc_flags_save(flag) },
            _task: NotThreadSafe,
        }
    }
}

impl Drop for MemallocScope {
    fn drop(&mut self) {
        // SAFETY: `enter` set the flag, and in this task: the value cannot be sent to another.
        unsafe { raw::rr_memalloc_flags_restore(self.set) };
    }
}
