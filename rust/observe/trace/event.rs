// SPDX-License-Identifier: GPL-2.0

//! The macro behind all trace functions.
//!
//! `kernel::declare_trace!` cannot be used, since it looks events up in the bindings of the
//! `kernel` crate. This one looks in `crate::raw`, and yields safe functions.

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
/// The expressions are evaluated only while the event is enabled. They stand in the order of the
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
        pub(crate) fn $name($($arg: $ty),*) {
            #[cfg(CONFIG_TRACEPOINTS)]
            {
                // SAFETY: The static is a tracepoint that C defined; its static key may be
                // read at any time.
                let enabled = unsafe {
                    kernel::macros::paste! {
                        kernel::jump_label::static_branch_unlikely!(
                            $crate::raw::[<__tracepoint_ $event>],
                            kernel::bindings::tracepoint,
                            key
                        )
                    }
                };
                if enabled {
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
