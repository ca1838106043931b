// SPDX-License-Identifier: GPL-2.0

//! A client transport for SUNRPC in one page, which replies to each call itself.
//!
//! A call of procedure 0 (NULL, the "ping" with which a mount begins) succeeds, any other call gets
//! "procedure unavailable". Nothing leaves the machine. The sample shows what a transport
//! implements, and that the room `sunrpc` does not depend on `rdma`: only `raw`, `mem`, `text`,
//! `work` and `sunrpc` are used.
//!
//! ```text
//! insmod rpc_null.ko
//! mount -o vers=4.2,proto=rdma 192.0.2.1:/ /mnt       # NULL succeeds; mount system call failed
//! rmmod rpc_null
//! insmod rpc_null.ko refuse=1
//! mount -o vers=4.2,proto=rdma 192.0.2.1:/ /mnt       # Connection refused
//! ```
//!
//! It registers under the name of the RDMA transport, which must not be loaded: NFS has no name for
//! another transport.

#![allow(dead_code, unused_imports, unused_macros)]

use kernel::prelude::*;
use kernel::seq_file::SeqFile;
use kernel::seq_print;

#[path = "../rust/raw.rs"]
mod raw;
#[path = "../rust"]
mod rooms {
    pub(crate) mod compat;
    pub(crate) mod mem;
    pub(crate) mod sunrpc;
    pub(crate) mod work;
}
#[path = "../rust/text.rs"]
mod text;
use rooms::{compat, mem, sunrpc, work};

use sunrpc::xprt::backchannel::BackchannelReply;
use sunrpc::xprt::class::{self, ClassRegistration};
use sunrpc::xprt::rqst::Rqst;
use sunrpc::xprt::transport::{ConnectError, SendError, Transport};
use sunrpc::xprt::Xprt;

/// Number of words at the start of a call: XID, direction, RPC version, program, version,
/// procedure.
const CALL_WORDS: usize = 6;
/// `SUCCESS` and `PROC_UNAVAIL` of RFC 5531.
const SUCCESS: u32 = 0;
const PROC_UNAVAIL: u32 = 3;

/// The transport.
struct Null {
    refuse: bool,
}

#[vtable]
impl Transport for Null {
    type Slot = ();
    /// `true` if all connections are refused.
    type Context = bool;

    /// `XPRT_TRANSPORT_RDMA`.
    const IDENT: i32 = 256;
    const NAME: &'static CStr = c"rdma";
    const NETIDS: [&'static CStr; 2] = [c"rdma", c"rdma6"];
    const PROTO: &'static CStr = c"rdma";

    fn slots() -> u32 {
        4
    }

    fn max_payload() -> usize {
        65536
    }

    fn new(_slots: u32, refuse: &bool) -> impl PinInit<Self, Error> {
        Ok(Self { refuse: *refuse })
    }

    fn new_slot(_index: u32) -> impl PinInit<(), Error> {
        Ok(())
    }

    fn close(&self, _xprt: &Xprt<Self>) {}

    fn destroy(&self, _xprt: &Xprt<Self>) {}

    fn stats(&self, xprt: &Xprt<Self>, out: &SeqFile) {
        seq_print!(out, "\txprt:\trpc_null {}\n", xprt.counts());
    }

    fn prepare(&self, _xprt: &Xprt<Self>, _rqst: Rqst<'_, Self>) -> Result {
        Ok(())
    }

    fn send(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) -> Result<(), SendError> {
        if !xprt.take_credit(&rqst) {
            return Err(SendError::NoCredit);
        }
        let mut call = [0; CALL_WORDS * 4];
        rqst.send_buf()
            .copy_to(0, &mut call)
            .map_err(|_| SendError::Io)?;
        rqst.mark_sent();
        xprt.set_credits(Self::slots());
        if let Some(mut pending) = xprt.find(rqst.xid()) {
            let placed = pending.place_reply(&answer(&call), None);
            pending.complete(placed.len);
        }
        Ok(())
    }

    fn invalidate_call(&self, _xprt: &Xprt<Self>, _rqst: Rqst<'_, Self>) {}

    fn release(&self, _xprt: &Xprt<Self>, _rqst: Rqst<'_, Self>) {}

    fn connect(&self, xprt: &Xprt<Self>) -> Result<(), ConnectError> {
        if self.refuse {
            return Err(ConnectError::Refused);
        }
        xprt.reset_congestion();
        Ok(())
    }

    /// NFSv4.1 and 4.2 require that a backchannel exists. This transport accepts no call.
    fn send_backchannel_reply(
        &self,
        _xprt: &Xprt<Self>,
        _reply: BackchannelReply<'_>,
    ) -> Result<(), SendError> {
        Ok(())
    }
}

/// Returns the reply to a call: accepted, no verifier.
fn answer(call: &[u8; CALL_WORDS * 4]) -> [u8; 24] {
    let [a, b, c, d, .., w, x, y, z] = *call;
    let stat = if u32::from_be_bytes([w, x, y, z]) == 0 {
        SUCCESS
    } else {
        PROC_UNAVAIL
    };
    // XID, REPLY, MSG_ACCEPTED, AUTH_NONE, length 0, status.
    let words = [u32::from_be_bytes([a, b, c, d]), 1, 0, 0, 0, stat];
    let mut reply = [0; 24];
    for (to, word) in reply.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_be_bytes());
    }
    reply
}

struct NullModule {
    _class: ClassRegistration<Null>,
}

module! {
    type: NullModule,
    name: "rpc_null",
    authors: ["The rpcrdma-rust developers"],
    description: "Sample: an RPC transport that replies to each call itself",
    license: "GPL",
    params: {
        refuse: u8 {
            default: 0,
            description: "Refuse all connections (default 0)",
        },
    },
}

impl kernel::Module for NullModule {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let refuse = compat::parameter!(refuse) != 0;
        // SAFETY: The transport never uses the address of an RPC's memory.
        let class = unsafe { class::register::<Null>(module, refuse) }?;
        Ok(Self { _class: class })
    }
}
