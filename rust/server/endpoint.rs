// SPDX-License-Identifier: GPL-2.0

//! A connection with what a responder needs beside it.

use core::ops::Deref;

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};
use kernel::workqueue::{Work, WorkItem};

use super::breach;
use super::budget::Waiter;
use super::config::MAX_REQ_SIZE;
use super::flights::PROBE;
use super::outgoing::Outgoing;
use super::release;
use super::responder::Responder;
use super::service::Service;
use super::session;
use super::watch::{Measure, Seen, Watched};
use crate::conn::connection::{Connection, Parts};
use crate::conn::registry::Enrolled;
use crate::observe::stats::RequesterBreach;
use crate::proto::responder::limits::Limits;
use crate::rdma::qp::PostError;
use crate::rdma::send::SendBuf;

/// A responder's connection. It is separate from SUNRPC's transport: when that is detached, a
/// worker closes the connection, so that a device can be removed although the service still works
/// on calls.
#[pin_data]
pub(crate) struct Endpoint {
    #[pin]
    conn: Connection<Responder>,
    /// What the watch has seen. Only the watch changes it.
    #[pin]
    seen: SpinLock<Seen>,
    /// The entry that shows the connection, from when it is accepted until it is closed.
    #[pin]
    enrolled: SpinLock<Option<Enrolled>>,
    #[pin]
    close: Work<Endpoint>,
}

kernel::impl_has_work! {
    impl HasWork<Self> for Endpoint { self.close }
}

impl Deref for Endpoint {
    type Target = Connection<Responder>;

    #[inline]
    fn deref(&self) -> &Connection<Responder> {
        &self.conn
    }
}

impl Endpoint {
    /// Makes an endpoint of the parts of a connection. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(parts: Parts<Responder>) -> Result<Arc<Self>> {
        Arc::try_pin_init(
            try_pin_init!(Self {
                conn <- Connection::new(parts),
                seen <- new_spinlock!(Seen::default(), "rpcrdma::Endpoint::seen"),
                enrolled <- new_spinlock!(None, "rpcrdma::Endpoint::enrolled"),
                close <- kernel::new_work!("rpcrdma::Endpoint::close"),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Returns the looks in a row before which no message had arrived.
    pub(super) fn silent(&self) -> u32 {
        self.seen.lock().silent()
    }

    /// Sets the entry that shows the connection.
    pub(super) fn set_enrolled(&self, enrolled: Enrolled) {
        *self.enrolled.lock() = Some(enrolled);
    }

    /// Returns the responder's part of the connection.
    #[inline]
    pub(super) fn role(&self) -> &Responder {
        self.shared().role()
    }

    /// Returns what a call may ask for.
    #[inline]
    pub(super) fn limits(&self) -> &Limits {
        &self.role().limits
    }

    /// Returns a send buffer of at least `len` bytes that the device does not use. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EIO` if the device cannot map it.
    #[inline(always)]
    pub(super) fn send_buffer(&self, len: u32) -> Result<SendBuf> {
        // CAST: `usize` has at least 32 bits.
        let len = len as usize;
        // A buffer that was made for a lower threshold is freed.
        let free = self.role().flights.send_buffer();
        if let Some(buf) = free.filter(|buf| buf.capacity() >= len) {
            return Ok(buf);
        }
        SendBuf::new(self.pd(), len, GFP_KERNEL)
    }

    /// Posts a message, now or when there is room on the send queue, or closes the connection. Does
    /// not sleep.
    #[inline(always)]
    pub(super) fn send(&self, out: Outgoing) {
        release::posted(self.shared(), self.role().flights.send(self.qp(), out));
    }

    /// Posts a message without RDMA Writes, which invalidates `rkey`, as [`Self::send`] does.
    #[inline(always)]
    pub(super) fn send_inline(&self, buf: SendBuf, len: usize, rkey: Option<u32>) {
        let flights = &self.role().flights;
        release::posted(
            self.shared(),
            flights.send_inline(self.qp(), buf, len, rkey),
        );
    }

    /// Returns whether the connection has pages for which other connections wait.
    fn hoards(&self) -> bool {
        let role = self.role();
        role.budget.is_short_beside(self) && role.pages_used() != 0
    }

    /// Has a worker close the connection and drop `this`.
    pub(super) fn close_later(this: Arc<Self>, service: &Service) {
        // The queue refuses an item that is queued already, and that one suffices.
        let _ = service.workers.kernel().enqueue(this);
    }
}

impl Watched for Endpoint {
    fn look(&self) {
        session::look(self, MAX_REQ_SIZE.get());
        // Completions of other Sends have told of the last replies, and freed nothing.
        release::sent_quietly(self.shared(), self.qp());
        release::resume_parked(self.shared(), self.qp());
        if let Some(xid) = self.role().exposures.overdue() {
            return breach::close(self.shared(), xid, RequesterBreach::NoDone);
        }
        let (retired, outstanding) = (self.qp().retired(), self.qp().has_outstanding());
        let heard = self.shared().take_heard();
        let hoards = self.hoards();
        let measure = self.seen.lock().look(retired, outstanding, heard, hoards);
        let probed = match measure {
            Measure::Nothing => return,
            Measure::Probe => self.qp().post_probe(PROBE),
            Measure::Close => return breach::close(self.shared(), 0, RequesterBreach::Slow),
        };
        match probed {
            Ok(_) => self.shared().tally().probe(),
            // A full queue has work requests that are outstanding, and needs no probe.
            Err(PostError::Full) => {}
            Err(PostError::Broken(_) | PostError::Invalid) => self.shared().force_close(),
        }
    }
}

impl Waiter for Endpoint {
    fn pages_freed(&self) {
        if self.role().refill() {
            self.shared().owner().data_arrived();
        }
    }
}

impl WorkItem for Endpoint {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // No reader uses the connection any more when it is closed.
        let enrolled = this.enrolled.lock().take();
        drop(enrolled);
        this.close();
        // The client transport may be closed by a thread of the service.
        this.shared().owner().route().end();
        // A thread of the service may have waited since the transport was detached.
        this.role().budget.forget(&*this);
        this.role().clear();
    }
}
