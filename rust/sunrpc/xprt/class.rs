// SPDX-License-Identifier: GPL-2.0

//! Transport classes: registration of a transport with SUNRPC.

use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::pin::Pin;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::ffi::{c_char, c_void};
use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::sync::atomic::{Acquire, Atomic, Full, Release};
use kernel::ThisModule;

use super::transport::Transport;
use crate::raw;
use crate::work::Queue;

/// Registered classes of this module. The `setup` hook has no parameter for its class, so the hook
/// finds the class here.
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
/// The class does not move, and stays alive from `register` until no transport of it exists and
/// none can be created.
pub(super) struct Class {
    raw: UnsafeCell<RawClass>,
    module: *mut k::module,
    /// The `T::Context` of the transport `T` of this class; lives as long as the class.
    context: NonNull<c_void>,
    /// For [`super::connect`], if the transports connect. It has a rescuer, because writeback may
    /// wait for a connection.
    connect: Option<Queue>,
    /// For [`super::setup`]. It has no rescuer, because its work flushes work of a system queue
    /// that has none.
    destroy: Queue,
}

// SAFETY: SUNRPC owns `raw` after registration and accesses it under a lock of its own. The other
// fields are constant, and workqueues may be used from any thread.
unsafe impl Send for Class {}
// SAFETY: SUNRPC accesses `raw` under a lock of its own; Rust code reads only its constant ident.
// The other fields are constant, and workqueues may be used from any thread.
unsafe impl Sync for Class {}

impl Class {
    pub(super) fn as_raw(&self) -> *mut raw::xprt_class {
        self.raw.get().cast()
    }

    /// Returns the queue for connecting; null if the transports of the class do not connect.
    pub(super) fn connect_queue(&self) -> *mut k::workqueue_struct {
        let queue = self.connect.as_ref();
        queue.map_or(core::ptr::null_mut(), Queue::as_ptr)
    }

    pub(super) fn destroy_queue(&self) -> *mut k::workqueue_struct {
        self.destroy.as_ptr()
    }

    pub(super) fn module(&self) -> *mut k::module {
        self.module
    }

    /// Returns the value that is passed to [`Transport::new`].
    ///
    /// # Safety
    ///
    /// The class was registered for `T`.
    pub(super) unsafe fn context<T: Transport>(&self) -> &T::Context {
        // SAFETY: `register` stored a pointer to the `T::Context`, and the safety requirements say
        // that the class was registered for `T`. By the type invariants it is alive.
        unsafe { self.context.cast().as_ref() }
    }

    /// Returns the registered class with `ident`.
    pub(super) fn find(ident: i32) -> Option<&'static Self> {
        REGISTERED.iter().find_map(|entry| {
            let class = NonNull::new(entry.load(Acquire))?;
            // SAFETY: By the type invariants a registered class is alive while a transport of it
            // exists or can be created, which the caller is about to do. The ident is constant.
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

/// Registers `T` with SUNRPC. May sleep.
///
/// Transports may be created before this returns. The value must not be dropped before the module
/// is unloaded; every transport holds a reference to the module. A module whose initialisation
/// fails is freed even if transports refer to it: after this function has succeeded, initialisation
/// must not fail unless [`ClassRegistration::retract`] permits it.
///
/// # Errors
///
/// `EBUSY` if another module provides a transport with the same ident; `EINVAL` if the class's name
/// is too long; `ENOMEM`; `ENOSPC` if this module has too many classes.
///
/// # Safety
///
/// `T` gives the guarantees of [`Transport`], section "Memory".
///
/// # Examples
///
/// ```ignore
/// let refuse = compat::parameter!(refuse) != 0;
/// // SAFETY: The transport never uses the address of an RPC's memory.
/// let class = unsafe { class::register::<Null>(module, refuse) }?;
/// Ok(Self { _class: class })
/// ```
pub(crate) unsafe fn register<T: Transport>(
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
            connect: T::HAS_CONNECT
                .then(|| Queue::reliable(c"rpcrdma", c"connect"))
                .transpose()?,
            destroy: Queue::new(c"rpcrdma", c"destroy")?,
        },
        GFP_KERNEL,
    )?;
    // The pointer is only used for reading.
    let entry = core::ptr::from_ref(&*class).cast_mut();
    Class::enter(entry)?;
    let registration = ClassRegistration {
        class,
        _context: context,
    };
    // SAFETY: The class is complete, pinned and lives until it is unregistered.
    let rc = unsafe { raw::xprt_register_transport(registration.class.as_raw()) };
    super::super::registered(rc, "RPC transport", T::NAME)?;
    Ok(registration)
}

/// Returns the C structure for `T`.
fn raw_class<T: Transport>(module: &'static ThisModule) -> RawClass {
    // Mounts find the class by these.
    let [netid4, netid6] = if T::HAS_CONNECT {
        T::NETIDS
    } else {
        [c"", c""]
    };
    let mut name = [0; 32];
    crate::text::copy(&mut name, T::NAME.to_bytes());
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
    /// The target of `Class::context`.
    _context: KBox<T::Context>,
}

impl<T: Transport> ClassRegistration<T> {
    /// Unregisters the class while the module is being initialised, so that the initialisation may
    /// fail. Returns the registration if a transport exists or is being created: the module must
    /// then stay loaded, and keep the registration until it is unloaded. May sleep.
    pub(crate) fn retract(self) -> Option<Self> {
        self.unregister();
        // SUNRPC took a reference to the module before it called `setup`, under the lock that
        // protects its list of classes. A module that is being initialised has one reference.
        // SAFETY: The pointer is that of this module.
        let references = unsafe { k::module_refcount(self.class.module()) };
        (references > 1).then_some(self)
    }

    /// Unregisters the class, after which no transport of it is created. Has no effect on a class
    /// that is not registered.
    fn unregister(&self) {
        // SAFETY: The class is valid.
        unsafe { raw::xprt_unregister_transport(self.class.as_raw()) };
    }
}

impl<T: Transport> Drop for ClassRegistration<T> {
    fn drop(&mut self) {
        self.unregister();
        // The thread that put the last reference to a transport may still be returning through
        // `backchannel::free`.
        // SAFETY: No transport of the class exists: each holds a reference to the module, which is
        // being unloaded, or whose initialisation failed before it had a transport. This function
        // may sleep.
        unsafe { raw::rr_synchronize_rcu_tasks() };
        Class::leave(core::ptr::from_ref(&*self.class).cast_mut());
        // Dropping `class` destroys the queues, which waits until the last destroy worker has
        // returned.
    }
}
