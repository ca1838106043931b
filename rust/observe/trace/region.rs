// SPDX-License-Identifier: GPL-2.0

//! Events in the life of a registered memory region.

use super::{Region, Task};

events! {
    /// Memory was mapped for DMA, and its registration was built.
    fn mr_map(task: Task, region: Region) => xprtrdma_mr_map {
        task_id: task.task_id,
        client_id: task.client_id,
        mr_id: region.mr_id,
        nents: region.nents as i32,
        handle: region.segment.handle,
        length: region.segment.length,
        offset: region.segment.offset,
        dir: region.access as u32,
    }

    /// The registration is being posted: from now on the peer can reach the memory.
    fn mr_fastreg(task: Task, region: Region) => xprtrdma_mr_fastreg {
        task_id: task.task_id,
        client_id: task.client_id,
        mr_id: region.mr_id,
        nents: region.nents as i32,
        handle: region.segment.handle,
        length: region.segment.length,
        offset: region.segment.offset,
        dir: region.access as u32,
    }

    /// A LOCAL_INV is being posted.
    fn mr_localinv(task: Task, region: Region) => xprtrdma_mr_localinv {
        task_id: task.task_id,
        client_id: task.client_id,
        mr_id: region.mr_id,
        nents: region.nents as i32,
        handle: region.segment.handle,
        length: region.segment.length,
        offset: region.segment.offset,
        dir: region.access as u32,
    }

    /// The peer has invalidated the region with its reply.
    fn mr_reminv(task: Task, region: Region) => xprtrdma_mr_reminv {
        task_id: task.task_id,
        client_id: task.client_id,
        mr_id: region.mr_id,
        nents: region.nents as i32,
        handle: region.segment.handle,
        length: region.segment.length,
        offset: region.segment.offset,
        dir: region.access as u32,
    }

    /// The memory was unmapped: neither peer nor device can reach it any more.
    fn mr_unmap(region: Region) => xprtrdma_mr_unmap {
        mr_id: region.mr_id,
        nents: region.nents as i32,
        handle: region.segment.handle,
        length: region.segment.length,
        offset: region.segment.offset,
        dir: region.access as u32,
    }

    /// An RPC ended without a reply, or is to be sent again, while its regions were registered.
    fn mrs_zap(task: Task) => xprtrdma_mrs_zap {
        task_id: task.task_id,
        client_id: task.client_id,
    }
}
