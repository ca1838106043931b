// SPDX-License-Identifier: GPL-2.0

//! Events of completions: those of signalled work requests, and those of failed ones. Other work
//! requests have no completion.

use super::{Cid, WcStatus};

events! {
    /// Traces the completion of a Receive of `received` bytes.
    fn wc_receive(cid: Cid, received: usize, wc: WcStatus) => xprtrdma_wc_receive {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        received: super::count(received),
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }

    /// Traces the failure of a Send or a registration.
    fn wc_send(cid: Cid, wc: WcStatus) => xprtrdma_wc_send {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }

    /// Traces the completion of a probe of the peer.
    fn wc_probe(cid: Cid, wc: WcStatus) => xprtrdma_wc_probe {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }

    /// Traces the failure of a LOCAL_INV.
    fn wc_li(cid: Cid, wc: WcStatus) => xprtrdma_wc_li {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }

    /// Traces the completion of the last LOCAL_INV of an RPC, for which a task is waiting.
    fn wc_li_wake(cid: Cid, wc: WcStatus) => xprtrdma_wc_li_wake {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }

    /// Traces the completion of the last LOCAL_INV of an RPC, which completes the RPC.
    fn wc_li_done(cid: Cid, wc: WcStatus) => xprtrdma_wc_li_done {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }
}
