// SPDX-License-Identifier: GPL-2.0

//! Items that Linux 7.2 lacks, under the names and with the signatures of Linux 7.3.

use kernel::ffi::c_int;
use pin_init::PinInit;

/// Error codes.
pub(crate) mod code {
    use core::mem::transmute;
    use core::num::NonZeroI32;

    use kernel::bindings;
    pub(crate) use kernel::error::code::*;
    use kernel::error::Error;

    macro_rules! declare {
        ($($name:ident)*) => {
            $(#[allow(dead_code, reason = "for the sample rdma_ping")]
            pub(crate) const $name: Error = error(bindings::$name);)*
        };
    }

    declare! {
        EADDRINUSE EADDRNOTAVAIL EAFNOSUPPORT ECONNREFUSED EHOSTUNREACH EILSEQ
        ENETUNREACH ENOBUFS ENOTCONN EOPNOTSUPP EPROTO
    }

    /// Makes an error from a number of `errno.h`. The crate has no such function for constants.
    const fn error(number: u32) -> Error {
        assert!(number <= bindings::MAX_ERRNO);
        // CAST: `MAX_ERRNO` is 4095.
        match NonZeroI32::new(-(number as i32)) {
            // SAFETY: The only field of `Error` is a `NonZeroI32`, as the assertion below shows. By
            // the assertion above it may hold the number.
            Some(negative) => unsafe { transmute::<NonZeroI32, Error>(negative) },
            None => EINVAL,
        }
    }

    const _: () = assert!(matches!(error(bindings::EINVAL), EINVAL));
}

/// Lossless conversions.
pub(crate) mod casts {
    /// Converts without loss: `usize` has at least 32 bits.
    #[inline]
    pub(crate) const fn u32_as_usize(value: u32) -> usize {
        // CAST: on all supported machines.
        value as usize
    }

    /// Converts without loss: `usize` has at most 64 bits.
    #[inline]
    pub(crate) const fn usize_as_u64(value: usize) -> u64 {
        // CAST: on all supported machines.
        value as u64
    }
}

/// Memory barriers.
pub(crate) mod barrier {
    use kernel::sync::atomic::Full;

    /// A full barrier between processors.
    #[inline(always)]
    pub(crate) fn smp_mb(_: Full) {
        kernel::sync::barrier::smp_mb();
    }
}

/// Initialises `slot`.
///
/// # Safety
///
/// `slot` is valid for writes of a `T`, and is not moved until the value is dropped.
#[inline(always)]
pub(crate) unsafe fn raw_init<T>(slot: *mut T, init: impl PinInit<T>) {
    // SAFETY: By the safety requirements.
    let Ok(()) = unsafe { init.__pinned_init(slot) };
}

/// Initialises `slot`.
///
/// # Errors
///
/// The errors of `init`. `slot` is not initialised after an error.
///
/// # Safety
///
/// As for [`raw_init`].
#[inline(always)]
pub(crate) unsafe fn raw_try_init<T, E>(slot: *mut T, init: impl PinInit<T, E>) -> Result<(), E> {
    // SAFETY: By the safety requirements.
    unsafe { init.__pinned_init(slot) }
}

/// Returns the module, for C structures that name their owner.
pub(crate) const fn this_module() -> *mut kernel::bindings::module {
    crate::THIS_MODULE.as_ptr()
}

/// Returns a limit of a device. The verbs of 7.2 declare it as signed.
pub(crate) fn limit(limit: c_int) -> u32 {
    u32::try_from(limit).unwrap_or(0)
}

/// Declares the module without its parameters, which are all of type bool: `module!` does not
/// support this type, and `glue/compat.c` defines them.
macro_rules! module {
    (@keep { $($kept:tt)* } params: $params:tt,) => {
        kernel::prelude::module! { $($kept)* }
    };
    (@keep { $($kept:tt)* } $key:ident: $value:tt, $($rest:tt)*) => {
        $crate::compat::module! { @keep { $($kept)* $key: $value, } $($rest)* }
    };
    ($($key:ident: $value:tt,)*) => {
        $crate::compat::module! { @keep {} $($key: $value,)* }
    };
}

/// Returns the value of a parameter of the module.
macro_rules! parameter {
    (completion_workqueue) => {
        // SAFETY: The parameter does not change after the module is loaded.
        unsafe { $crate::raw::rr_completion_workqueue }
    };
    ($name:ident) => {
        *module_parameters::$name.value()
    };
}

pub(crate) use {module, parameter};
