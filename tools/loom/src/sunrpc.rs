// SPDX-License-Identifier: GPL-2.0

//! The steps of SUNRPC's server that meet lock-free parts of the module, with its barriers.
//!
//! C source: `net/sunrpc/svc_xprt.c`.

use kernel::sync::atomic::{Atomic, Relaxed};
use loom::sync::atomic::{fence, Ordering};

/// A thread works on the transport, or a thread will.
pub(crate) const XPT_BUSY: u32 = 0;
/// There is a call.
pub(crate) const XPT_DATA: u32 = 3;
/// The transport was deleted.
pub(crate) const XPT_DEAD: u32 = 5;

/// `struct svc_xprt`.
pub(crate) struct svc_xprt {
    pub(crate) xpt_flags: Atomic<usize>,
    pub(crate) xpt_bc_xprt: Atomic<*mut rpc_xprt>,
    has_room: Box<dyn Fn() -> bool>,
}

/// `struct rpc_xprt`: how often it was closed.
pub(crate) struct rpc_xprt {
    pub(crate) closed: Atomic<u32>,
}

impl svc_xprt {
    /// Makes a transport. `has_room` is `xpo_has_wspace`.
    pub(crate) fn new(flags: usize, has_room: impl Fn() -> bool + 'static) -> *mut Self {
        let xprt = Box::new(Self {
            xpt_flags: Atomic::new(flags),
            xpt_bc_xprt: Atomic::new(std::ptr::null_mut()),
            has_room: Box::new(has_room),
        });
        xprt.xpt_flags.settle();
        xprt.xpt_bc_xprt.settle();
        Box::into_raw(xprt)
    }
}

/// Returns the transport, which no model frees.
fn of<'a>(xprt: *mut svc_xprt) -> &'a svc_xprt {
    // SAFETY: `svc_xprt::new` made the transport.
    unsafe { &*xprt }
}

fn test(xprt: *mut svc_xprt, bit: u32) -> bool {
    of(xprt).xpt_flags.load(Relaxed) & 1 << bit != 0
}

/// `test_and_set_bit()`: a full barrier on both sides.
fn test_and_set(xprt: *mut svc_xprt, bit: u32) -> bool {
    fence(Ordering::SeqCst);
    let before = of(xprt).xpt_flags.fetch_or(1 << bit);
    fence(Ordering::SeqCst);
    before & 1 << bit != 0
}

/// Returns whether a thread works on the transport, or a thread will.
pub(crate) fn is_busy(xprt: *mut svc_xprt) -> bool {
    test(xprt, XPT_BUSY)
}

/// Enqueues a transport that is not busy, and has a call and room.
///
/// # Safety
///
/// `svc_xprt::new` made the transport.
pub(crate) unsafe fn svc_xprt_enqueue(xprt: *mut svc_xprt) {
    // smp_rmb()
    fence(Ordering::Acquire);
    let flags = of(xprt).xpt_flags.load(Relaxed);
    let ready = flags & 1 << XPT_BUSY == 0 && flags & 1 << XPT_DATA != 0 && (of(xprt).has_room)();
    if ready {
        test_and_set(xprt, XPT_BUSY);
    }
}

/// Ends the busy state.
pub(crate) fn svc_xprt_received(xprt: *mut svc_xprt) {
    // smp_mb__before_atomic()
    fence(Ordering::SeqCst);
    of(xprt).xpt_flags.fetch_and(!(1 << XPT_BUSY));
    if test(xprt, XPT_DATA) {
        // SAFETY: `svc_xprt::new` made the transport.
        unsafe { svc_xprt_enqueue(xprt) };
    }
}

/// Returns whether the transport was deleted, or will be.
///
/// # Safety
///
/// `svc_xprt::new` made the transport.
pub(crate) unsafe fn rr_svc_xprt_is_dead(xprt: *mut svc_xprt) -> bool {
    test(xprt, XPT_DEAD)
}

/// Deletes a transport: marks it, and closes the client transport that calls over it.
pub(crate) fn svc_delete_xprt(xprt: *mut svc_xprt) {
    test_and_set(xprt, XPT_DEAD);
    let client = of(xprt).xpt_bc_xprt.load(Relaxed);
    if !client.is_null() {
        // SAFETY: A client transport of a model is not freed.
        unsafe { &*client }.closed.add(1, Relaxed);
    }
}
