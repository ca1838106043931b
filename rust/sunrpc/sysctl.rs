// SPDX-License-Identifier: GPL-2.0

//! Settings and counters of transports: files in a directory of `/proc/sys`.
//!
//! A [`Knob`] is a number to set, a [`Choice`] a word to set, and a [`Counter`] counts events. They
//! are statics that all code may use; [`Registration`] shows some of them to the administrator.
//! Writing a value out of range to a setting fails with `EINVAL` and changes nothing. Writing
//! anything to a counter sets it to zero.
//!
//! C header: [`include/linux/sysctl.h`](srctree/include/linux/sysctl.h)

use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::sync::atomic::{Atomic, Relaxed};

use crate::raw;

mod choice;
mod counter;
mod line;

pub(crate) use choice::Choice;
pub(crate) use counter::Counter;

/// A file in the directory of a [`Registration`].
pub(crate) enum Entry {
    /// A setting.
    Knob(&'static Knob),
    /// A setting that is a word.
    Choice(&'static Choice),
    /// A counter.
    Counter(&'static Counter),
}

impl Entry {
    /// Returns the C description.
    fn table(&self) -> k::ctl_table {
        match self {
            Self::Knob(knob) => knob.table(),
            Self::Choice(choice) => choice.table(),
            Self::Counter(counter) => counter.table(),
        }
    }
}

/// An integer with a name, a default and a range.
pub(crate) struct Knob {
    value: Atomic<i32>,
    name: &'static CStr,
    min: i32,
    max: i32,
}

impl Knob {
    /// Creates a setting called `name` with the value `default` and the range `min..=max`.
    pub(crate) const fn new(name: &'static CStr, default: i32, min: i32, max: i32) -> Self {
        assert!(min <= default && default <= max);
        Self {
            value: Atomic::new(default),
            name,
            min,
            max,
        }
    }

    /// Returns the current value, at least zero. It may change at any time: code that needs the
    /// same value twice must read it once.
    pub(crate) fn get(&self) -> u32 {
        u32::try_from(self.value.load(Relaxed)).unwrap_or(0)
    }

    /// Returns the C description.
    fn table(&'static self) -> k::ctl_table {
        k::ctl_table {
            procname: self.name.as_char_ptr(),
            data: self.value.as_ptr().cast(),
            maxlen: size_of::<i32>() as i32,
            mode: 0o644,
            proc_handler: Some(raw::proc_dointvec_minmax),
            // `proc_dointvec_minmax` only reads the limits.
            extra1: (&raw const self.min).cast_mut().cast(),
            extra2: (&raw const self.max).cast_mut().cast(),
            ..pin_init::zeroed()
        }
    }
}

/// The registration of files. Dropping it waits for threads that are reading or writing one.
///
/// # Invariants
///
/// `header` is that of a registered table, whose entries are `table`.
pub(crate) struct Registration {
    header: NonNull<k::ctl_table_header>,
    _table: KVec<k::ctl_table>,
}

// SAFETY: Any thread may unregister the table, which is the only operation.
unsafe impl Send for Registration {}
// SAFETY: No operation takes a shared reference.
unsafe impl Sync for Registration {}

impl Registration {
    /// Registers `entries` in the directory `path` below `/proc/sys`, which is created if there is
    /// none. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if one of the names exists already.
    pub(crate) fn new(path: &'static CStr, entries: &[Entry]) -> Result<Self> {
        let mut table = KVec::with_capacity(entries.len(), GFP_KERNEL)?;
        for entry in entries {
            table.push(entry.table(), GFP_KERNEL)?;
        }
        // SAFETY: The path ends in a NUL, and the table has `table.len()` entries. They refer to
        // statics of this module, and are neither moved nor freed before the table is unregistered.
        let header =
            unsafe { raw::register_sysctl_sz(path.as_char_ptr(), table.as_ptr(), table.len()) };
        // INVARIANT: `register_sysctl_sz` returned the header for `table`.
        Ok(Self {
            header: NonNull::new(header).ok_or(ENOMEM)?,
            _table: table,
        })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the header is registered. The call waits for users of the
        // table, which is freed after it.
        unsafe { raw::unregister_sysctl_table(self.header.as_ptr()) };
    }
}
