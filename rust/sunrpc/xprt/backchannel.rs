// SPDX-License-Identifier: GPL-2.0

//! The backchannel: calls from the server to a callback service of this host.
//!
//! ```text
//! Transport                            this module               SUNRPC
//! ---------                            -----------               ------
//!                                      a pool of requests  ◄──── bc_setup
//! a call arrives            ────────►  deliver  ───────────────► sv_cb_list
//!                                                                a thread of the service replies
//! send_backchannel_reply    ◄────────  the same request  ◄────── send_request
//!                                      request free again  ◄──── bc_free_rqst
//! ```
//!
//! The pool is allocated when the NFS client sets up the backchannel, and freed with the transport.
//! A call needs no allocation: its message is copied to the page of a free request.
//!
//! # Lifetimes
//!
//! While SUNRPC has a request, the request holds a reference to the transport:
//! `xprt_enqueue_bc_request()` takes it, and [`free`] puts it. `xprt_enqueue_bc_request()` does not
//! check whether the reference count has dropped to zero, and it may free the request at once if
//! the service has just ended. [`deliver`](Xprt::deliver) therefore takes a reference of its own,
//! and refuses the call if that fails because teardown has begun. A worker puts this reference: a
//! completion handler, for which teardown waits, must not put the last one.
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
use kernel::sync::SetOnce;
use kernel::types::Opaque;

use super::super::xdr_buf::XdrBuf;
use super::handle::{Xprt, XprtState};
use super::slot::Memory;
use super::transport::Transport;
use crate::compat::casts::u32_as_usize;
use crate::raw;
use crate::work::{read_once, write_once};

/// Maximum length of a call, in bytes. It is also the length of the memory for its reply, which
/// SUNRPC's `svcxdr_init_encode()` takes for a page of any size.
pub(crate) const MAX_CALL: usize = PAGE_SIZE;

/// Reasons why a call was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undelivered {
    /// There is no callback service, or it is still busy with calls of earlier connections.
    NotServed,
    /// All requests of the pool are in use for calls of this connection.
    Busy,
    /// The message is longer than [`MAX_CALL`].
    TooLong,
}

/// State of a transport with a backchannel.
///
/// # Invariants
///
/// `put_work` is initialised.
#[pin_data]
pub(crate) struct BackchannelState {
    /// Runs [`put_worker`].
    #[pin]
    put_work: Opaque<k::work_struct>,
    /// Number of references to the transport that `put_work` has to put.
    pending_puts: Atomic<u32>,
    /// Empty until the NFS client sets up the backchannel.
    pool: SetOnce<Pool>,
}

impl BackchannelState {
    /// Creates the state of a new transport of `T`.
    pub(super) fn new<T: Transport>() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            put_work <- Opaque::ffi_init(|work| {
                // SAFETY: `work` is part of the pinned memory that is being initialised.
                unsafe { raw::rr_init_put_work(work, Some(put_worker::<T>)) }
            }),
            pending_puts: Atomic::new(0),
            pool: SetOnce::new(),
        }? Error)
    }
}

/// Waits for the worker that puts references. Called by the teardown when nothing can queue it any
/// more. Sleeps.
pub(super) fn cancel<T: Transport>(xprt: &Xprt<T>) {
    // SAFETY: By the type invariants of `BackchannelState` the work is initialised.
    unsafe { k::cancel_work_sync(xprt.state.backchannel.put_work.get()) };
}

/// Preallocated request of a backchannel call, in use from the arrival of the call until SUNRPC
/// frees it.
///
/// # Invariants
///
/// - `rqst` is the first field: a pointer to it is a pointer to the `BcRequest`.
/// - While `busy` is set, `rqst` and the memory belong to the code that has set it, or to SUNRPC
///   after the request was passed on; no other code accesses them.
/// - Both pieces of memory have [`MAX_CALL`] bytes.
#[repr(C)]
struct BcRequest {
    rqst: Opaque<raw::rpc_rqst>,
    busy: Atomic<bool>,
    /// Number of the connection over which the call arrived.
    connection: Atomic<u32>,
    call: Memory,
    reply: Memory,
    _pin: PhantomPinned,
}

// SAFETY: SUNRPC uses an `rpc_rqst` from any thread, and any thread may free the memory.
unsafe impl Send for BcRequest {}
// SAFETY: By the type invariants only the code that has set `busy` accesses `rqst` and the memory.
unsafe impl Sync for BcRequest {}

impl BcRequest {
    /// Allocates a request. May sleep.
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

    /// Returns the `BcRequest` that `rqst` is the first field of.
    ///
    /// # Safety
    ///
    /// `rqst` is embedded in a `BcRequest`, which outlives `'a`.
    unsafe fn from_rqst<'a>(rqst: NonNull<raw::rpc_rqst>) -> &'a Self {
        // SAFETY: By the safety requirements there is a `BcRequest`, and by the type invariants it
        // starts at its `rqst`.
        unsafe { rqst.cast::<Self>().as_ref() }
    }

    /// Sets `busy`. Returns whether it was clear.
    fn take(&self) -> bool {
        self.busy.cmpxchg(false, true, Acquire).is_ok()
    }

    /// Stores a call in the request, in the form that `svc_process_bc()` expects.
    ///
    /// # Safety
    ///
    /// The caller has set `busy`. `xprt` is a live transport; `message` is at most [`MAX_CALL`]
    /// bytes long.
    unsafe fn fill(&self, xprt: *mut raw::rpc_xprt, xid: u32, message: &[u8]) {
        let rqst = self.rqst.get();
        // SAFETY: The caller has set `busy`, so by the type invariants no other code accesses the
        // request, for which zeroes are a valid value, or the memory. The memory has `MAX_CALL`
        // bytes, as many as the message at most, and the borrowed message does not overlap it.
        unsafe {
            rqst.write_bytes(0, 1);
            let call = self.call.start();
            core::ptr::copy_nonoverlapping(message.as_ptr(), call.as_ptr(), message.len());
            (*rqst).rq_xprt = xprt;
            (*rqst).rq_xid = xid.to_be();
            // Marks the request as one of the backchannel, for SUNRPC and for
            // `ops::is_backchannel`.
            (*rqst).rq_bc_pa_state = 1 << raw::RPC_BC_PA_IN_USE;
            // The reply takes none of the peer's credits. SUNRPC sends a request that has one
            // before those that have none, and without waiting for the congestion window
            // (`xprt_request_enqueue_transmit()`). This one is not part of `cong`.
            (*rqst).rq_cong = 1;
            // CAST: No more than a page.
            let len = message.len() as u32;
            init_buf(&raw mut (*rqst).rq_rcv_buf, call, message.len());
            (*rqst).rq_rcv_buf.len = len;
            (*rqst).rq_private_buf.len = len;
            init_buf(&raw mut (*rqst).rq_snd_buf, self.reply.start(), MAX_CALL);
        }
    }
}

/// Makes `buf`, which is all zeroes, a message buffer with a head of `len` bytes at `start`.
///
/// # Safety
///
/// The caller has exclusive access to `buf`.
unsafe fn init_buf(buf: *mut raw::xdr_buf, start: NonNull<u8>, len: usize) {
    // SAFETY: The caller has exclusive access to `buf`.
    unsafe {
        (*buf).head[0].iov_base = start.as_ptr().cast();
        (*buf).head[0].iov_len = len;
        // CAST: A page at most.
        (*buf).buflen = len as u32;
    }
}

/// The preallocated requests of a transport.
struct Pool(KVec<Pin<KBox<BcRequest>>>);

impl Pool {
    /// Allocates `count` requests. May sleep.
    fn new(count: u32) -> Result<Self> {
        let mut requests = KVec::with_capacity(u32_as_usize(count), GFP_KERNEL)?;
        for _ in 0..count {
            requests.push(BcRequest::new()?, GFP_KERNEL)?;
        }
        Ok(Self(requests))
    }

    /// Takes a free request.
    fn take(&self) -> Option<&BcRequest> {
        let mut requests = self.0.iter().map(|request| &**request);
        requests.find(|request| request.take())
    }

    /// Returns why there is no free request for a call of this connection.
    #[cold]
    fn shortage(&self, connection: u32) -> Undelivered {
        let mut others = self
            .0
            .iter()
            .map(|request| request.connection.load(Relaxed));
        match others.find(|other| *other != connection) {
            Some(_) => Undelivered::NotServed,
            None => Undelivered::Busy,
        }
    }
}

/// Frees a backchannel request and puts its reference to the transport. Any context in which a
/// reference to a transport may be put.
///
/// If that was the last reference, the module may be unloading before this function has returned;
/// dropping a [`ClassRegistration`](super::class::ClassRegistration) waits for that.
///
/// # Safety
///
/// [`Xprt::deliver`] passed `rqst` to SUNRPC, which has finished with it.
pub(super) unsafe fn free(rqst: NonNull<raw::rpc_rqst>) {
    // SAFETY: By the safety requirements the request is embedded in a `BcRequest`, which is not
    // accessed after `busy` is cleared. The transport and its pool live until the last reference is
    // put, and SUNRPC took one when the request was enqueued.
    unsafe {
        let xprt = (*rqst.as_ptr()).rq_xprt;
        BcRequest::from_rqst(rqst).busy.store(false, Release);
        raw::xprt_put(xprt);
    }
}

/// The reply to a backchannel call, to be sent.
///
/// # Invariants
///
/// For `'a`: the pointer is that of a request which [`Xprt::deliver`] passed to SUNRPC, and which
/// has a task and an encoded reply.
pub(crate) struct BackchannelReply<'a> {
    rqst: NonNull<raw::rpc_rqst>,
    _lifetime: PhantomData<&'a raw::rpc_rqst>,
}

impl BackchannelReply<'_> {
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

    /// Returns the call's XID, in host order.
    pub(crate) fn xid(&self) -> u32 {
        // SAFETY: By the type invariants the request is alive.
        u32::from_be(unsafe { (*self.rqst.as_ptr()).rq_xid })
    }

    /// Returns the number of the connection over which the call arrived, as the caller of
    /// [`Xprt::deliver`] gave it.
    pub(crate) fn connection(&self) -> u32 {
        // SAFETY: By the type invariants `deliver` took the request from a pool, so it is embedded
        // in a `BcRequest`.
        read_once(&unsafe { BcRequest::from_rqst(self.rqst) }.connection)
    }

    /// Returns the number of the task that sends the reply.
    pub(crate) fn task_id(&self) -> u32 {
        // SAFETY: By the type invariants the request has a task.
        u32::from(unsafe { (*(*self.rqst.as_ptr()).rq_task).tk_pid })
    }

    /// Returns the encoded reply.
    pub(crate) fn message(&self) -> XdrBuf<'_> {
        // SAFETY: By the type invariants the reply is encoded. SUNRPC does not change it during
        // `'a`.
        unsafe { XdrBuf::from_raw(&raw mut (*self.rqst.as_ptr()).rq_snd_buf) }
    }
}

impl<T: Transport> Xprt<T> {
    /// Implements `bc_setup`: allocates the pool, if that has not been done, and prepares the
    /// transport. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the transport.
    pub(super) fn set_up_backchannel(&self, count: u32) -> Result {
        let pool = &self.state.backchannel.pool;
        if pool.as_ref().is_none() {
            // If another thread has populated it meanwhile, this pool is dropped.
            pool.populate(Pool::new(T::BACKCHANNEL_REQUESTS)?);
        }
        self.data().backchannel_setup(self, count)
    }

    /// Passes a call from the peer to the callback service. [`BackchannelReply::connection`]
    /// returns `connection` for the reply to this call.
    ///
    /// Process context; does not sleep or allocate. The caller either runs in a context for which
    /// [`Transport::destroy`](super::transport::Transport::destroy) waits, or has an
    /// [`XprtHandle`](super::XprtHandle).
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
        let pool = self.state.backchannel.pool.as_ref();
        let pool = pool.ok_or(Undelivered::NotServed)?;
        if message.len() > MAX_CALL {
            return Err(Undelivered::TooLong);
        }
        let _reference = self.get_if_served().ok_or(Undelivered::NotServed)?;
        let request = pool.take().ok_or_else(|| pool.shortage(connection))?;
        write_once(&request.connection, connection);
        let xprt = self.as_raw();
        // SUNRPC decrements the counter when the call has ended.
        self.backchannel_count().add(1, Relaxed);
        // SAFETY: `take` has set `busy`, and the length was checked. The transport is alive and
        // `_reference` keeps its reference count above 0, so SUNRPC can take another reference for
        // the request.
        unsafe {
            request.fill(xprt, xid, message);
            raw::xprt_enqueue_bc_request(request.rqst.get());
        }
        Ok(())
    }

    /// Returns SUNRPC's count of backchannel calls in progress.
    fn backchannel_count(&self) -> &Atomic<i32> {
        // SAFETY: The transport is alive; the counter is aligned, and all accesses to it are
        // atomic.
        unsafe { Atomic::from_ptr(&raw mut (*self.as_raw()).bc_slot_count.counter) }
    }

    /// Takes a reference to the transport if there is a callback service and teardown has not
    /// begun.
    fn get_if_served(&self) -> Option<Reference<'_, T>> {
        let xprt = self.as_raw();
        // SAFETY: The transport is alive. SUNRPC tests `bc_serv` again, under its lock. `xprt_get`
        // fails if the reference count is 0, which means that teardown has begun.
        unsafe {
            let served = !(&raw const (*xprt).bc_serv).read_volatile().is_null();
            (served && !raw::xprt_get(xprt).is_null()).then(|| Reference(self))
        }
    }
}

/// A reference to a transport, which [`put_worker`] puts.
struct Reference<'a, T: Transport>(&'a Xprt<T>);

impl<T: Transport> Drop for Reference<'_, T> {
    fn drop(&mut self) {
        let state = &self.0.state;
        state.backchannel.pending_puts.add(1, Relaxed);
        // SAFETY: By the type invariants of `BackchannelState` the work is initialised. Teardown
        // waits for the caller of `deliver`, then for this work, and only then frees the transport.
        unsafe {
            k::queue_work_on(
                k::wq_misc_consts_WORK_CPU_UNBOUND as i32,
                state.class.destroy_queue(),
                state.backchannel.put_work.get(),
            )
        };
    }
}

/// Puts the references of dropped [`Reference`]s. Process context, may sleep.
///
/// # Safety
///
/// `work` is the `BackchannelState::put_work` of a live transport of `T`.
unsafe extern "C" fn put_worker<T: Transport>(work: *mut k::work_struct) {
    let offset = offset_of!(XprtState<T>, backchannel) + offset_of!(BackchannelState, put_work);
    // SAFETY: By the safety requirements `work` is at this offset in the state of a live transport.
    let xprt = unsafe { Xprt::<T>::from_work(work, offset) };
    let count = xprt.state.backchannel.pending_puts.xchg(0, Full);
    for _ in 0..count {
        // SAFETY: Each count stands for one reference taken by `get_if_served`. Teardown cancels
        // this work synchronously, so the transport outlives this function.
        unsafe { raw::xprt_put(xprt.as_raw()) };
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_sunrpc_backchannel)]
mod tests {
    use super::*;

    #[test]
    fn a_request_holds_one_call_at_a_time() -> Result {
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
    fn an_empty_pool_has_no_request() -> Result {
        assert!(Pool::new(0)?.take().is_none());
        Ok(())
    }

    /// Fills `request` with `message`, and checks what SUNRPC will read.
    fn check(request: &BcRequest, message: &[u8]) -> Result {
        // SAFETY: The caller took the request from a pool of its own. The transport's address is
        // only stored.
        let rqst = unsafe {
            request.fill(core::ptr::dangling_mut(), 0x0102_0304, message);
            &*request.rqst.get()
        };
        assert_eq!(rqst.rq_xid.to_ne_bytes(), [1, 2, 3, 4]);
        assert_eq!(rqst.rq_bc_pa_state, 1 << raw::RPC_BC_PA_IN_USE);
        let [head] = &rqst.rq_rcv_buf.head;
        // CAST: A page at most.
        let len = message.len() as u32;
        assert_eq!(head.iov_len, message.len());
        assert_eq!((rqst.rq_rcv_buf.len, rqst.rq_private_buf.len), (len, len));
        // SAFETY: The head describes the request's memory for calls, which has that many bytes.
        let stored =
            unsafe { core::slice::from_raw_parts(head.iov_base.cast::<u8>(), head.iov_len) };
        assert!(stored == message);
        let [room] = &rqst.rq_snd_buf.head;
        assert!(!core::ptr::eq(room.iov_base, head.iov_base));
        assert_eq!((room.iov_len, rqst.rq_snd_buf.len), (MAX_CALL, 0));
        assert!(rqst.rq_buffer.is_null() && rqst.rq_task.is_null());
        Ok(())
    }

    #[test]
    fn a_filled_request_has_the_form_sunrpc_expects() -> Result {
        let pool = Pool::new(1)?;
        let request = pool.take().ok_or(EINVAL)?;
        let long = KVec::from_elem(0xa5, MAX_CALL, GFP_KERNEL)?;
        check(request, &long)?;
        // Nothing is left of the previous call.
        check(request, b"a call")
    }
}
