// SPDX-License-Identifier: GPL-2.0

//! Calls in the backward direction: from the server to a callback service of this host.
//!
//! ```text
//! Transport                          here                      SUNRPC
//! ---------                          ----                      ------
//!                                    a pool of slots  ◄─────── bc_setup
//! a call arrives    ──────────────►  deliver  ───────────────► sv_cb_list
//!                                                              a thread of the service answers
//! send_backward     ◄──────────────  the same slot  ◄───────── send_request
//!                                    slot free again  ◄─────── bc_free_rqst
//! ```
//!
//! The pool is allocated when NFS sets the backward channel up, and stays until the transport goes.
//! Nothing is allocated for a call: its message is copied into the page of a free slot.
//!
//! # Lifetimes
//!
//! While a slot is in SUNRPC's hands it holds a reference to the transport: SUNRPC's
//! `xprt_enqueue_bc_request()` takes it, and [`free`] gives it back. That function does not ask
//! whether there was a reference left to take, and it may give the slot back at once if the service
//! has just ended. So [`deliver`](Xprt::deliver) holds a reference of its own, which is not there any
//! more when teardown has begun; then the call is refused. It is given back by a worker: the last one
//! must not be given back by whom teardown waits for, such as a completion handler.
//!
//! C header: [`include/linux/sunrpc/bc_xprt.h`](srctree/include/linux/sunrpc/bc_xprt.h)

use core::marker::{PhantomData, PhantomPinned};
use core::mem::offset_of;
use core::pin::Pin;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};
use kernel::types::Opaque;

use super::super::xdr_buf::XdrBuf;
use super::buffer::Memory;
use super::handle::{State, Xprt};
use super::transport::Transport;
use crate::raw;

/// Longest message of a call, in bytes.
pub(crate) const MAX_CALL: usize = PAGE_SIZE;

/// Why a call could not be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undelivered {
    /// No service is there.
    NotServed,
    /// All slots are in use.
    Busy,
    /// The message is longer than [`MAX_CALL`].
    TooLong,
}

/// What one call needs, from its arrival until its reply is on its way.
///
/// # Invariants
///
/// - `rqst` is the first field: a pointer to it is a pointer to the slot.
/// - While `busy` is set, `rqst` and the memory belong to whoever has set it, or to SUNRPC if they
///   were handed on; nobody else touches them.
/// - Both pieces of memory have [`MAX_CALL`] bytes.
#[repr(C)]
struct Slot {
    rqst: Opaque<raw::rpc_rqst>,
    busy: Atomic<bool>,
    /// The connection on which the call came, as [`Xprt::deliver`] was told.
    connection: Atomic<u32>,
    call: Memory,
    reply: Memory,
    _pin: PhantomPinned,
}

// SAFETY: SUNRPC uses an `rpc_rqst` from any thread; memory may be freed by any.
unsafe impl Send for Slot {}
// SAFETY: By the type invariants, who has set `busy` is alone.
unsafe impl Sync for Slot {}

impl Slot {
    /// May sleep.
    fn new() -> Result<Pin<KBox<Self>>> {
        KBox::pin(
            Self {
                rqst: Opaque::zeroed(),
                busy: Atomic::new(false),
                connection: Atomic::new(0),
                call: Memory::new(MAX_CALL, k::GFP_KERNEL | k::__GFP_ZERO)?,
                reply: Memory::new(MAX_CALL, k::GFP_KERNEL | k::__GFP_ZERO)?,
                _pin: PhantomPinned,
            },
            GFP_KERNEL,
        )
        .map_err(Into::into)
    }

    /// The slot that `rqst` is the first field of.
    ///
    /// # Safety
    ///
    /// `rqst` is embedded in a `Slot`, which outlives `'a`.
    unsafe fn from_rqst<'a>(rqst: NonNull<raw::rpc_rqst>) -> &'a Self {
        // SAFETY: By the safety requirements and the type invariants.
        unsafe { rqst.cast::<Self>().as_ref() }
    }

    /// Takes the slot, if nobody has it.
    fn take(&self) -> bool {
        self.busy.cmpxchg(false, true, Acquire).is_ok()
    }

    /// Puts a call into the slot: the request looks as `svc_process_bc()` wants it.
    ///
    /// # Safety
    ///
    /// The caller has taken the slot. `xprt` is a live transport; `message` is at most
    /// [`MAX_CALL`] bytes long.
    unsafe fn fill(&self, xprt: *mut raw::rpc_xprt, xid: u32, message: &[u8]) {
        let rqst = self.rqst.get();
        // SAFETY: By the safety requirements and the type invariants all of this is ours: the request,
        // for which zeroes are a valid value, and the memory, which has room for the message. (That is
        // a borrow of something else.)
        unsafe {
            rqst.write_bytes(0, 1);
            let call = self.call.start();
            core::ptr::copy_nonoverlapping(message.as_ptr(), call.as_ptr(), message.len());
            (*rqst).rq_xprt = xprt;
            (*rqst).rq_xid = xid.to_be();
            // Tells SUNRPC, and us, that this is no request of a task's.
            (*rqst).rq_bc_pa_state = 1 << raw::RPC_BC_PA_IN_USE;
            // CAST: No more than a page.
            let len = message.len() as u32;
            describe(&raw mut (*rqst).rq_rcv_buf, call, message.len());
            (*rqst).rq_rcv_buf.len = len;
            (*rqst).rq_private_buf.len = len;
            describe(&raw mut (*rqst).rq_snd_buf, self.reply.start(), MAX_CALL);
        }
    }
}

/// Makes `buf`, which is all zeroes, a message buffer with a head of `len` bytes at `start`.
///
/// # Safety
///
/// `buf` is the caller's.
unsafe fn describe(buf: *mut raw::xdr_buf, start: NonNull<u8>, len: usize) {
    // SAFETY: By the safety requirements.
    unsafe {
        (*buf).head[0].iov_base = start.as_ptr().cast();
        (*buf).head[0].iov_len = len;
        // CAST: A page at most.
        (*buf).buflen = len as u32;
    }
}

/// The slots of a transport.
pub(super) struct Pool(KVec<Pin<KBox<Slot>>>);

impl Pool {
    /// Allocates `count` slots. May sleep.
    fn new(count: u32) -> Result<Self> {
        // CAST: `usize` has at least 32 bits.
        let mut slots = KVec::with_capacity(count as usize, GFP_KERNEL)?;
        for _ in 0..count {
            slots.push(Slot::new()?, GFP_KERNEL)?;
        }
        Ok(Self(slots))
    }

    fn take(&self) -> Option<&Slot> {
        self.0.iter().map(|slot| &**slot).find(|slot| slot.take())
    }
}

/// Is this the request of a backward call? Otherwise it is embedded in a request slot.
///
/// # Safety
///
/// `rqst` is a live request.
#[inline]
pub(super) unsafe fn is_backward(rqst: *const raw::rpc_rqst) -> bool {
    // SAFETY: By the safety requirements; the bit does not change while the request lives.
    unsafe { (*rqst).rq_bc_pa_state & (1 << raw::RPC_BC_PA_IN_USE) != 0 }
}

/// SUNRPC lets go of a backward request. Any context that may give up a reference to a transport. If
/// that was the last one, the module may be on its way out before this has returned; unloading waits,
/// see [`setup`](super::setup).
///
/// # Safety
///
/// `rqst` was handed over by [`Xprt::deliver`], and is not used any more.
pub(super) unsafe fn free(rqst: NonNull<raw::rpc_rqst>) {
    // SAFETY: By the safety requirements. The slot is not touched after `busy` is cleared, and the
    // transport, with the slot, lives until its reference is given back; that is the one which SUNRPC
    // took when the request was enqueued.
    unsafe {
        let xprt = (*rqst.as_ptr()).rq_xprt;
        Slot::from_rqst(rqst).busy.store(false, Release);
        raw::xprt_put(xprt);
    }
}

/// The reply to a backward call, to be sent.
///
/// # Invariants
///
/// For `'a`: the pointer is that of a request handed over by [`Xprt::deliver`], with a task and an
/// encoded reply.
pub(crate) struct BackwardReply<'a> {
    rqst: NonNull<raw::rpc_rqst>,
    _lifetime: PhantomData<&'a raw::rpc_rqst>,
}

impl BackwardReply<'_> {
    /// Wraps `rqst`.
    ///
    /// # Safety
    ///
    /// The caller upholds the type invariants.
    pub(super) unsafe fn from_raw(rqst: NonNull<raw::rpc_rqst>) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            rqst,
            _lifetime: PhantomData,
        }
    }

    /// The call's XID, in host order.
    pub(crate) fn xid(&self) -> u32 {
        // SAFETY: By the type invariants.
        u32::from_be(unsafe { (*self.rqst.as_ptr()).rq_xid })
    }

    /// On which connection the call came, as [`Xprt::deliver`] was told.
    pub(crate) fn connection(&self) -> u32 {
        // SAFETY: By the type invariants the request is that of a slot.
        unsafe { Slot::from_rqst(self.rqst) }
            .connection
            .load(Relaxed)
    }

    /// Number of the task that sends the reply.
    pub(crate) fn task_id(&self) -> u32 {
        // SAFETY: By the type invariants there is a task.
        u32::from(unsafe { (*(*self.rqst.as_ptr()).rq_task).tk_pid })
    }

    /// The encoded reply.
    pub(crate) fn message(&self) -> XdrBuf<'_> {
        // SAFETY: By the type invariants; nobody changes it while it is being sent.
        unsafe { XdrBuf::from_raw(&raw mut (*self.rqst.as_ptr()).rq_snd_buf) }
    }
}

impl<T: Transport> Xprt<T> {
    /// Gets ready for calls of the peer: `bc_setup`. May be called again. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the transport.
    pub(super) fn set_up_backward(&self, wanted: u32) -> Result {
        let pool = &self.state().backward;
        if pool.as_ref().is_none() {
            // Somebody else may be faster; then his is as good.
            pool.populate(Pool::new(T::BACKWARD_CALLS)?);
        }
        self.transport().backward_wanted(self, wanted)
    }

    /// Hands a call of the peer to the callback service. `connection` comes back with the reply, see
    /// [`BackwardReply::connection`].
    ///
    /// Process context; does not sleep or allocate. To be called by whom [`Transport::destroy`] waits
    /// for, or through a handle.
    ///
    /// # Errors
    ///
    /// See [`Undelivered`].
    pub(crate) fn deliver(
        &self,
        xid: u32,
        message: &[u8],
        connection: u32,
    ) -> Result<(), Undelivered> {
        let pool = self.state().backward.as_ref();
        let pool = pool.ok_or(Undelivered::NotServed)?;
        if message.len() > MAX_CALL {
            return Err(Undelivered::TooLong);
        }
        let _hold = self.hold_served().ok_or(Undelivered::NotServed)?;
        let slot = pool.take().ok_or(Undelivered::Busy)?;
        slot.connection.store(connection, Relaxed);
        let xprt = self.as_raw();
        // SUNRPC takes one off when the call is done.
        self.backward_count().add(1, Relaxed);
        // SAFETY: The slot was taken above, and the length is checked. The transport is alive, and has
        // a reference that is ours, so that SUNRPC can take another one for the request.
        unsafe {
            slot.fill(xprt, xid, message);
            raw::xprt_enqueue_bc_request(slot.rqst.get());
        }
        Ok(())
    }

    /// A reference to the transport, if a service is there for its calls.
    fn hold_served(&self) -> Option<Hold<'_, T>> {
        let xprt = self.as_raw();
        // SAFETY: The transport is alive. SUNRPC looks at `bc_serv` again, under its lock. The
        // reference is taken only if there is one left, that is, teardown has not begun.
        unsafe {
            let served = !(&raw const (*xprt).bc_serv).read_volatile().is_null();
            (served && !raw::xprt_get(xprt).is_null()).then_some(Hold(self))
        }
    }

    /// Waits for [`release_worker`], when nobody has a [`Hold`] any more. Sleeps.
    pub(super) fn end_backward(&self) {
        // SAFETY: The work is initialised.
        unsafe { k::cancel_work_sync(self.state().release_work.get()) };
    }
}

/// A reference to a transport, which [`release_worker`] gives back.
struct Hold<'a, T: Transport>(&'a Xprt<T>);

impl<T: Transport> Drop for Hold<'_, T> {
    fn drop(&mut self) {
        let state = self.0.state();
        state.owed.add(1, Relaxed);
        // SAFETY: The work is initialised. The transport is freed only after whoever has called
        // `deliver` is done, and then its teardown waits for this work.
        unsafe {
            k::queue_work_on(
                k::wq_misc_consts_WORK_CPU_UNBOUND as i32,
                state.class.destroy_queue(),
                state.release_work.get(),
            )
        };
    }
}

/// Gives back what [`Hold`]s have taken. Process context, may sleep.
///
/// # Safety
///
/// `work` is the `State<T>::release_work` of a transport that is alive.
pub(super) unsafe extern "C" fn release_worker<T: Transport>(work: *mut k::work_struct) {
    // SAFETY: By the safety requirements `work` lies there in a transport's state.
    let xprt = unsafe { Xprt::<T>::from_work(work, offset_of!(State<T>, release_work)) };
    let owed = xprt.state().owed.xchg(0, Full);
    for _ in 0..owed {
        // SAFETY: The transport lives until this worker has returned, see `end_backward`; the
        // references are ours.
        unsafe { raw::xprt_put(xprt.as_raw()) };
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_sunrpc_backward)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_serves_one_call_at_a_time() -> Result {
        let pool = Pool::new(2)?;
        let first = pool.take().ok_or(EINVAL)?;
        let second = pool.take().ok_or(EINVAL)?;
        assert!(!core::ptr::eq(first, second));
        assert!(pool.take().is_none());
        first.busy.store(false, Release);
        assert!(core::ptr::eq(pool.take().ok_or(EINVAL)?, first));
        assert!(pool.take().is_none());
        Ok(())
    }

    #[test]
    fn a_pool_of_nothing_serves_nobody() -> Result {
        assert!(Pool::new(0)?.take().is_none());
        Ok(())
    }

    /// Fills `slot`, and compares what is in it.
    fn check(slot: &Slot, message: &[u8]) -> Result {
        // SAFETY: The slot was taken by the caller, who lets nobody else use it. The transport's
        // address is only kept.
        let rqst = unsafe {
            slot.fill(core::ptr::dangling_mut(), 0x0102_0304, message);
            &*slot.rqst.get()
        };
        assert_eq!(rqst.rq_xid.to_ne_bytes(), [1, 2, 3, 4]);
        // SAFETY: As above.
        assert!(unsafe { is_backward(rqst) });
        let [head] = &rqst.rq_rcv_buf.head;
        // CAST: A page at most.
        let len = message.len() as u32;
        assert_eq!(head.iov_len, message.len());
        assert_eq!((rqst.rq_rcv_buf.len, rqst.rq_private_buf.len), (len, len));
        // SAFETY: The head describes the slot's memory for calls, which has that many bytes.
        let kept = unsafe { core::slice::from_raw_parts(head.iov_base.cast::<u8>(), head.iov_len) };
        assert!(kept == message);
        let [room] = &rqst.rq_snd_buf.head;
        assert!(!core::ptr::eq(room.iov_base, head.iov_base));
        assert_eq!((room.iov_len, rqst.rq_snd_buf.len), (MAX_CALL, 0));
        assert!(rqst.rq_buffer.is_null() && rqst.rq_task.is_null());
        Ok(())
    }

    #[test]
    fn a_call_looks_as_sunrpc_wants_it() -> Result {
        let pool = Pool::new(1)?;
        let slot = pool.take().ok_or(EINVAL)?;
        let long = KVec::from_elem(0xa5, MAX_CALL, GFP_KERNEL)?;
        check(slot, &long)?;
        // Nothing is left of the one before.
        check(slot, b"a call")
    }
}
