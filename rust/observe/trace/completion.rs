// SPDX-License-Identifier: GPL-2.0

//! Completions of work requests. Only signalled ones, and those that failed, are seen.

use super::{Cid, WcStatus};

events! {
    /// A Receive completed, with `received` bytes.
    fn wc_receive(cid: Cid, received: usize, wc: WcStatus) => xprtrdma_wc_receive {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        received: super::count(received),
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }

    /// A Send or a registration has failed.
    fn wc_send(cid: Cid, wc: WcStatus) => xprtrdma_wc_send {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }

    /// A probe of the peer completed.
    fn wc_probe(cid: Cid, wc: WcStatus) => xprtrdma_wc_probe {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }

    /// A LOCAL_INV has failed.
    fn wc_li(cid: Cid, wc: WcStatus) => xprtrdma_wc_li {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }

    /// The last LOCAL_INV of an RPC completed, for which a thread is waiting.
    fn wc_li_wake(cid: Cid, wc: WcStatus) => xprtrdma_wc_li_wake {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }

    /// The last LOCAL_INV of an RPC completed, and with it the RPC.
    fn wc_li_done(cid: Cid, wc: WcStatus) => xprtrdma_wc_li_done {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }
}
