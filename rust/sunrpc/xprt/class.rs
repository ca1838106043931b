// SPDX-License-Identifier: GPL-2.0

//! Transport classes: how SUNRPC learns of a transport.

use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::pin::Pin;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::error::to_result;
use kernel::ffi::{c_char, c_void};
use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::sync::atomic::{Acquire, Atomic, Full, Release};
use kernel::ThisModule;

use super::transport::{Rpc, Transport};
use crate::raw;
use crate::work::Queue;

/// Registered classes of this module. SUNRPC's `setup` hook is not told which class it is called
/// for, so it looks here.
static REGISTERED: [Atomic<*mut Class>; 4] = [const { Atomic::new(core::ptr::null_mut()) }; 4];

/// `struct xprt_class` with its netids: the C structure ends in an array of them.
#[repr(C)]
struct RawClass {
    base: raw::xprt_class,
    /// An empty string ends the list.
    netids: [*const c_char; 3],
}

const _: () = assert!(offset_of!(RawClass, netids) == offset_of!(raw::xprt_class, netid));

/// A registered class.
///
/// # Invariants
///
/// Stays where it is, and alive, from `register` until no transport of the class exists and none
/// can be made.
pub(super) struct Class {
    raw: UnsafeCell<RawClass>,
    module: *mut k::module,
    /// The `T::Context` of the transport whose class this is; lives as long as the class.
    context: NonNull<c_void>,
    /// For [`super::connect`]: with a rescuer, as writeback may wait for a connection.
    connect: Queue,
    /// For [`super::setup`]: without one, as it flushes work of a system queue that has none.
    destroy: Queue,
}

// SAFETY: After registration `raw` belongs to SUNRPC, which has a lock for it; the rest is constant,
// and work queues may be used from any thread.
unsafe impl Send for Class {}
// SAFETY: As above.
unsafe impl Sync for Class {}

impl Class {
    pub(super) fn as_raw(&self) -> *mut raw::xprt_class {
        self.raw.get().cast()
    }

    pub(super) fn connect_queue(&self) -> *mut k::workqueue_struct {
        self.connect.as_ptr()
    }

    pub(super) fn destroy_queue(&self) -> *mut k::workqueue_struct {
        self.destroy.as_ptr()
    }

    pub(super) fn module(&self) -> *mut k::module {
        self.module
    }

    /// What transports of the class are given when they are made.
    ///
    /// # Safety
    ///
    /// The class was registered for `T`.
    pub(super) unsafe fn context<T: Transport>(&self) -> &T::Context {
        // SAFETY: By the safety requirements and the type invariants.
        unsafe { self.context.cast().as_ref() }
    }

    /// The registered class with `ident`.
    pub(super) fn find(ident: i32) -> Option<&'static Self> {
        REGISTERED.iter().find_map(|entry| {
            let class = NonNull::new(entry.load(Acquire))?;
            // SAFETY: By the type invariants: the caller is about to make a transport of a class, or
            // has one. The ident is constant.
            let (class, found) = unsafe {
                let class = class.as_ref();
                (class, (*class.as_raw()).ident)
            };
            (found == ident).then_some(class)
        })
    }

    fn enter(class: *mut Self) -> Result {
        REGISTERED
            .iter()
            .any(|entry| entry.cmpxchg(core::ptr::null_mut(), class, Full).is_ok())
            .then_some(())
            .ok_or(ENOSPC)
    }

    fn leave(class: *mut Self) {
        for entry in &REGISTERED {
            if entry.load(Acquire) == class {
                entry.store(core::ptr::null_mut(), Release);
            }
        }
    }
}

/// Makes `T` known to SUNRPC. May sleep.
///
/// To be done last when a module starts: transports may be created before this returns. The value is
/// to be dropped only when the module is unloaded; every transport holds a reference to the module.
///
/// # Errors
///
/// `EBUSY` if another module provides a transport with the same ident; `EINVAL` if the class's name
/// is too long; `ENOMEM`; `ENOSPC` if this module has too many classes.
///
/// # Safety
///
/// `T` keeps what [`Rpc`] promises about memory.
pub(crate) unsafe fn register<T: Rpc>(
    module: &'static ThisModule,
    context: T::Context,
) -> Result<ClassRegistration<T>> {
    const {
        assert!(align_of::<super::Xprt<T>>() <= align_of::<u64>());
        assert!(!T::NAME.is_empty() && T::NAME.count_bytes() < 32);
    };
    let context = KBox::new(context, GFP_KERNEL)?;
    let class = KBox::pin(
        Class {
            raw: UnsafeCell::new(raw_class::<T>(module)),
            module: module.as_ptr(),
            context: NonNull::from(&*context).cast(),
            connect: Queue::reliable(c"rpcrdma", c"connect")?,
            destroy: Queue::new(c"rpcrdma", c"destroy")?,
        },
        GFP_KERNEL,
    )?;
    // Never written through.
    let entry = core::ptr::from_ref(&*class).cast_mut();
    Class::enter(entry)?;
    let registration = ClassRegistration {
        class,
        _context: context,
    };
    // SAFETY: The class is complete, pinned and lives until it is unregistered.
    match unsafe { raw::xprt_register_transport(registration.class.as_raw()) } {
        0 => Ok(registration),
        rc if rc == EEXIST.to_errno() => {
            pr_err!(
                "RPC transport {} is there already: unload the module that provides it first\n",
                T::NAME
            );
            // insmod takes EEXIST for "this module is loaded".
            Err(EBUSY)
        }
        rc => to_result(rc).and(Err(EINVAL)),
    }
}

/// The C structure for `T`.
fn raw_class<T: Rpc>(module: &'static ThisModule) -> RawClass {
    let [netid4, netid6] = T::NETIDS;
    let mut name = [0; 32];
    for (to, from) in name.iter_mut().zip(T::NAME.to_bytes()) {
        *to = *from;
    }
    RawClass {
        base: raw::xprt_class {
            ident: T::IDENT,
            setup: Some(super::setup::setup::<T>),
            owner: module.as_ptr(),
            name,
            ..Default::default()
        },
        netids: [
            netid4.as_char_ptr(),
            netid6.as_char_ptr(),
            c"".as_char_ptr(),
        ],
    }
}

/// Keeps a class registered.
///
/// # Invariants
///
/// `class` is in [`REGISTERED`].
pub(crate) struct ClassRegistration<T: Transport> {
    class: Pin<KBox<Class>>,
    /// Referred to by `class`.
    _context: KBox<T::Context>,
}

impl<T: Transport> Drop for ClassRegistration<T> {
    fn drop(&mut self) {
        // SAFETY: The class is valid; that it is unknown (registering failed) does no harm. No
        // transport of it exists: each holds a reference to the module, which is being unloaded. We
        // may sleep.
        unsafe {
            raw::xprt_unregister_transport(self.class.as_raw());
            // Whoever gave up the last reference to a transport may still be returning from it through
            // our code, see `setup`.
            raw::rr_synchronize_rcu_tasks();
        }
        Class::leave(core::ptr::from_ref(&*self.class).cast_mut());
        // The queues go with `class`: the last destroy worker may still be returning.
    }
}
