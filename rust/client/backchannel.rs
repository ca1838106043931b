// SPDX-License-Identifier: GPL-2.0

//! Calls of the server: the callbacks of NFSv4.1 and later (RFC 8167).
//!
//! A call arrives in a Receive like a reply. Its message is copied into a slot that SUNRPC hands to
//! NFS's callback service, and the Receive goes back to the ring at once. [`send`] posts the reply,
//! with the send lock held. The reply takes no credit: the server posts a Receive for it before it
//! sends the call. No reply waits for a credit, or for the next connection, since one thread may
//! serve the calls of all servers.
//!
//! [`proto::backward`](crate::proto::backward) decides how many calls may be in progress, and what
//! happens to a call that may not be served.

use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

use super::call::reply;
use super::endpoint::tags::BACKWARD_TAG;
use super::endpoint::{Conn, Endpoint, Incoming};
use super::transport::{peer_of, Client};
use crate::conn::backward::{write, Unposted};
use crate::observe::stats::Breach;
use crate::observe::trace::{self, Task};
use crate::proto::backward::{self, Refusal, CREDITS};
use crate::proto::inline::Thresholds;
use crate::rdma::qp::PostError;
use crate::sunrpc::xprt::backchannel::{BackchannelReply, Undelivered, MAX_CALL};
use crate::sunrpc::xprt::transport::SendError;
use crate::sunrpc::xprt::Xprt;
use crate::wire::message::ErrorBody;
use crate::wire::{Direction, Message};

/// The longest RPC message of a call, in bytes.
// CAST: a page is small.
const MAX: u32 = MAX_CALL as u32;

/// Returns the longest message of a backward call or reply over a connection with these thresholds,
/// in bytes.
pub(super) fn max_message(thresholds: &Thresholds) -> u32 {
    // CAST: a page is small.
    backward::max_message(thresholds, PAGE_SIZE as u32)
}

/// Handles a message that is a call of the server. Completion worker; does not sleep.
pub(super) fn called(conn: &Conn, msg: &Incoming<'_>, header: &Message<'_>) {
    let message = backward::message(header, MAX);
    receive(conn, msg, header.xid(), message);
}

/// Handles a message of version one that is a call of the server: `payload` is its RPC message, and
/// `chunks` whether it has chunks. Completion worker; does not sleep.
#[inline(never)]
pub(super) fn called_briefly(
    conn: &Conn,
    msg: &Incoming<'_>,
    xid: u32,
    payload: &[u8],
    chunks: bool,
) {
    let message = if chunks {
        Err(Refusal::Chunks)
    } else {
        backward::plain(xid, payload, MAX)
    };
    receive(conn, msg, xid, message);
}

/// Handles a call whose RPC message has been checked.
#[inline(always)]
fn receive(conn: &Conn, msg: &Incoming<'_>, xid: u32, message: Result<&[u8], Refusal>) {
    // A call answers none of ours, so the peer had no key to invalidate.
    if let Some(rkey) = msg.invalidated() {
        reply::report_foreign_rkey(conn, xid, rkey);
        return conn.force_close();
    }
    trace::cb_call(peer_of(conn.owner()), xid);
    let delivered = message.and_then(|message| deliver(conn, xid, message));
    if let Err(refusal) = delivered {
        refused(conn, xid, refusal);
    }
}

/// Traces and counts a call that is not served, and closes the connection if the refusal requires
/// it.
#[cold]
fn refused(conn: &Conn, xid: u32, refusal: Refusal) {
    trace::cb_refused(peer_of(conn.owner()), xid, refusal);
    if refusal.is_breach() {
        conn.breach(Breach::BackwardCall);
    }
    if refusal.ends_connection() {
        conn.force_close();
    }
}

/// Hands a call to NFS's callback service.
#[inline(always)]
fn deliver(conn: &Conn, xid: u32, message: &[u8]) -> Result<(), Refusal> {
    let delivered = conn.owner().deliver(xid, message, conn.epoch());
    delivered.map_err(|error| match error {
        Undelivered::NotServed => Refusal::NotServed,
        Undelivered::Busy => Refusal::Overflow,
        Undelivered::TooLong => Refusal::TooLong,
    })
}

/// Sends the reply to a call. The caller holds SUNRPC's send lock. Does not sleep.
///
/// A reply that can no longer be sent is dropped: the server sends its call again, over another
/// connection if necessary.
///
/// # Errors
///
/// See [`SendError`]. After an error no reply has been sent, or the connection is being closed.
pub(super) fn send(
    client: &Client,
    xprt: &Xprt<Client>,
    reply: &BackchannelReply<'_>,
) -> Result<(), SendError> {
    let Some(ep) = client.endpoint() else {
        return Err(SendError::NotConnected);
    };
    // The XID belongs to the connection of the call, and is meaningless on any other.
    if reply.connection() != ep.epoch() {
        return Ok(());
    }
    let full = || client.stats.send_queue_full.add(1);
    xprt.post_or_wait(&SendError::Again, full, || post(&ep, reply))?;
    trace::cb_reply(peer_of(xprt), reply.xid());
    Ok(())
}

/// Writes a reply into a buffer that the device is not reading, and posts it.
fn post(ep: &Endpoint, reply: &BackchannelReply<'_>) -> Result<(), SendError> {
    let posted = ep.post_backward(BACKWARD_TAG, |out| encode(ep, reply, out));
    posted.map_err(|unposted| match unposted {
        Unposted::NoBuffer => SendError::NoResources,
        Unposted::Unwritten => SendError::Dropped,
        Unposted::Refused(PostError::Full) => SendError::Again,
        Unposted::Refused(error) => {
            let task = Task {
                task_id: reply.task_id(),
                // The task that sends a reply belongs to no RPC client.
                client_id: u32::MAX,
            };
            trace::post_send_err(ep.qp().cq_id(), task, Error::from(error).to_errno());
            SendError::Dropped
        }
    })
}

/// Writes the message to send, and returns its length. The message is the reply, or an RDMA_ERROR
/// if the reply is too long (RFC 8166 section 4.5).
fn encode(ep: &Endpoint, reply: &BackchannelReply<'_>, out: &mut [u8]) -> Result<usize> {
    let (xid, message) = (reply.xid(), reply.message());
    let thresholds = ep.thresholds();
    let version = thresholds.version;
    if message.len() > max_message(&thresholds) {
        let error = version.error(out, xid, CREDITS, ErrorBody::BadHeader);
        return error.map_err(|_| EMSGSIZE);
    }
    // CAST: `usize` has at least 32 bits.
    let len = message.len() as usize;
    let header = |out: &mut [u8]| version.inline(out, xid, CREDITS, Direction::Reply);
    write(out, header, len, |out| message.copy_to(0, out))
}
