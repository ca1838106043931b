// SPDX-License-Identifier: GPL-2.0

//! Tunables of transports: integers in `/proc/sys/sunrpc`.
//!
//! A [`Knob`] is a static that everybody may read; [`Registration`] shows some of them to the
//! administrator. What is out of range is refused with `EINVAL`, and the value stays.
//!
//! C header: [`include/linux/sysctl.h`](srctree/include/linux/sysctl.h)

use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::sync::atomic::{Atomic, Relaxed};

use crate::raw;

/// An integer with a name, a default and a range.
pub(crate) struct Knob {
    value: Atomic<i32>,
    name: &'static CStr,
    min: i32,
    max: i32,
}

impl Knob {
    /// A tunable called `name`, of value `default` within `min..=max`.
    pub(crate) const fn new(name: &'static CStr, default: i32, min: i32, max: i32) -> Self {
        assert!(min <= default && default <= max);
        Self {
            value: Atomic::new(default),
            name,
            min,
            max,
        }
    }

    /// The value now, at least zero. It may change at any time: read it once where two readings
    /// must agree.
    pub(crate) fn get(&self) -> u32 {
        u32::try_from(self.value.load(Relaxed)).unwrap_or(0)
    }

    /// The C description.
    fn entry(&'static self) -> k::ctl_table {
        k::ctl_table {
            procname: self.name.as_char_ptr(),
            data: self.value.as_ptr().cast(),
            maxlen: size_of::<i32>() as i32,
            mode: 0o644,
            proc_handler: Some(raw::proc_dointvec_minmax),
            // Only read through.
            extra1: (&raw const self.min).cast_mut().cast(),
            extra2: (&raw const self.max).cast_mut().cast(),
            ..pin_init::zeroed()
        }
    }
}

/// Keeps tunables visible. Dropping it waits for those who are just reading or writing one.
///
/// # Invariants
///
/// `header` is that of a registered table, whose entries are `table`.
pub(crate) struct Registration {
    header: NonNull<k::ctl_table_header>,
    _table: KVec<k::ctl_table>,
}

// SAFETY: The table may be unregistered by any thread; nothing else is done with it.
unsafe impl Send for Registration {}
// SAFETY: There is nothing to do with a shared reference.
unsafe impl Sync for Registration {}

impl Registration {
    /// Makes `knobs` visible in `/proc/sys/sunrpc`. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also when one of the names is taken.
    pub(crate) fn new(knobs: &'static [&'static Knob]) -> Result<Self> {
        let mut table = KVec::with_capacity(knobs.len(), GFP_KERNEL)?;
        for knob in knobs {
            table.push(knob.entry(), GFP_KERNEL)?;
        }
        // SAFETY: The path ends in a null byte, and the table has so many entries. They refer to
        // statics of this module, and stay where they are until the table is unregistered.
        let header = unsafe {
            raw::register_sysctl_sz(c"sunrpc".as_char_ptr(), table.as_ptr(), table.len())
        };
        // INVARIANT: Just registered.
        Ok(Self {
            header: NonNull::new(header).ok_or(ENOMEM)?,
            _table: table,
        })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. Waits for users of the table, which goes after that.
        unsafe { raw::unregister_sysctl_table(self.header.as_ptr()) };
    }
}
