// SPDX-License-Identifier: GPL-2.0

//! Calls of the server: the callbacks of NFSv4.1 and later (RFC 8167).
//!
//! A call arrives in a Receive like a reply. Its message is copied into a slot that SUNRPC hands to
//! NFS's callback service, and the Receive goes back to the ring at once. The reply comes by way of
//! [`send`], with the send lock held; it takes no credit, since the server has seen to a Receive for
//! it when it made the call.
//!
//! How many calls there may be at a time, and what becomes of one that may not be served, is decided
//! in [`proto::backward`](crate::proto::backward).

use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::endpoint::Endpoint;
use super::link::Link;
use super::names;
use super::request::BACKWARD_TAG;
use super::transport::Client;
use crate::observe::stats::{breach, Breach};
use crate::observe::trace::{self, Task};
use crate::proto::backward::{self, Refusal, CREDITS};
use crate::proto::inline::Thresholds;
use crate::rdma::pd::Pd;
use crate::rdma::qp::PostError;
use crate::rdma::send::SendBuf;
use crate::sunrpc::xprt::backward::{BackwardReply, Undelivered, MAX_CALL};
use crate::sunrpc::xprt::transport::SendError;
use crate::sunrpc::xprt::Xprt;
use crate::wire::message::ErrorBody;
use crate::wire::{Direction, Message};

/// Send buffers for replies: one for each call that may be outstanding.
const BUFFERS: usize = CREDITS as usize;

/// Longest message of a backward call or reply over a connection with these thresholds.
pub(super) fn max_message(thresholds: &Thresholds) -> u32 {
    // CAST: A page is small.
    backward::max_message(thresholds, PAGE_SIZE as u32)
}

/// Handles a call. Completion worker; does not sleep.
pub(super) fn receive(link: &Link, header: &Message<'_>) {
    let peer = names::peer(link.xprt());
    trace::cb_call(peer, header.xid());
    let Err(refusal) = accept(link, header) else {
        return;
    };
    trace::cb_refused(peer, header.xid(), refusal);
    if refusal.is_breach() {
        breach(Breach::BackwardCall);
    }
    if refusal.ends_connection() {
        link.give_up();
    }
}

fn accept(link: &Link, header: &Message<'_>) -> Result<(), Refusal> {
    // CAST: A page is small.
    let message = backward::message(header, MAX_CALL as u32)?;
    link.xprt()
        .deliver(header.xid(), message, link.epoch)
        .map_err(|error| match error {
            Undelivered::NotServed => Refusal::NotServed,
            Undelivered::Busy => Refusal::Overflow,
            Undelivered::TooLong => Refusal::TooLong,
        })
}

/// Buffers of a connection from which replies are sent; empty until somebody serves calls.
#[pin_data]
pub(super) struct Outbox {
    #[pin]
    buffers: SpinLock<KVec<SendBuf>>,
}

impl Outbox {
    /// Empty.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            buffers <- new_spinlock!(KVec::new(), "rpcrdma::Outbox::buffers"),
        })
    }

    /// Allocates the buffers, if that has not been done. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EIO`.
    pub(super) fn fill(&self, pd: &Arc<Pd>, thresholds: &Thresholds) -> Result {
        if !self.buffers.lock().is_empty() {
            return Ok(());
        }
        // CAST: `usize` has at least 32 bits.
        let len = (thresholds.client_to_server as usize).min(PAGE_SIZE);
        let mut fresh = KVec::with_capacity(BUFFERS, GFP_KERNEL)?;
        for _ in 0..BUFFERS {
            fresh.push(SendBuf::new(pd, len, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        let mut buffers = self.buffers.lock();
        // Somebody else may have been faster.
        if buffers.is_empty() {
            core::mem::swap(&mut *buffers, &mut fresh);
        }
        drop(buffers);
        // What was not needed goes here, outside the lock.
        drop(fresh);
        Ok(())
    }
}

/// Sends the reply to a call. The caller holds SUNRPC's send lock. Does not sleep.
///
/// A reply that can no longer be sent is dropped: the server repeats its call, over another
/// connection if need be.
///
/// # Errors
///
/// See [`SendError`]; nothing was sent then, or the connection is on its way down.
pub(super) fn send(
    client: &Client,
    xprt: &Xprt<Client>,
    reply: &BackwardReply<'_>,
) -> Result<(), SendError> {
    let Some(ep) = client.endpoint() else {
        return Err(SendError::NotConnected);
    };
    // The XID means nothing on any other connection.
    if reply.connection() != ep.epoch {
        return Ok(());
    }
    let mut sent = post(&ep, reply);
    if sent == Err(SendError::Again) {
        // Announced first and tried again, so that no word of room is missed in between.
        client.stats().send_queue_full();
        xprt.wait_for_buffer_space();
        sent = post(&ep, reply);
        if sent.is_ok() {
            xprt.wake_write_space();
        }
    }
    if sent.is_ok() {
        trace::cb_reply(names::peer(xprt), reply.xid());
    }
    sent
}

/// Puts a reply into a buffer that the device has finished with, and posts it.
fn post(ep: &Endpoint, reply: &BackwardReply<'_>) -> Result<(), SendError> {
    let mut buffers = ep.outbox.buffers.lock();
    let out = buffers
        .iter_mut()
        .find(|buf| !buf.in_flight())
        .ok_or(SendError::NoResources)?;
    let len = encode(ep, reply, out.as_mut_slice()).map_err(|_| SendError::Dropped)?;
    // Signalled, so that the buffer is known to be free however quiet the connection is.
    let posted = ep
        .qp
        .post_send(BACKWARD_TAG, core::iter::empty(), out, len, true);
    posted.map(|_| ()).map_err(|error| match error {
        PostError::Full => SendError::Again,
        PostError::Broken(_) | PostError::Invalid => {
            let task = Task {
                task_id: reply.task_id(),
                // The task that sends a reply belongs to no RPC client.
                client_id: u32::MAX,
            };
            trace::post_send_err(ep.qp.cq_id(), task, Error::from(error).to_errno());
            SendError::Dropped
        }
    })
}

/// Writes the message to send, and returns its length: the reply, or, if that is too long, word
/// that there is no room for it (RFC 8166 section 4.5).
fn encode(ep: &Endpoint, reply: &BackwardReply<'_>, out: &mut [u8]) -> Result<usize> {
    let version = ep.link.version();
    let (xid, message) = (reply.xid(), reply.message());
    if message.len() > max_message(&ep.thresholds) {
        let error = version.error(out, xid, CREDITS, ErrorBody::BadHeader);
        return error.map_err(|_| EMSGSIZE);
    }
    let header = version.inline(out, xid, CREDITS, Direction::Reply);
    let header = header.map_err(|_| EMSGSIZE)?;
    // CAST: `usize` has at least 32 bits.
    let end = header + message.len() as usize;
    message.copy_to(0, out.get_mut(header..end).ok_or(EMSGSIZE)?)?;
    Ok(end)
}
