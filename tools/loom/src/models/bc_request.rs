// SPDX-License-Identifier: GPL-2.0

//! A request for the server's calls: the context that sets `busy` owns the request and its memory.

use std::ptr::NonNull;

use kernel::sync::atomic::{Acquire, Atomic, Release};

use super::{parts, spawn, Memory, Shared};
use crate::Model;

//< sunrpc/xprt/backchannel.rs
//<   impl BcRequest { take from_rqst }
//<   fn free
parts!("bc_request");

pub(crate) const MODEL: Model = Model {
    name: "bc_request",
    runs: &[("a request is taken again", taken_again)],
    spare: &[],
};

/// The request, as far as it is accessed here.
#[repr(C)]
struct BcRequest {
    rqst: raw::rpc_rqst,
    busy: Atomic<bool>,
    memory: Memory,
}

mod raw {
    pub(crate) struct rpc_rqst {
        pub(super) rq_xprt: u32,
    }

    /// SUNRPC's reference keeps the transport, which the model does not free.
    pub(super) unsafe fn xprt_put(_xprt: u32) {}
}

/// Two workers take the request, fill it, and free it, as SUNRPC does when the call has ended.
fn taken_again() {
    let request = Shared::new(BcRequest {
        rqst: raw::rpc_rqst { rq_xprt: 1 },
        busy: Atomic::new(false),
        memory: Memory::new(),
    });
    request.busy.settle();
    let deliver = move || {
        if request.take() {
            request.memory.write();
            // SAFETY: The request is embedded in a `BcRequest`, and was taken.
            unsafe { free(NonNull::from(&request.rqst)) };
        }
    };
    let other = spawn(deliver);
    deliver();
    other.join().unwrap();
}
