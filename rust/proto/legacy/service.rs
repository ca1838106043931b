// SPDX-License-Identifier: GPL-2.0

//! The service of the Connection Configuration Protocol: RFC 5666 section 6.
//!
//! The transport itself answers calls of this program: the answer is about the connection, which
//! the upper layer does not know. The section on security (11) demands protection by a flavour,
//! which this service does not support: it accepts AUTH_NONE and AUTH_SYS, and refuses other
//! flavours, because it cannot check them. Nothing in an answer is secret, and a request only
//! affects the connection over which it arrives.

use super::super::super::wire::conf_rdma::{Reply, Request, CONF_RDMA, PROGRAM, VERSION};
use super::super::super::wire::v1::DEFAULT_INLINE;
use super::super::super::wire::CallHeader;

/// The longest answer, in bytes.
pub const MAX: usize = 36;

/// The version of RPC.
const RPC_VERSION: u32 = 2;
/// AUTH_NONE and AUTH_SYS.
const FLAVORS: [u32; 2] = [0, 1];

/// `accept_stat` (RFC 5531 section 9).
mod accepted {
    pub(super) const SUCCESS: u32 = 0;
    pub(super) const PROG_MISMATCH: u32 = 2;
    pub(super) const PROC_UNAVAIL: u32 = 3;
    pub(super) const GARBAGE_ARGS: u32 = 4;
}

/// `reject_stat` and `auth_stat` (RFC 5531 section 9).
mod rejected {
    pub(super) const RPC_MISMATCH: u32 = 0;
    pub(super) const AUTH_ERROR: u32 = 1;
    pub(super) const BADCRED: u32 = 1;
}

/// Returns whether an RPC call is one of this program.
pub fn is_ours(call: &[u8]) -> bool {
    word(call, 12) == Some(PROGRAM)
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    bytes: [u8; MAX],
    len: usize,
    request: Option<Request>,
}

impl Answer {
    /// Answers an RPC call of this program; `ours` is what the server accepts.
    //= 5666-6-2 may use Connection Configuration Protocol
    pub fn to(call: &[u8], ours: &Reply) -> Self {
        let xid = word(call, 0).unwrap_or(0);
        let mut answer = Self {
            bytes: [0; MAX],
            len: 0,
            request: None,
        };
        answer.add(&[xid, 1]);
        match outcome(call) {
            Outcome::Null => answer.accept(accepted::SUCCESS, &[]),
            Outcome::Configured(request) => {
                let reply = [ours.maxcall_sendsize, ours.align, ours.maxrdmaread];
                answer.accept(accepted::SUCCESS, &reply);
                answer.request = Some(request);
            }
            Outcome::Version => answer.accept(accepted::PROG_MISMATCH, &[VERSION, VERSION]),
            Outcome::Procedure => answer.accept(accepted::PROC_UNAVAIL, &[]),
            Outcome::Arguments => answer.accept(accepted::GARBAGE_ARGS, &[]),
            Outcome::Rpc => {
                answer.add(&[1, rejected::RPC_MISMATCH, RPC_VERSION, RPC_VERSION]);
            }
            Outcome::Credential => answer.add(&[1, rejected::AUTH_ERROR, rejected::BADCRED]),
        }
        answer
    }

    /// Adds the rest of an accepted reply, whose verifier is empty.
    fn accept(&mut self, stat: u32, results: &[u32]) {
        self.add(&[0, 0, 0, stat]);
        self.add(results);
    }

    fn add(&mut self, words: &[u32]) {
        for word in words {
            let end = self.len.saturating_add(4);
            if let Some(place) = self.bytes.get_mut(self.len..end) {
                place.copy_from_slice(&word.to_be_bytes());
                self.len = end;
            }
        }
    }

    /// Returns the RPC reply.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Returns the client's request, if this answers CONF_RDMA.
    pub const fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }
}

/// Returns the longest inline reply to a client that has sent this request, with a server that
/// sends at most `most` bytes. A client that accepts less than the basic level of section 6.1 is
/// assumed to accept that level.
pub fn max_reply(request: &Request, most: u32) -> u32 {
    request.maxreply_sendsize.max(DEFAULT_INLINE).min(most)
}

/// The RDMA Reads that a server may issue to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// As many at a time as the connection permits.
    Free,
    /// One at a time.
    Single,
    /// None, and no reply may require the client to issue one.
    Forbidden,
}

/// Returns how a server observes the limit of `theirs` RDMA Reads that a client can have active,
/// over a connection that permits `ours`. A client that can have fewer than the connection gets one
/// at a time, because the limit of the device cannot be lowered later.
//= 5666-6.2-3 announces no RDMA Reads
//= 5666-6.2-5 number of active RDMA Reads
pub const fn reads(theirs: u32, ours: u32) -> Reads {
    match theirs {
        0 => Reads::Forbidden,
        n if n < ours => Reads::Single,
        _ => Reads::Free,
    }
}

/// The request of a call, or its fault.
enum Outcome {
    Null,
    Configured(Request),
    Version,
    Procedure,
    Arguments,
    Rpc,
    Credential,
}

/// Decodes a call. The errors are checked in the order of RFC 5531.
fn outcome(call: &[u8]) -> Outcome {
    if word(call, 8) != Some(RPC_VERSION) {
        return Outcome::Rpc;
    }
    let flavor = word(call, 24).filter(|flavor| FLAVORS.contains(flavor));
    let header = flavor.and_then(|_| CallHeader::peek(call));
    // CAST: a small number.
    let Some(arguments) = header.and_then(|header| call.get(header.len as usize..)) else {
        return Outcome::Credential;
    };
    match (word(call, 16), word(call, 20)) {
        (Some(VERSION), Some(0)) => Outcome::Null,
        (Some(VERSION), Some(CONF_RDMA)) => match Request::decode(arguments) {
            Ok(request) => Outcome::Configured(request),
            Err(_) => Outcome::Arguments,
        },
        (Some(VERSION), _) => Outcome::Procedure,
        _ => Outcome::Version,
    }
}

/// Returns the word at byte `at` of a call. `None` if the call is too short.
fn word(call: &[u8], at: usize) -> Option<u32> {
    let word = call.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*word))
}
