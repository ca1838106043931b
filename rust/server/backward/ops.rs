// SPDX-License-Identifier: GPL-2.0

//! The operations of the client transport, which SUNRPC calls.

use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::seq_file::SeqFile;
use kernel::seq_print;
use kernel::sync::Arc;

use super::super::config::MAX_BC_REQUESTS;
use super::super::transport::Server;
use super::answer::Client;
use super::call;
use super::callback::Callback;
use super::slot::Slot;
use crate::sunrpc::svc::xprt::{Connected, SvcXprt};
use crate::sunrpc::xprt::rqst::Rqst;
use crate::sunrpc::xprt::transport::{CreateArgs, SendError, Transport};
use crate::sunrpc::xprt::Xprt;

#[vtable]
impl Transport for Callback {
    type Slot = Slot;
    type Context = ();

    /// `XPRT_TRANSPORT_BC_RDMA`: that of the class `rdma`, with `XPRT_TRANSPORT_BC`.
    const IDENT: i32 = 256 | i32::MIN;
    const NAME: &'static CStr = c"rdma backchannel";
    const NETIDS: [&'static CStr; 2] = [c"rdma", c"rdma6"];
    const PROTO: &'static CStr = c"rdma";
    const BUFFER_SIZE: usize = 2048;

    fn slots() -> u32 {
        MAX_BC_REQUESTS
    }

    fn max_payload() -> usize {
        PAGE_SIZE
    }

    fn new(args: &CreateArgs, _context: &()) -> impl PinInit<Self, Error> {
        Self::init(args.slots)
    }

    fn new_slot(_index: u32) -> impl PinInit<Slot, Error> {
        Slot::new()
    }

    /// The service would go on calling over a transport that is closed for another reason than the
    /// end of its connection. The connection is therefore closed in any case.
    fn close(&self, _xprt: &Xprt<Self>) {
        let Some(ep) = self.take_endpoint() else {
            return;
        };
        ep.shared().owner().route().detach();
        ep.shared().force_close();
    }

    fn destroy(&self, xprt: &Xprt<Self>) {
        self.close(xprt);
    }

    fn stats(&self, xprt: &Xprt<Self>, out: &SeqFile) {
        seq_print!(out, "\txprt:\trdma {}\n", xprt.counts());
    }

    fn attach(&self, xprt: &Xprt<Self>, server: &SvcXprt<Connected>) -> Result {
        let server = server.connection::<Server>().ok_or(EINVAL)?;
        let ep = server.endpoint().ok_or(ENOTCONN)?;
        // CAST: `usize` has at least 32 bits.
        let buffers = MAX_BC_REQUESTS as usize;
        ep.replies().fill(ep.pd(), buffers, call::buffer_len(&ep))?;
        let client = Arc::new(Client::new(xprt.handle(), ep.shared_arc()), GFP_KERNEL)?;
        // Another thread may be attaching a transport to this connection. Then this one has no
        // connection to close.
        let owner = ep.shared().owner();
        owner.route().attach(client)?;
        self.set_endpoint(ep.clone());
        // The worker that closes the connection may have found no caller, or one without it.
        if ep.is_closed() {
            owner.route().end();
            drop(self.take_endpoint());
            return Err(ENOTCONN);
        }
        Ok(())
    }

    fn prepare(&self, _xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) -> Result {
        self.give_up(&rqst);
        match self.endpoint() {
            Some(ep) if !call::fits(&ep, &rqst) => Err(EMSGSIZE),
            _ => Ok(()),
        }
    }

    fn send(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) -> Result<(), SendError> {
        call::send(xprt, &rqst)
    }

    fn invalidate_call(&self, _xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) {
        self.give_up(&rqst);
    }

    fn release(&self, _xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) {
        self.give_up(&rqst);
    }
}

impl Callback {
    /// Gives a call up. If it was sent and not answered, the requester has its credit until it
    /// answers.
    fn give_up(&self, rqst: &Rqst<'_, Self>) {
        // The reference is dropped after the lock of the slot is released.
        let ep = self.endpoint();
        rqst.slot().data().give_up(|| {
            if let Some(ep) = &ep {
                self.credits().given_up(ep.shared());
            }
        });
    }
}
