// SPDX-License-Identifier: GPL-2.0

//! Events of memory regions.

use super::{Region, Source, Task};

events! {
    /// Traces that memory was mapped for DMA, and that its registration was prepared.
    fn mr_map(task: Task, region: Region) => xprtrdma_mr_map {
        task_id: task.task_id,
        client_id: task.client_id,
        mr_id: region.mr_id,
        nents: region.nents as i32,
        handle: region.segment.handle,
        length: region.segment.length,
        offset: region.segment.offset,
        dir: region.direction as u32,
    }

    /// Traces that a registration is being posted, so that the peer can access the memory.
    fn mr_fastreg(task: Task, region: Region) => xprtrdma_mr_fastreg {
        task_id: task.task_id,
        client_id: task.client_id,
        mr_id: region.mr_id,
        nents: region.nents as i32,
        handle: region.segment.handle,
        length: region.segment.length,
        offset: region.segment.offset,
        dir: region.direction as u32,
    }

    /// Traces that a LOCAL_INV is being posted.
    fn mr_localinv(task: Task, region: Region) => xprtrdma_mr_localinv {
        task_id: task.task_id,
        client_id: task.client_id,
        mr_id: region.mr_id,
        nents: region.nents as i32,
        handle: region.segment.handle,
        length: region.segment.length,
        offset: region.segment.offset,
        dir: region.direction as u32,
    }

    /// Traces that the peer has invalidated the region with its reply.
    fn mr_reminv(task: Task, region: Region) => xprtrdma_mr_reminv {
        task_id: task.task_id,
        client_id: task.client_id,
        mr_id: region.mr_id,
        nents: region.nents as i32,
        handle: region.segment.handle,
        length: region.segment.length,
        offset: region.segment.offset,
        dir: region.direction as u32,
    }

    /// Traces that the memory was unmapped: neither peer nor device can access it any more.
    fn mr_unmap(region: Region) => xprtrdma_mr_unmap {
        mr_id: region.mr_id,
        nents: region.nents as i32,
        handle: region.segment.handle,
        length: region.segment.length,
        offset: region.segment.offset,
        dir: region.direction as u32,
    }

    /// Traces that an RPC has ended without a reply, or will be sent again, while its regions were
    /// registered.
    fn mrs_zap(task: Task) => xprtrdma_mrs_zap {
        task_id: task.task_id,
        client_id: task.client_id,
    }
}

/// Traces with [`mr_fastreg`] that the registrations of `regions` are being posted.
#[inline(always)]
pub(crate) fn mr_fastregs<I: Iterator<Item: Source<Region>>>(
    task: impl Source<Task> + Copy,
    regions: impl FnOnce() -> I,
) {
    #[cfg(CONFIG_TRACEPOINTS)]
    if event_enabled!(crate::raw::__tracepoint_xprtrdma_mr_fastreg) {
        for region in regions() {
            mr_fastreg(task, region);
        }
    }
    #[cfg(not(CONFIG_TRACEPOINTS))]
    let _ = (task, regions);
}

/// Traces with [`mr_unmap`] that the memory of `regions` was, or is being, unmapped.
#[inline(always)]
pub(crate) fn mr_unmaps<I: Iterator<Item: Source<Region>>>(regions: impl FnOnce() -> I) {
    #[cfg(CONFIG_TRACEPOINTS)]
    if event_enabled!(crate::raw::__tracepoint_xprtrdma_mr_unmap) {
        for region in regions() {
            mr_unmap(region);
        }
    }
    #[cfg(not(CONFIG_TRACEPOINTS))]
    let _ = regions;
}
