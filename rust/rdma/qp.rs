// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.
//!
//! Everything that a queue pair needs is allocated when it is made, so posting never allocates.
//! Each work request of the send queue belongs to a [`Tag`], by which its completion is reported,
//! and has a *position*: work requests are numbered from 1 in the order of posting.

use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::{new_mutex, new_spinlock, Arc, Mutex, SpinLock};

use super::cm::{CmHandler, CmId, Ident};
use super::cq::Cq;
use super::pd::Pd;
use super::progress::Progress;
use super::recv::queue::RecvQueue;
pub(crate) use super::scatter::Remote;
use crate::mem::MemallocScope;
use crate::raw as bindings;

mod chain;
mod completion;
mod drain;
mod post;
mod sq;
mod tag;

pub(super) use chain::Chain;
pub(crate) use completion::{Completions, WcError};
pub(crate) use drain::SEND_WRS as DRAIN_SEND_WRS;
pub(crate) use post::PostError;
pub(crate) use sq::holds_chain;
pub(crate) use tag::Tag;

use drain::Marker;
use sq::SendQueue;
use tag::Tags;

/// The sizes of a queue pair. The work requests for draining are added to them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QpConfig {
    /// Number of work requests on the send queue. A chain may have at most three quarters of them:
    /// up to a quarter may hold unsignalled ones, whose space a later signalled one gives back.
    pub(crate) send_wr: u32,
    /// Initial number of Receives, each of which has a buffer.
    pub(crate) recv_wr: u32,
    /// Largest number of Receives ([`Qp::add_receives`]); at least `recv_wr`.
    pub(crate) recv_max: u32,
    /// Number of scatter/gather entries of a work request of the send queue; at least 1.
    pub(crate) send_sge: u32,
    /// Number of tags. They are numbered from 0.
    pub(crate) tags: u32,
    /// Size of a Receive buffer in bytes, until [`Qp::enlarge_receives`] is called.
    pub(crate) recv_size: usize,
    /// Number of Receives that are posted together, or a third of all if those are fewer. At any
    /// time fewer than twice that number are idle; those whose message is held are not counted.
    pub(crate) recv_batch: u32,
}

/// A queue pair of a reliable connection, with its completion queue and Receive buffers.
///
/// Dropping it drains it, so no completion is being or will be handled after that. Drop it in
/// process context, where it may sleep, and not from [`Completions`] or [`CmHandler`].
///
/// # Examples
///
/// The objects of a connection, in the order in which they are created:
///
/// ```
/// let device = cm.device().ok_or(ENODEV)?;
/// let pd = Pd::new(devices.lease(device, changed)?, None)?;
/// let cq = Cq::new(&pd, CONFIG.send_wr + CONFIG.recv_max, Workers::Shared)?;
/// let outcome = Outcome::new()?;
/// let qp = Qp::new(&cm, &pd, cq, &CONFIG, outcome.clone())?;
/// qp.post_receives()?;
/// ```
///
/// A Send behind the registrations of two regions, posted as one chain:
///
/// ```
/// let regions = [&mut read, &mut write];
/// let out = &mut client.out;
/// client.qp.post_send(TAG, regions, out, wire::LEN, false)?;
/// ```
///
/// # Invariants
///
/// - `qp` is null while the value is being created. After that it is a queue pair that was created
///   through `ident`, completes on `cq`, and has this value as its context. It exists until
///   `destroyed` is set; before that, both queues have been closed.
/// - All outstanding work requests refer to `tags`, `marker` or `recv_queue`, none of which moves.
///
/// Fields are dropped in this order, after the queue pair and the worker of `cq` have ended.
#[pin_data(PinnedDrop)]
pub(crate) struct Qp<C: Completions> {
    /// Null while the value is being created.
    qp: *mut bindings::ib_qp,
    /// Number of the queue pair.
    number: u32,
    /// Number of the completion queue.
    cq_id: u32,
    lkey: u32,
    progress: Arc<Progress>,
    #[pin]
    sending: SpinLock<Sending>,
    #[pin]
    draining: Mutex<()>,
    /// Whether flushed Receives are expected, or were reported.
    flushed: AtomicFlag,
    /// Whether the queue pair and the completion queue have been destroyed.
    destroyed: AtomicFlag,
    marker: Marker,
    tags: Tags,
    cq: Cq,
    recv_queue: Arc<RecvQueue>,
    consumer: Arc<C>,
    pd: Arc<Pd>,
    ident: Arc<Ident>,
}

// SAFETY: Any task may call verbs for a queue pair. Everything else is immutable, atomic, behind a
// lock, or a `C`, which is `Send` and `Sync`.
unsafe impl<C: Completions> Send for Qp<C> {}
// SAFETY: Verbs synchronise their callers. Everything else is immutable, atomic, behind a lock, or
// a `C`, which is `Send` and `Sync`.
unsafe impl<C: Completions> Sync for Qp<C> {}

/// The state that posting and the handler of send completions share.
struct Sending {
    queue: SendQueue,
    /// Whether work requests may still be posted.
    open: bool,
}

impl<C: Completions> Qp<C> {
    /// Creates a queue pair for a cm_id whose address was resolved, or that arrived with a
    /// connection request. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the cm_id has a queue pair, or `pd` has or had one; `EINVAL` if `cq`, `pd` and
    /// the cm_id are not of the same device, if `cq` is too short for the queues, or if the device
    /// has no queues of that length; `ENOMEM`, or another error of the driver.
    pub(crate) fn new<H: CmHandler>(
        cm: &CmId<H>,
        pd: &Arc<Pd>,
        cq: Cq,
        config: &QpConfig,
        consumer: Arc<C>,
    ) -> Result<Pin<KBox<Self>>> {
        let entries = config.send_wr.checked_add(config.recv_max);
        let fits = entries.is_some_and(|n| n <= cq.entries());
        if !Arc::ptr_eq(cq.pd(), pd) || !fits || config.send_sge == 0 {
            return Err(EINVAL);
        }
        let qp = Self::unmade(cm.ident(), pd, cq, config, consumer)?;
        let mut qp = KBox::pin_init(qp, GFP_KERNEL)?;
        qp.as_mut().create(config)?;
        Ok(qp)
    }

    /// Posts all Receives. Call this once, before connecting or accepting.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` after draining, or the error of the device's driver.
    pub(crate) fn post_receives(&self) -> Result {
        self.recv_queue.post_all()
    }

    /// Allocates and posts Receives until there are `total`, or as many as [`QpConfig`] permits.
    /// Returns how many were added. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` after draining; `ENOMEM`; or the error of the device's driver, after which the
    /// queue pair counts as broken.
    pub(crate) fn add_receives(&self, total: u32) -> Result<u32> {
        self.recv_queue.grow(total)
    }

    /// Gives every Receive a buffer of `size` bytes, once its current or next message has been
    /// handled. Returns how many Receives still have a smaller buffer; see
    /// [`Self::smaller_receives`]. Process context, may sleep; starts no I/O.
    ///
    /// # Errors
    ///
    /// `EBUSY` if an earlier call has not taken full effect, or [`Self::add_receives`] has changed
    /// their number meanwhile; `ENOTCONN` after draining; `EINVAL` for a size that does not fit a
    /// work request; `ENOMEM`. After an error nothing has changed.
    pub(crate) fn enlarge_receives(&self, size: usize) -> Result<u32> {
        let _scope = MemallocScope::noio();
        self.recv_queue.enlarge(size)
    }

    /// Returns the number of Receives that [`Self::enlarge_receives`] has not reached yet. The peer
    /// may send messages of the larger size once there are none.
    pub(crate) fn smaller_receives(&self) -> u32 {
        self.recv_queue.smaller()
    }

    /// Returns the position of the last work request of the send queue that is known to have
    /// completed successfully. All work requests before it have completed as well.
    pub(crate) fn retired(&self) -> u64 {
        self.progress.retired()
    }

    /// Returns whether work requests of the send queue are not known to have completed.
    pub(crate) fn has_outstanding(&self) -> bool {
        self.sending.lock().queue.posted() != self.progress.retired()
    }

    /// Returns the number of entries of the send queue that no work request uses, and of all.
    pub(crate) fn send_queue(&self) -> (u32, u32) {
        self.sending.lock().queue.room()
    }

    /// Returns the number of Receives that have completed, modulo 2^32.
    pub(crate) fn arrived(&self) -> u32 {
        self.recv_queue.arrived()
    }

    /// Returns the number of Receives that are posted, and of all.
    pub(crate) fn receives(&self) -> (u32, u32) {
        self.recv_queue.counts()
    }

    /// Returns whether the queue pair has failed, so that a new connection is needed.
    pub(crate) fn is_broken(&self) -> bool {
        self.progress.is_broken()
    }

    /// Marks the connection as being closed, so that flushed Receives are expected and not
    /// reported. Any context.
    pub(crate) fn expect_flush(&self) {
        self.flushed.store(true, Relaxed);
    }

    /// Returns whether [`Self::drain`] has finished.
    #[allow(dead_code, reason = "for the sample rdma_ping")]
    pub(crate) fn is_drained(&self) -> bool {
        self.progress.is_drained()
    }

    /// Returns the number of the completion queue; see [`Cq::id`].
    pub(crate) fn cq_id(&self) -> u32 {
        self.cq_id
    }

    /// Returns the protection domain.
    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    pub(super) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    pub(super) fn recv_queue(&self) -> &Arc<RecvQueue> {
        &self.recv_queue
    }
}

#[pinned_drop]
impl<C: Completions> PinnedDrop for Qp<C> {
    fn drop(self: Pin<&mut Self>) {
        if self.qp.is_null() {
            return;
        }
        let _scope = MemallocScope::noio();
        self.drain();
        // The completion queue is freed before the fields are: a driver may still report
        // completions, which refer to them.
        self.destroy();
        // The protection domain stays taken: some of its regions may still be registered.
        self.ident.detach();
    }
}

impl<C: Completions> Qp<C> {
    /// Allocates everything but the queue pair itself. May sleep.
    fn unmade<'a>(
        ident: &'a Arc<Ident>,
        pd: &'a Arc<Pd>,
        cq: Cq,
        config: &QpConfig,
        consumer: Arc<C>,
    ) -> Result<impl PinInit<Self> + use<'a, C>> {
        let tags = Tags::new(pd.allocator(), config.tags, Self::send_done)?;
        let progress = Progress::new()?;
        let recv_queue = RecvQueue::new(pd, *config, &progress, Self::recv_done)?;
        let sending = Sending {
            queue: SendQueue::new(pd.allocator(), config.send_wr)?,
            open: true,
        };
        Ok(pin_init!(Self {
            qp: core::ptr::null_mut(),
            number: 0,
            cq_id: cq.id(),
            lkey: pd.lkey(),
            progress,
            sending <- new_spinlock!(sending, "rdma::Qp::sending"),
            draining <- new_mutex!((), "rdma::Qp::draining"),
            flushed: AtomicFlag::new(false),
            destroyed: AtomicFlag::new(false),
            marker: Marker::new(),
            tags,
            cq,
            recv_queue,
            consumer,
            pd: pd.clone(),
            ident: ident.clone(),
        }))
    }

    /// Creates the queue pair. May sleep.
    ///
    /// # Errors
    ///
    /// See [`Self::new`]. After an error there is no queue pair.
    fn create(self: Pin<&mut Self>, config: &QpConfig) -> Result {
        let mut attributes = self.attributes(config)?;
        // SAFETY: No pinned field is moved below.
        let this: *mut Self = unsafe { self.get_unchecked_mut() };
        attributes.qp_context = this.cast();
        // SAFETY: The pointer is that of a valid value. It is not shared, except that the device
        // may report events, for which it is borrowed as here.
        let shared = unsafe { &*this };
        // SAFETY: The completion queue belongs to this value, and nothing completes on it yet.
        unsafe { (*shared.cq.as_ptr()).cq_context = this.cast() };
        shared.pd.attach()?;
        let attached = shared.ident.attach();
        attached.inspect_err(|_| shared.pd.detach())?;
        let made = shared.ident.exclusively(|id| {
            // SAFETY: The cm_id, the protection domain and the attributes are valid. The connection
            // manager compares the device of the protection domain with that of the cm_id.
            to_result(unsafe {
                bindings::rdma_create_qp(id, shared.pd.as_ptr(), &raw mut attributes)
            })
            // SAFETY: After success, the cm_id is valid and has the queue pair.
            .map(|()| unsafe { (*id).qp })
        });
        let qp = made.inspect_err(|_| {
            shared.ident.detach();
            shared.pd.detach();
        })?;
        // INVARIANT: The queue pair was created through `ident`, with this value as its context.
        // SAFETY: `this` is valid, and no event reads the two fields. The queue pair is valid, and
        // its number is constant. It is destroyed only after its receive queue was closed.
        unsafe {
            (*this).qp = qp;
            (*this).number = (*qp).qp_num;
            (*this).recv_queue.open(qp);
        }
        Ok(())
    }

    /// Describes the queue pair to be created.
    fn attributes(&self, config: &QpConfig) -> Result<bindings::ib_qp_init_attr> {
        let cap = bindings::ib_qp_cap {
            max_send_wr: config.send_wr.checked_add(drain::SEND_WRS).ok_or(EINVAL)?,
            max_recv_wr: config.recv_max.checked_add(drain::RECV_WRS).ok_or(EINVAL)?,
            max_send_sge: config.send_sge,
            max_recv_sge: 1,
            ..pin_init::zeroed()
        };
        Ok(bindings::ib_qp_init_attr {
            event_handler: Some(Self::on_event),
            send_cq: self.cq.as_ptr(),
            recv_cq: self.cq.as_ptr(),
            cap,
            sq_sig_type: bindings::ib_sig_type_IB_SIGNAL_REQ_WR,
            qp_type: bindings::ib_qp_type_IB_QPT_RC,
            ..pin_init::zeroed()
        })
    }
}
