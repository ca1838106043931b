// SPDX-License-Identifier: GPL-2.0

//! The macros behind all trace functions.
//!
//! `kernel::declare_trace!` cannot be used, since it looks events up in the bindings of the
//! `kernel` crate. These look in `crate::raw`, and yield safe functions.

/// Is this tracepoint enabled? A jump that the kernel patches; without `CONFIG_JUMP_LABEL` one
/// load, as in C, where `kernel::jump_label` would call a function.
macro_rules! event_enabled {
    ($tracepoint:path) => {{
        #[cfg(CONFIG_JUMP_LABEL)]
        {
            // SAFETY: The static is a tracepoint that C defined, with a real static key.
            unsafe {
                kernel::jump_label::static_branch_unlikely!(
                    $tracepoint,
                    kernel::bindings::tracepoint,
                    key
                )
            }
        }
        #[cfg(not(CONFIG_JUMP_LABEL))]
        {
            // SAFETY: The static is a tracepoint that C defined; the counter of its key is an
            // aligned `int`, which may change at any time: hence the volatile read, as
            // `atomic_read()` is.
            unsafe { core::ptr::read_volatile(&raw const $tracepoint.key.key.enabled.counter) > 0 }
        }
    }};
}

/// Defines safe functions that emit trace events.
///
/// ```text
/// events! {
///     /// What has happened.
///     fn name(rust: Type, arguments: Type) => c_event_name {
///         c_parameter: expression,
///     }
/// }
/// ```
///
/// An argument may be a [`Lazy`](super::Lazy) that yields the type. That, and the expressions, are
/// evaluated only while the event is enabled. The expressions stand in the order of the
/// event's `TP_PROTO`, and have types that implement `Field`; bindgen's prototype makes the
/// compiler compare number and types.
macro_rules! events {
    ($(
        $(#[$attr:meta])*
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) => $event:ident {
            $($param:ident: $value:expr),* $(,)?
        }
    )*) => {$(
        $(#[$attr])*
        #[inline(always)]
        #[allow(clippy::redundant_locals, reason = "some parameters are called like arguments")]
        #[allow(clippy::extra_unused_lifetimes, reason = "not every event borrows something")]
        pub(crate) fn $name<'a>($($arg: impl $crate::observe::trace::Source<$ty>),*) {
            #[cfg(CONFIG_TRACEPOINTS)]
            {
                let enabled = kernel::macros::paste! {
                    event_enabled!($crate::raw::[<__tracepoint_ $event>])
                };
                if enabled {
                    $(let $arg: $ty = $crate::observe::trace::Source::get($arg);)*
                    $(let $param = $value;)*
                    kernel::macros::paste! {
                        // SAFETY: The event copies what it is given before it returns. `Field`
                        // yields plain values, or pointers into the locals just above: a
                        // NUL-terminated string for a `const char *`, an address of the full
                        // length for a `const void *`.
                        unsafe {
                            $crate::raw::[<rust_do_trace_ $event>](
                                $($crate::observe::trace::Field::to_c(&$param)),*
                            )
                        };
                    }
                }
            }
            #[cfg(not(CONFIG_TRACEPOINTS))]
            {
                $(let _ = $arg;)*
            }
        }
    )*};
}
