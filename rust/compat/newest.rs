// SPDX-License-Identifier: GPL-2.0

//! Linux 7.3 and newer: the items of the kernel's own crates.

/// Converts a limit of a device as the verbs report it.
pub(crate) use core::convert::identity as limit;

pub(crate) use kernel::error::code;
pub(crate) use kernel::num::casts;
pub(crate) use kernel::prelude::module;
pub(crate) use kernel::sync::barrier;
pub(crate) use pin_init::{raw_init, raw_try_init};

/// Returns the module, for C structures that name their owner.
pub(crate) const fn this_module() -> *mut kernel::bindings::module {
    <crate::LocalModule as kernel::ModuleMetadata>::THIS_MODULE.as_ptr()
}

/// Returns the value of a parameter of the module.
macro_rules! parameter {
    ($name:ident) => {
        module_parameters::$name.value()
    };
}

pub(crate) use parameter;
