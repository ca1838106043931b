// SPDX-License-Identifier: GPL-2.0

//! A connection with what a responder needs beside it.

use core::ops::Deref;

use kernel::error::code::ENOBUFS;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};
use kernel::workqueue::{Work, WorkItem};

use super::breach;
use super::budget::Waiter;
use super::flights::{Outgoing, PROBE};
use super::responder::Responder;
use super::service::Service;
use super::watch::{Measure, Seen, Watched};
use crate::conn::connection::{Connection, Parts};
use crate::observe::stats::RequesterBreach;
use crate::observe::trace;
use crate::proto::responder::limits::Limits;
use crate::rdma::mr::MrPool;
use crate::rdma::qp::{PostError, Remote};
use crate::rdma::scatter::Sink;
use crate::rdma::send::SendBuf;
use crate::wire::Segment;

/// The most memory regions for RDMA Reads of one connection.
const MOST_REGIONS: u32 = 256;
/// The regions that are made when there are too few.
const MORE_REGIONS: u32 = 8;

/// A responder's connection. It is separate from SUNRPC's transport: when that is detached, a
/// worker closes the connection, so that a device can be removed although the service still works
/// on calls.
#[pin_data]
pub(crate) struct Endpoint {
    #[pin]
    conn: Connection<Responder>,
    /// Regions for RDMA Reads, where the device needs them.
    sinks: Option<Arc<MrPool>>,
    limits: Limits,
    /// What the watch has seen. Only the watch changes it.
    #[pin]
    seen: SpinLock<Seen>,
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
    pub(super) fn new(
        parts: Parts<Responder>,
        sinks: Option<Arc<MrPool>>,
        limits: Limits,
    ) -> Result<Arc<Self>> {
        Arc::try_pin_init(
            try_pin_init!(Self {
                conn <- Connection::new(parts),
                sinks,
                limits,
                seen <- new_spinlock!(Seen::default(), "rpcrdma::Endpoint::seen"),
                close <- kernel::new_work!("rpcrdma::Endpoint::close"),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Returns the responder's part of the connection.
    #[inline]
    pub(super) fn role(&self) -> &Responder {
        self.shared().role()
    }

    /// Returns what a call may ask for.
    #[inline]
    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Adds an RDMA Read to a call that is to be fetched. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`Sink::read`].
    pub(super) fn read(&self, sink: &mut Sink, at: usize, len: u32, from: Remote) -> Result {
        let read = sink.read(at, len, from, self.limits.sges, self.sinks.as_ref());
        read.inspect_err(|error| self.unmapped(from, len, *error))
    }

    /// Traces that the memory for `len` bytes of the requester's memory could not be mapped.
    #[cold]
    pub(super) fn unmapped(&self, remote: Remote, len: u32, error: Error) {
        let segment = Segment {
            handle: remote.rkey,
            length: len,
            offset: remote.addr,
        };
        // CAST: a small constant.
        let pages = len.div_ceil(PAGE_SIZE as u32);
        trace::server::dma_map_rw_err(self.qp().cq_id(), &segment, pages, error.to_errno());
    }

    /// Makes more memory regions for RDMA Reads. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` if there are as many as allowed; `ENOMEM`, or another error of the device.
    #[cold]
    pub(super) fn grow_regions(&self) -> Result {
        let pool = self.sinks.as_ref().ok_or(ENOBUFS)?;
        if pool.total() >= MOST_REGIONS {
            return Err(ENOBUFS);
        }
        pool.grow(MORE_REGIONS)
    }

    /// Returns a send buffer that the device does not use. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EIO` if the device cannot map it.
    #[inline]
    pub(super) fn send_buffer(&self) -> Result<SendBuf> {
        if let Some(buf) = self.role().flights.send_buffer() {
            return Ok(buf);
        }
        // CAST: `usize` has at least 32 bits.
        let len = self.terms().thresholds.server_to_client as usize;
        SendBuf::new(self.pd(), len, GFP_KERNEL)
    }

    /// Posts a message, now or when there is room on the send queue, or closes the connection. Does
    /// not sleep.
    #[inline]
    pub(super) fn send(&self, out: Outgoing) {
        if self.role().flights.send(self.qp(), out).is_err() {
            self.shared().force_close();
        }
    }

    /// Has a worker close the connection and drop `this`.
    pub(super) fn close_later(this: Arc<Self>, service: &Service) {
        // The queue refuses an item that is queued already, and that one suffices.
        let _ = service.workers.kernel().enqueue(this);
    }
}

impl Watched for Endpoint {
    fn look(&self) {
        let (retired, outstanding) = (self.qp().retired(), self.qp().has_outstanding());
        let heard = self.shared().take_heard();
        let measure = self.seen.lock().look(retired, outstanding, heard);
        let probed = match measure {
            Measure::Nothing => return,
            Measure::Probe => self.qp().post_probe(PROBE),
            Measure::Close => return breach::close(self.shared(), 0, RequesterBreach::Slow),
        };
        // A full queue has work requests that are outstanding, and needs no probe.
        if matches!(probed, Err(PostError::Broken(_) | PostError::Invalid)) {
            self.shared().force_close();
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
        this.close();
        this.role().clear();
    }
}
