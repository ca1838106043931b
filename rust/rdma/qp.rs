// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: posting, completions, draining.
//!
//! Everything a queue pair needs is allocated when it is made. Each work request belongs to a
//! *tag* (a small number its owner chooses, a slot number, say), by which its completion is
//! reported. Positions number the work requests of the send queue from 1; completions come in the
//! order of positions.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use kernel::error::{code, to_result};
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Full as FullOrder, Relaxed};
use kernel::sync::{new_mutex, new_spinlock, Arc, Mutex, SpinLock};

use super::cm::{CmHandler, CmId, Ident};
use super::cq::Cq;
use super::gate::Gate;
use super::noio::NoIo;
use super::pd::Pd;
use super::recv::{Received, Ring};
use super::sq::Books;
use crate::raw as bindings;

mod drain;
mod post;

use drain::Marker;
pub(crate) use drain::{ENTRIES as DRAIN_ENTRIES, SEND_WRS as DRAIN_SEND_WRS};
pub(crate) use post::{PostError, Remote};

/// Names whose work request it was: less than [`QpConfig::tags`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u32);

impl Tag {
    /// Tag number `n`.
    #[inline]
    pub(crate) const fn new(n: u32) -> Self {
        Self(n)
    }

    /// Its number.
    #[inline]
    pub(crate) const fn get(self) -> u32 {
        self.0
    }
}

/// Why a work request failed (`struct ib_wc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WcError {
    /// `enum ib_wc_status`.
    pub(crate) status: u32,
    /// The device's own code.
    pub(crate) vendor: u32,
    /// `enum ib_wc_opcode`; not reliable for a failed work request.
    pub(crate) opcode: u32,
}

impl WcError {
    /// The work request did not fail by itself: it was on the queue when the queue pair went into
    /// the error state.
    #[inline]
    pub(crate) fn is_flush(&self) -> bool {
        self.status == bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR
    }

    /// The peer's device has not acknowledged the work request, however often it was repeated.
    #[inline]
    pub(crate) fn is_silence(&self) -> bool {
        self.status == bindings::ib_wc_status_IB_WC_RETRY_EXC_ERR
    }

    fn of(wc: &bindings::ib_wc) -> Self {
        Self {
            status: wc.status,
            vendor: wc.vendor_err,
            opcode: wc.opcode,
        }
    }

    /// A failure that no work request reported.
    fn general() -> Self {
        Self {
            status: bindings::ib_wc_status_IB_WC_GENERAL_ERR,
            vendor: 0,
            opcode: 0,
        }
    }
}

/// Told of completions: in process context, from a worker that `WQ_MEM_RECLAIM` applies to, one
/// after the other for each queue pair. Do not drain or drop the queue pair from here, and do not
/// wait for something that itself waits for completions.
pub(crate) trait Completions: Sized + Send + Sync + 'static {
    /// A message has arrived. Its buffer goes back to the device when `msg` is dropped.
    fn received(&self, qp: &Qp<Self>, msg: Received<'_, Self>);

    /// A work request of `tag` has completed that was posted to be signalled; or any work request
    /// of `tag` has failed or was flushed, and then this may be called several times for one tag.
    fn sent(&self, qp: &Qp<Self>, tag: Tag, outcome: Result<(), WcError>);

    /// The connection is lost: a Receive failed or was flushed, before [`Qp::shut`], or could not
    /// be posted; or the device reported an error of the queue pair. Of flushed Receives the first
    /// is reported.
    fn broken(&self, qp: &Qp<Self>, error: WcError);

    /// A Receive was used up by something else than a Send, which is to say by an RDMA Write with
    /// immediate data: there is no new message in its buffer. The peer wants what we do not offer;
    /// nothing can be posted any more.
    fn not_a_send(&self, qp: &Qp<Self>, _opcode: u32) {
        self.broken(qp, WcError::general());
    }

    /// There is room on the send queue, after a chain was refused with [`PostError::Full`].
    fn room(&self, _qp: &Qp<Self>) {}
}

/// Sizes of a queue pair. What draining needs is added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QpConfig {
    /// Work requests on the send queue. A chain may take three quarters of it at most: longer ones
    /// might find it full when nothing is outstanding that makes room.
    pub(crate) send_wr: u32,
    /// Receives, all of them with a buffer.
    pub(crate) recv_wr: u32,
    /// Number of tags: they are 0 to one less.
    pub(crate) tags: u32,
    /// Bytes of a Receive buffer.
    pub(crate) recv_size: usize,
    /// Receives that are given back to the device together; at most that many of them are idle.
    pub(crate) recv_batch: u32,
}

/// A tag's completion entry.
///
/// # Invariants
///
/// `cqe` comes first, so that a completion leads here.
#[repr(C)]
struct TagEntry {
    cqe: bindings::ib_cqe,
    tag: Tag,
}

/// The inside of a queue pair, at a fixed address.
///
/// # Invariants
///
/// - `qp` is null (while the value is being made), or a queue pair that was created through
///   `ident`, completes on `cq`, and has this value as its context. It is there until `destroyed` is
///   set; before that, nothing can be posted any more.
/// - All work requests outstanding refer to `tags`, `marker` or `ring`, none of which moves.
///
/// Field order is the order of teardown after the queue pair itself and the end of `cq`'s worker.
#[pin_data]
struct Inner<C: Completions> {
    qp: *mut bindings::ib_qp,
    /// Number of the queue pair.
    number: u32,
    /// Number of the completion queue.
    cq_id: u32,
    lkey: u32,
    gate: Arc<Gate>,
    #[pin]
    books: SpinLock<Sending>,
    #[pin]
    draining: Mutex<()>,
    /// The queue pair is in error, other than by a work request, and nobody has been told.
    fatal: AtomicFlag,
    /// It is known, or was reported, that Receives are flushed.
    flushed: AtomicFlag,
    /// Queue pair and completion queue are gone; see [`Inner::destroy`].
    destroyed: AtomicFlag,
    marker: Marker,
    tags: KVVec<TagEntry>,
    cq: Cq,
    #[pin]
    ring: Ring,
    consumer: Arc<C>,
    pd: Arc<Pd>,
    ident: Arc<Ident>,
}

/// What posting and send completions share.
struct Sending {
    books: Books,
    /// Nothing is posted any more once this is false.
    open: bool,
}

/// A queue pair of a reliable connection, with its completion queue and Receive buffers.
///
/// Dropping it drains it, so no completion is being or will be handled after that. Process
/// context, may sleep; not from [`Completions`] or [`CmHandler`].
///
/// # Invariants
///
/// `inner` is a leaked, pinned box with a queue pair in it; it is freed with this value.
pub(crate) struct Qp<C: Completions> {
    inner: NonNull<Inner<C>>,
    owns: PhantomData<Inner<C>>,
}

// SAFETY: Verbs may be called from any task; the rest is behind locks, immutable, or `C`, which is
// `Send` and `Sync`.
unsafe impl<C: Completions> Send for Qp<C> {}
// SAFETY: As above.
unsafe impl<C: Completions> Sync for Qp<C> {}
// What must not move is in the box.
impl<C: Completions> Unpin for Qp<C> {}

impl<C: Completions> Qp<C> {
    /// Makes a queue pair for an identifier whose address is resolved, or that came with a
    /// connection request. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the identifier has one, or `pd` has or had one; `EINVAL` if `cq`, `pd` and the
    /// identifier are not of the same device, or the device has no queues that long; `ENOMEM`, or what
    /// its driver says.
    pub(crate) fn new<H: CmHandler>(
        cm: &CmId<H>,
        pd: &Arc<Pd>,
        cq: Cq,
        config: &QpConfig,
        consumer: Arc<C>,
    ) -> Result<Self> {
        if !Arc::ptr_eq(cq.pd(), pd) {
            return Err(EINVAL);
        }
        let inner = Inner::new(cm.ident(), pd, cq, config, consumer)?;
        let inner = KBox::pin_init(inner, GFP_KERNEL)?;
        // SAFETY: It is not moved.
        let inner = KBox::into_raw(unsafe { Pin::into_inner_unchecked(inner) });
        // SAFETY: Just leaked, and still ours alone.
        let made = unsafe { Inner::create(inner, config) };
        if let Err(error) = made {
            // SAFETY: As above; without a queue pair nothing refers to it.
            drop(unsafe { KBox::from_raw(inner) });
            return Err(error);
        }
        // INVARIANT: leaked above, with a queue pair.
        Ok(Self {
            // SAFETY: A box is not null.
            inner: unsafe { NonNull::new_unchecked(inner) },
            owns: PhantomData,
        })
    }

    #[inline]
    fn inner(&self) -> &Inner<C> {
        // SAFETY: By the type invariant.
        unsafe { self.inner.as_ref() }
    }

    /// Gives all Receives to the device. To be called once, before connecting or accepting.
    ///
    /// # Errors
    ///
    /// What the device's driver says; `ENOTCONN` after draining.
    pub(crate) fn post_receives(&self) -> Result {
        self.ring().post_all(self.as_ptr())
    }

    /// Position of the last work request of the send queue that is known to have completed
    /// successfully; all before it have, too.
    #[inline]
    pub(crate) fn retired(&self) -> u64 {
        self.inner().gate.retired()
    }

    /// Whether something has failed that only a new connection repairs.
    #[inline]
    pub(crate) fn is_broken(&self) -> bool {
        self.inner().gate.is_broken()
    }

    /// Tells that the connection is being given up: that Receives are flushed is no news any more.
    /// Any context.
    pub(crate) fn shut(&self) {
        self.inner().flushed.store(true, Relaxed);
    }

    /// Whether [`Self::drain`] is done.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.inner().gate.is_drained()
    }

    /// Ends the connection, if there is one, and puts the queue pair out of use: nothing can be posted
    /// any more, what was posted is flushed, and its completions have been handled when this returns,
    /// all of them. From then on the peer cannot reach any memory through it.
    ///
    /// Over iWARP a connection that is being made is waited for, as long as the device tries: a driver
    /// may not flush before its attempt has ended.
    ///
    /// If the device or its driver refuses to be drained, the queue pair is destroyed instead.
    ///
    /// Process context, may sleep; not from [`Completions`] or [`CmHandler`]. Calling it again does
    /// nothing, but waits for the first call.
    pub(crate) fn drain(&self) {
        self.inner().drain();
    }

    /// Number of the completion queue; see [`Cq::id`].
    #[inline]
    pub(crate) fn cq_id(&self) -> u32 {
        self.inner().cq_id
    }

    /// The queue pair's number.
    pub(crate) fn number(&self) -> u32 {
        self.inner().number
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *mut bindings::ib_qp {
        self.inner().qp
    }

    #[inline]
    pub(super) fn gate(&self) -> &Arc<Gate> {
        &self.inner().gate
    }

    #[inline]
    pub(super) fn ring(&self) -> &Ring {
        &self.inner().ring
    }

    /// Receives could not be posted: the connection is of no use. Called while one is handled.
    #[cold]
    pub(super) fn receives_lost(&self) {
        let inner = self.inner();
        inner.gate.break_off();
        inner.fatal.store(true, Relaxed);
    }
}

impl<C: Completions> Drop for Qp<C> {
    fn drop(&mut self) {
        let _scope = NoIo::enter();
        let inner = self.inner();
        inner.drain();
        // With the completion queue: a driver may still have reported completions, which refer to
        // `inner`.
        inner.destroy();
        // The protection domain stays taken: its regions may still be registered.
        inner.ident.detach();
        // SAFETY: By the type invariant, and `self` is not used again. The box was pinned, and is
        // dropped in place. Nothing refers to it: queue pair and completion queue are gone.
        drop(unsafe { KBox::from_raw(self.inner.as_ptr()) });
    }
}

impl<C: Completions> Inner<C> {
    fn new<'a>(
        ident: &'a Arc<Ident>,
        pd: &'a Arc<Pd>,
        cq: Cq,
        config: &QpConfig,
        consumer: Arc<C>,
    ) -> Result<impl PinInit<Self> + use<'a, C>> {
        // CAST: `usize` has at least 32 bits.
        let mut tags = KVVec::with_capacity(config.tags as usize, GFP_KERNEL)?;
        for n in 0..config.tags {
            let cqe = bindings::ib_cqe {
                done: Some(Self::send_done),
            };
            tags.push(TagEntry { cqe, tag: Tag(n) }, GFP_KERNEL)?;
        }
        let ring = Ring::new(
            pd,
            config.recv_wr,
            config.recv_size,
            config.recv_batch,
            Self::recv_done,
        )?;
        let sending = Sending {
            books: Books::new(config.send_wr)?,
            open: true,
        };
        let gate = Gate::new()?;
        Ok(pin_init!(Self {
            qp: core::ptr::null_mut(),
            number: 0,
            cq_id: cq.id(),
            lkey: pd.lkey(),
            gate,
            books <- new_spinlock!(sending, "rdma::Qp::books"),
            draining <- new_mutex!((), "rdma::Qp::draining"),
            fatal: AtomicFlag::new(false),
            flushed: AtomicFlag::new(false),
            destroyed: AtomicFlag::new(false),
            marker: Marker::new(),
            tags,
            cq,
            ring <- ring,
            consumer,
            pd: pd.clone(),
            ident: ident.clone(),
        }))
    }

    /// Creates the queue pair.
    ///
    /// # Safety
    ///
    /// `this` is valid, pinned, and not shared.
    unsafe fn create(this: *mut Self, config: &QpConfig) -> Result {
        // SAFETY: As the caller promises.
        let inner = unsafe { &*this };
        let cap = bindings::ib_qp_cap {
            max_send_wr: config.send_wr.checked_add(drain::SEND_WRS).ok_or(EINVAL)?,
            max_recv_wr: config.recv_wr.checked_add(drain::RECV_WRS).ok_or(EINVAL)?,
            max_send_sge: 1,
            max_recv_sge: 1,
            ..pin_init::zeroed()
        };
        let cq = inner.cq.as_ptr();
        let mut attributes = bindings::ib_qp_init_attr {
            event_handler: Some(Self::on_event),
            qp_context: this.cast(),
            send_cq: cq,
            recv_cq: cq,
            cap,
            sq_sig_type: bindings::ib_sig_type_IB_SIGNAL_REQ_WR,
            qp_type: bindings::ib_qp_type_IB_QPT_RC,
            ..pin_init::zeroed()
        };
        // SAFETY: The completion queue is ours, and nothing completes on it yet.
        unsafe { (*cq).cq_context = this.cast() };
        inner.pd.attach()?;
        inner.ident.attach().inspect_err(|_| inner.pd.detach())?;
        let made = inner.ident.exclusively(|id| {
            // SAFETY: All are valid. The connection manager compares the devices.
            to_result(unsafe {
                bindings::rdma_create_qp(id, inner.pd.as_ptr(), &raw mut attributes)
            })
            // SAFETY: On success, the identifier has the queue pair.
            .map(|()| unsafe { (*id).qp })
        });
        match made {
            Ok(qp) => {
                // INVARIANT: just created through `ident`.
                // SAFETY: `this` is valid, and so is the queue pair, whose number is constant. `inner`
                // is not used after this.
                unsafe {
                    (*this).qp = qp;
                    (*this).number = (*qp).qp_num;
                }
                Ok(())
            }
            Err(error) => {
                inner.ident.detach();
                inner.pd.detach();
                Err(error)
            }
        }
    }

    /// Whether somebody is to be told of an error.
    #[inline]
    fn take_fatal(&self) -> bool {
        self.fatal.load(Relaxed) && self.fatal.xchg(false, FullOrder)
    }

    /// Whether this is the first Receive that is flushed, and nobody expects it.
    fn flush_is_news(&self) -> bool {
        !self.flushed.xchg(true, FullOrder)
    }

    /// A work request of the send queue has completed.
    ///
    /// # Safety
    ///
    /// Called by `ib_core`, with a completion whose entry is in `tags`, on the completion queue
    /// of a living `Inner<C>`.
    unsafe extern "C" fn send_done(cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // SAFETY: As this function asks for; the context was set in `create`.
        let (qp, wc) = unsafe { (Self::lend(cq), &*wc) };
        // SAFETY: The entry is the first field of one of `tags`, which are never changed.
        let tag = unsafe { (*wc.__bindgen_anon_1.wr_cqe.cast::<TagEntry>()).tag };
        let inner = qp.inner();
        if wc.status != bindings::ib_wc_status_IB_WC_SUCCESS {
            inner.gate.break_off();
            inner.consumer.sent(&qp, tag, Err(WcError::of(wc)));
            return;
        }
        let retired = inner.books.lock().books.retire(tag.0);
        let Ok(retired) = retired else {
            // The device, or its driver, is not to be believed any more.
            inner.gate.break_off();
            return inner.consumer.broken(&qp, WcError::general());
        };
        inner.gate.retire(retired.position);
        if retired.wanted {
            inner.consumer.sent(&qp, tag, Ok(()));
        }
        if retired.room {
            inner.consumer.room(&qp);
        }
    }

    /// A Receive has completed.
    ///
    /// # Safety
    ///
    /// As for `send_done`, with an entry of the ring.
    unsafe extern "C" fn recv_done(cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // SAFETY: As this function asks for; the context was set in `create`.
        let (qp, wc) = unsafe { (Self::lend(cq), &*wc) };
        let inner = qp.inner();
        inner.ring.completed();
        if wc.status == bindings::ib_wc_status_IB_WC_SUCCESS {
            if wc.opcode != bindings::ib_wc_opcode_IB_WC_RECV {
                inner.gate.break_off();
                return inner.consumer.not_a_send(&qp, wc.opcode);
            }
            // SAFETY: This is a successful completion, and `ib_core` calls once for each.
            let msg = unsafe { Received::new(&qp, wc) };
            inner.consumer.received(&qp, msg);
            if inner.take_fatal() {
                inner.consumer.broken(&qp, WcError::general());
            }
            return;
        }
        let error = WcError::of(wc);
        inner.gate.break_off();
        // Always the first flush: an error of which the device says nothing, or later, ends here.
        if !error.is_flush() || inner.take_fatal() || inner.flush_is_news() {
            inner.consumer.broken(&qp, error);
        }
    }

    /// The device has something to say about the queue pair. Any context, so that all this does
    /// is leave word for the Receives, which are about to be flushed.
    ///
    /// # Safety
    ///
    /// Called by the device's driver, with the context set in `create`.
    unsafe extern "C" fn on_event(event: *mut bindings::ib_event, context: *mut c_void) {
        // SAFETY: As this function asks for; the driver stops before the queue pair is destroyed.
        let (inner, event) = unsafe { (&*context.cast::<Self>(), (*event).event) };
        if matches!(
            event,
            bindings::ib_event_type_IB_EVENT_QP_FATAL
                | bindings::ib_event_type_IB_EVENT_QP_REQ_ERR
                | bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR
        ) {
            inner.gate.break_off();
            inner.fatal.store(true, Relaxed);
        }
    }

    /// The queue pair that completes on `cq`, as a handle that does not own it.
    ///
    /// # Safety
    ///
    /// The context of `cq` is a living `Inner<C>`, and outlives the handle.
    #[inline]
    unsafe fn lend(cq: *mut bindings::ib_cq) -> ManuallyDrop<Qp<C>> {
        // SAFETY: As this function asks for.
        let inner = unsafe { NonNull::new_unchecked((*cq).cq_context.cast()) };
        ManuallyDrop::new(Qp {
            inner,
            owns: PhantomData,
        })
    }
}
