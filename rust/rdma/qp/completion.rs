// SPDX-License-Identifier: GPL-2.0

//! Completions: the trait of the consumer of a queue pair, and the handlers that `ib_core` calls.

use kernel::ffi::c_void;
use kernel::sync::atomic::Full as FullOrder;

use super::sq::{RetireError, Retired};
use super::tag::Tag;
use super::Qp;
use crate::raw as bindings;
use crate::rdma::recv::Received;

/// The failure of a work request (`struct ib_wc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WcError {
    /// The status (`enum ib_wc_status`).
    pub(crate) status: u32,
    /// The error code of the device's vendor.
    pub(crate) vendor: u32,
    /// The opcode (`enum ib_wc_opcode`), which is not reliable for a failed work request.
    pub(crate) opcode: u32,
}

impl WcError {
    /// Returns whether the work request was flushed: it did not fail itself, but was outstanding
    /// when the queue pair went into the error state.
    pub(crate) fn is_flush(&self) -> bool {
        self.status == bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR
    }

    /// Returns whether the peer's device has not acknowledged the work request, after all
    /// retransmissions.
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

    /// Returns the error for a failure that no work request reported.
    fn general() -> Self {
        Self {
            status: bindings::ib_wc_status_IB_WC_GENERAL_ERR,
            vendor: 0,
            opcode: 0,
        }
    }
}

/// The consumer of a queue pair's completions.
///
/// The methods are called in process context, by a worker whose workqueue has `WQ_MEM_RECLAIM`. For
/// one queue pair they are called one after the other. They must not drain or drop the queue pair,
/// and must not wait for anything that itself waits for completions.
///
/// # Examples
///
/// A consumer that records completions, and wakes the task that waits for them:
///
/// ```
/// impl Completions for Outcome {
///     const HOLDS: bool = true;
///
///     fn received(&self, _qp: &Qp<Self>, msg: Received<'_, Self>) {
///         let bytes = msg.bytes().try_into().ok();
///         self.completed.change(|h| {
///             if let Some(region) = &mut h.offered {
///                 h.invalidated = region.remotely_invalidated(&msg);
///             }
///             h.message = bytes;
///             // ...
///         });
///     }
///
///     fn sent(&self, _qp: &Qp<Self>, _tag: Tag, outcome: Result<(), WcError>) {
///         // ...
///         self.completed.change(|h| match outcome {
///             Ok(()) => h.sent += 1,
///             Err(error) => {
///                 h.failed.get_or_insert(error);
///             }
///         });
///     }
///
///     fn broken(&self, _qp: &Qp<Self>, error: WcError) {
///         self.completed.change(|h| h.broken = Some(error));
///     }
///     // ...
/// }
/// ```
pub(crate) trait Completions: Sized + Send + Sync + 'static {
    /// Whether the consumer calls [`Received::hold`]. Receives are then returned from several
    /// threads, and the completion worker does not gather a batch of its own.
    const HOLDS: bool = false;

    /// Handles a message that has arrived. When `msg` is dropped, its buffer is posted again.
    fn received(&self, qp: &Qp<Self>, msg: Received<'_, Self>);

    /// Handles the outcome of a work request of `tag`: a signalled work request has completed, or
    /// any work request has failed or was flushed. In the latter case this may be called several
    /// times for one tag.
    fn sent(&self, qp: &Qp<Self>, tag: Tag, outcome: Result<(), WcError>);

    /// Handles the loss of the connection: a Receive has failed, was flushed before
    /// [`Qp::expect_flush`], or could not be posted; or the device reported an error of the queue
    /// pair. Of several flushed Receives, the first is reported.
    fn broken(&self, qp: &Qp<Self>, error: WcError);

    /// Handles a Receive that was consumed by an RDMA Write with immediate data, so that its buffer
    /// contains no new message. RPC-over-RDMA does not use that operation. Nothing can be posted on
    /// the send queue any more.
    fn not_a_send(&self, qp: &Qp<Self>, _opcode: u32) {
        self.broken(qp, WcError::general());
    }

    /// Reports an event of the queue pair (`enum ib_event_type`) that the device reports
    /// asynchronously and that is not part of a connection's ordinary life. Unlike the other
    /// methods, it is called in any context.
    fn event(&self, _event: u32) {}

    /// Called when the send queue has space, after a chain was refused with
    /// [`PostError::Full`](super::PostError::Full).
    fn room(&self, _qp: &Qp<Self>) {}
}

impl<C: Completions> Qp<C> {
    /// Reports to the connection manager that a message arrived, so that it does not wait for the
    /// last message of the handshake if that is lost. Only the side that accepts calls this. Any
    /// context.
    pub(crate) fn note_established(&self) {
        self.ident.note_established();
    }

    /// Returns whether this is the first flushed Receive, and it was not expected.
    fn is_first_flush(&self) -> bool {
        !self.flushed.xchg(true, FullOrder)
    }

    /// Handles the completion of a work request of the send queue.
    ///
    /// # Safety
    ///
    /// Called by `ib_core` with a completion of a work request whose entry is in `tags`, on the
    /// completion queue of a `Qp<C>` that exists.
    pub(super) unsafe extern "C" fn send_done(cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // SAFETY: `create` has set the context of the completion queue to the `Qp<C>` which, the
        // caller promises, exists. `ib_core` passes a valid completion.
        let (qp, wc) = unsafe { (Self::of_cq(cq), &*wc) };
        // SAFETY: `ib_core` has found this function through the pointer.
        let tag = qp.tags.of_entry(unsafe { wc.__bindgen_anon_1.wr_cqe });
        if wc.status != bindings::ib_wc_status_IB_WC_SUCCESS {
            qp.progress.set_broken();
            qp.consumer.sent(qp, tag, Err(WcError::of(wc)));
            return;
        }
        let retired = qp.sending.lock().queue.retire(tag.get());
        match retired {
            Ok(retired) => qp.pass_on(tag, retired),
            Err(RetireError::Early) => {}
            Err(RetireError::Unknown) => {
                // The device or its driver has reported an impossible completion.
                qp.progress.set_broken();
                qp.consumer.broken(qp, WcError::general());
            }
        }
    }

    /// Reports a work request that has completed, and those behind it that completed before.
    #[inline(always)]
    fn pass_on(&self, tag: Tag, retired: Retired) {
        self.report(tag, retired);
        if retired.more {
            self.pass_early_on();
        }
    }

    /// Reports work requests that completed before older ones, which are not outstanding any more.
    #[cold]
    fn pass_early_on(&self) {
        loop {
            let early = self.sending.lock().queue.retire_early();
            let Some((tag, retired)) = early else {
                break;
            };
            self.report(Tag::new(tag), retired);
        }
    }

    /// Reports to the consumer a work request that has completed in its turn.
    #[inline(always)]
    fn report(&self, tag: Tag, retired: Retired) {
        self.progress.retire(retired.position);
        if retired.wanted {
            self.consumer.sent(self, tag, Ok(()));
        }
        if retired.room {
            self.consumer.room(self);
        }
    }

    /// Handles the completion of a Receive.
    ///
    /// # Safety
    ///
    /// Called by `ib_core`, once for each completion of a Receive of `recv_queue`, on the
    /// completion queue of a `Qp<C>` that exists.
    pub(super) unsafe extern "C" fn recv_done(cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // SAFETY: `create` has set the context of the completion queue to the `Qp<C>` which, the
        // caller promises, exists. `ib_core` passes a valid completion.
        let (qp, wc) = unsafe { (Self::of_cq(cq), &*wc) };
        // SAFETY: `ib_core` calls this from the completion worker.
        unsafe { qp.recv_queue.note_completed() };
        if wc.status == bindings::ib_wc_status_IB_WC_SUCCESS {
            if wc.opcode != bindings::ib_wc_opcode_IB_WC_RECV {
                qp.progress.set_broken();
                return qp.consumer.not_a_send(qp, wc.opcode);
            }
            // SAFETY: The Receive has completed successfully, and the caller promises that it
            // belongs to this queue pair and is passed once. `qp` is borrowed for this function.
            let msg = unsafe { Received::new(qp, wc) };
            qp.consumer.received(qp, msg);
            if qp.progress.take_fatal() {
                qp.consumer.broken(qp, WcError::general());
            }
            return;
        }
        let error = WcError::of(wc);
        qp.progress.set_broken();
        // The first flush is always reported: it may be the only sign of an error that the device
        // reports late or not at all.
        if !error.is_flush() || qp.progress.take_fatal() || qp.is_first_flush() {
            qp.consumer.broken(qp, error);
        }
    }

    /// Handles an event of the queue pair that the device reports asynchronously. This may happen
    /// in any context, so an error is only recorded; the Receives, which the device flushes next,
    /// report it. The connection manager is notified of a message that arrived before the end of
    /// the handshake.
    ///
    /// # Safety
    ///
    /// Called by the device's driver with the context set in `create`, before the queue pair has
    /// been destroyed.
    pub(super) unsafe extern "C" fn on_event(event: *mut bindings::ib_event, context: *mut c_void) {
        // SAFETY: The context is a `Qp<C>`, which outlives its queue pair. The driver passes a
        // valid event.
        let (qp, event) = unsafe { (&*context.cast::<Self>(), (*event).event) };
        if event == bindings::ib_event_type_IB_EVENT_COMM_EST {
            qp.ident.note_established();
        }
        if !is_harmless(event) {
            qp.consumer.event(event);
        }
        if matches!(
            event,
            bindings::ib_event_type_IB_EVENT_QP_FATAL
                | bindings::ib_event_type_IB_EVENT_QP_REQ_ERR
                | bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR
        ) {
            qp.progress.set_fatal();
        }
    }

    /// Returns the queue pair that completes on `cq`.
    ///
    /// # Safety
    ///
    /// The context of `cq` is a `Qp<C>` that exists during `'a`.
    unsafe fn of_cq<'a>(cq: *mut bindings::ib_cq) -> &'a Self {
        // SAFETY: The caller promises a valid completion queue, and what its context is.
        unsafe { &*(*cq).cq_context.cast() }
    }
}

/// Returns whether an event of a queue pair is part of a connection's ordinary life.
const fn is_harmless(event: u32) -> bool {
    matches!(
        event,
        bindings::ib_event_type_IB_EVENT_COMM_EST
            | bindings::ib_event_type_IB_EVENT_SQ_DRAINED
            | bindings::ib_event_type_IB_EVENT_PATH_MIG
            | bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED
    )
}
