// SPDX-License-Identifier: GPL-2.0

//! The service of the Connection Configuration Protocol: RFC 5666 section 6.
//!
//! A server answers calls of this program by itself: what it answers is about the connection, and
//! the upper layer knows nothing of it. The section on security (11) demands protection by a
//! flavor, which this service does not have: it takes AUTH_NONE and AUTH_SYS, and refuses others,
//! because it cannot check them. Nothing in an answer is secret, and a request only concerns the
//! connection over which it comes.

use super::super::super::wire::conf_rdma::{Reply, Request, CONF_RDMA, PROGRAM, VERSION};
use super::super::super::wire::v1::DEFAULT_INLINE;

/// The longest answer, in bytes.
pub const MAX: usize = 36;

/// The place of the program number in an RPC call.
const PROGRAM_AT: usize = 12;
/// The version of RPC.
const RPC_VERSION: u32 = 2;
/// AUTH_NONE and AUTH_SYS.
const FLAVORS: [u32; 2] = [0, 1];
/// The longest credential, in bytes.
const CREDENTIAL_MAX: u32 = 400;

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
#[inline]
pub fn is_ours(call: &[u8]) -> bool {
    let program = call.get(PROGRAM_AT..).and_then(<[u8]>::first_chunk);
    program.copied().map(u32::from_be_bytes) == Some(PROGRAM)
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
        let xid = Words(call).next().unwrap_or(0);
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

    /// Returns what the client has told of itself, if this answers CONF_RDMA.
    pub const fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }
}

/// Returns the longest inline reply to a client that has sent this request, with a server that
/// sends at most `most` bytes. A client that accepts less than the basic level of section 6.1 is
/// taken to accept that.
pub fn max_reply(request: &Request, most: u32) -> u32 {
    request.maxreply_sendsize.max(DEFAULT_INLINE).min(most)
}

/// The RDMA Reads that a server may issue to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// As many at a time as the connection allows.
    Free,
    /// One at a time.
    Single,
    /// None, and no reply may need one of the client either.
    Forbidden,
}

/// Returns how a server keeps to the `theirs` RDMA Reads that a client can have active, with a
/// connection that allows `ours`. A client that can have fewer than the connection gets one at a
/// time: the device cannot be told to have fewer.
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

/// Decodes a call. The errors come in the order of RFC 5531.
fn outcome(call: &[u8]) -> Outcome {
    let mut words = Words(call);
    let mut next = || words.next().unwrap_or(0);
    let (_, _, rpc, _, version, procedure) = (next(), next(), next(), next(), next(), next());
    if rpc != RPC_VERSION {
        return Outcome::Rpc;
    }
    let Some(arguments) = arguments(words) else {
        return Outcome::Credential;
    };
    match (version, procedure) {
        (VERSION, 0) => Outcome::Null,
        (VERSION, CONF_RDMA) => match Request::decode(arguments) {
            Ok(request) => Outcome::Configured(request),
            Err(_) => Outcome::Arguments,
        },
        (VERSION, _) => Outcome::Procedure,
        _ => Outcome::Version,
    }
}

/// Returns the arguments behind credential and verifier. `None` if these are malformed, or if the
/// credential has another flavor than those that are served.
fn arguments<'a>(mut words: Words<'a>) -> Option<&'a [u8]> {
    if !FLAVORS.contains(&words.next()?) {
        return None;
    }
    words.skip_opaque()?;
    words.next()?;
    words.skip_opaque()?;
    Some(words.0)
}

/// The rest of a call.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn next(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*word))
    }

    fn skip_opaque(&mut self) -> Option<()> {
        let len = self.next()?;
        if len > CREDENTIAL_MAX {
            return None;
        }
        // CAST: a small number.
        self.0 = self.0.get(len.next_multiple_of(4) as usize..)?;
        Some(())
    }
}
