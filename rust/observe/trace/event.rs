// SPDX-License-Identifier: GPL-2.0

//! The macros that define trace functions.
//!
//! `kernel::declare_trace!` cannot be used, because it looks events up in the bindings of the
//! `kernel` crate. These macros look them up in `crate::raw`, and define safe functions.

/// Returns whether a tracepoint is enabled. This is a jump that the kernel patches, or a load
/// without `CONFIG_JUMP_LABEL`, as in C, where `kernel::jump_label` would call a function.
macro_rules! event_enabled {
    ($tracepoint:path) => {{
        #[cfg(all(CONFIG_TRACEPOINTS, CONFIG_JUMP_LABEL))]
        {
            // SAFETY: The static is a tracepoint that C defines, and its key is a static key.
            unsafe {
                kernel::jump_label::static_branch_unlikely!(
                    $tracepoint,
                    kernel::bindings::tracepoint,
                    key
                )
            }
        }
        #[cfg(all(CONFIG_TRACEPOINTS, not(CONFIG_JUMP_LABEL)))]
        {
            // SAFETY: The static is a tracepoint that C defines; the counter of its key is a valid,
            // aligned `int`. It may change at any time, so the read is volatile, as in
            // `atomic_read()`.
            unsafe { core::ptr::read_volatile(&raw const $tracepoint.key.key.enabled.counter) > 0 }
        }
        #[cfg(not(CONFIG_TRACEPOINTS))]
        {
            false
        }
    }};
}

/// Emits an event. The parameters in the brackets are complete.
macro_rules! emit_event {
    ($event:ident [$($done:tt)*] task($task:expr), $($rest:tt)*) => {
        emit_event!($event [
            $($done)* (task_id, $task.task_id) (client_id, $task.client_id)
        ] $($rest)*)
    };
    ($event:ident [$($done:tt)*] peer($peer:expr), $($rest:tt)*) => {
        emit_event!($event [$($done)* (addr, $peer.addr) (port, $peer.port)] $($rest)*)
    };
    ($event:ident [$($done:tt)*] cid($cid:expr), $($rest:tt)*) => {
        emit_event!($event [
            $($done)* (cq_id, $cid.cq_id) (completion_id, $cid.completion_id as i32)
        ] $($rest)*)
    };
    ($event:ident [$($done:tt)*] segment($segment:expr), $($rest:tt)*) => {
        emit_event!($event [
            $($done)* (handle, $segment.handle) (length, $segment.length) (offset, $segment.offset)
        ] $($rest)*)
    };
    ($event:ident [$($done:tt)*] $param:ident: $value:expr, $($rest:tt)*) => {
        emit_event!($event [$($done)* ($param, $value)] $($rest)*)
    };
    ($event:ident [$(($param:ident, $value:expr))*]) => {
        $(let $param = $value;)*
        kernel::macros::paste! {
            // SAFETY: The event copies its arguments before it returns. `Field` gives plain values,
            // or pointers into the locals above: a NUL-terminated string for a `const char *`, an
            // address of `RPCRDMA_TRACE_ADDR_LEN` bytes for a `const void *`.
            unsafe {
                $crate::raw::[<rust_do_trace_ $event>](
                    $($crate::observe::trace::Field::to_c(&$param)),*
                )
            };
        }
    };
}

/// Defines safe functions that emit trace events.
///
/// ```text
/// events! {
///     /// Traces that something has happened.
///     fn name(rust: Type, arguments: Type) => c_event_name {
///         c_parameter: expression,
///         task(expression),
///     }
/// }
///
/// events! {
///     class(arguments: Type) {
///         c_parameter: expression,
///     }
///
///     /// Traces that something else has happened.
///     fn name => c_event_name;
/// }
/// ```
///
/// The events after a `class` all have its arguments and parameters, as those of a
/// `DECLARE_EVENT_CLASS`.
///
/// `task`, `peer` and `cid` stand for the parameters that `RPCRDMA_TASK_PROTO`,
/// `RPCRDMA_PEER_PROTO` and `RPCRDMA_CID_PROTO` of the C header declare. `segment` stands for
/// handle, length and offset.
///
/// An argument may be a [`Lazy`](super::Lazy) that returns a value of the type. It is evaluated,
/// like the expressions, only while the event is enabled. The expressions are in the order of the
/// event's `TP_PROTO`, and have types that implement `Field`. The compiler compares their number
/// and types with the prototype that bindgen has generated.
macro_rules! events {
    (class $args:tt $params:tt $($(#[$attr:meta])* fn $name:ident => $event:ident;)*) => {$(
        events! {
            $(#[$attr])*
            fn $name $args => $event $params
        }
    )*};
    ($(
        $(#[$attr:meta])*
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) => $event:ident { $($params:tt)* }
    )*) => {$(
        $(#[$attr])*
        #[inline(always)]
        #[allow(clippy::redundant_locals, reason = "a parameter may have the name of an argument")]
        #[allow(clippy::extra_unused_lifetimes, reason = "not every event borrows something")]
        pub(crate) fn $name<'a>($($arg: impl $crate::observe::trace::Source<$ty>),*) {
            #[cfg(CONFIG_TRACEPOINTS)]
            {
                let enabled = kernel::macros::paste! {
                    event_enabled!($crate::raw::[<__tracepoint_ $event>])
                };
                if enabled {
                    $(let $arg: $ty = $crate::observe::trace::Source::get($arg);)*
                    emit_event!($event [] $($params)*);
                }
            }
            #[cfg(not(CONFIG_TRACEPOINTS))]
            {
                $(let _ = $arg;)*
            }
        }
    )*};
}
