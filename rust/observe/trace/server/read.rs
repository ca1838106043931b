// SPDX-License-Identifier: GPL-2.0

//! Events of RDMA Reads.

use kernel::time::{Instant, Monotonic};

use crate::observe::trace::{Cid, Source, WcStatus};
use crate::wire::Segment;

/// The time at which RDMA Reads were posted. It is not read while [`wc_read`] is disabled.
#[derive(Clone, Copy)]
pub(crate) struct Posted(Option<Instant<Monotonic>>);

impl Posted {
    /// No time: nothing was posted.
    pub(crate) const NEVER: Self = Self(None);

    /// Returns the current time.
    #[inline(always)]
    pub(crate) fn now() -> Self {
        #[cfg(CONFIG_TRACEPOINTS)]
        if event_enabled!(crate::raw::__tracepoint_svcrdma_wc_read) {
            return Self(Some(Instant::now()));
        }
        Self(None)
    }

    /// Returns the microseconds since then; zero if the event was disabled then.
    fn elapsed_us(&self) -> i64 {
        self.0.map_or(0, |then| then.elapsed().as_micros_ceil())
    }
}

events! {
    /// Traces that the RDMA Reads of a call were posted: so many work requests.
    fn post_read_chunk(cid: Cid, work_requests: u32) => svcrdma_post_read_chunk {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        sqecount: work_requests as i32,
    }

    /// Traces that the RDMA Reads of a call, which were `posted` then, have completed. They have
    /// read `bytes`.
    fn wc_read(cid: Cid, bytes: u32, posted: Posted) => svcrdma_wc_read {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        read_latency: posted.elapsed_us(),
        totalbytes: bytes,
    }

    /// Traces that an RDMA Read was flushed, because the connection has ended.
    fn wc_read_flush(cid: Cid, wc: WcStatus) => svcrdma_wc_read_flush {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }

    /// Traces that an RDMA Read has failed.
    fn wc_read_err(cid: Cid, wc: WcStatus) => svcrdma_wc_read_err {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }

    /// Traces that a thread of nfsd has taken a call whose RDMA Reads have completed.
    fn read_finished(cid: Cid) => svcrdma_read_finished {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
    }

    /// Traces that the `nents` pieces of local memory for a segment of the requester could not be
    /// mapped. `status` is the negative errno.
    fn dma_map_rw_err(cq_id: u32, segment: &'a Segment, nents: u32, status: i32)
        => svcrdma_dma_map_rw_err {
        cq_id: cq_id,
        handle: segment.handle,
        offset: segment.offset,
        nents: nents,
        status: status,
    }
}

/// Traces the failure of an RDMA Read, with [`wc_read_flush`] or [`wc_read_err`].
#[cold]
pub(crate) fn read_failed(cid: impl Source<Cid>, wc: WcStatus) {
    if wc.is_flush() {
        wc_read_flush(cid, wc);
    } else {
        wc_read_err(cid, wc);
    }
}
