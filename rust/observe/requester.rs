// SPDX-License-Identifier: GPL-2.0

//! What requesters do wrong: each breach is traced and counted.

use core::fmt;

use super::stats::{requester_breach, RequesterBreach};
use super::trace::{self, Cid, Peer, Source};
use crate::proto::responder::call::Unfit;
use crate::proto::responder::intake::Reason;
use crate::proto::responder::reassembly::Violation;
use crate::wire::message::Mismatch;

/// Traces and counts a breach. `xid` is zero if it belongs to no message. Any context.
#[cold]
pub(crate) fn breach(peer: impl Source<Peer>, xid: u32, breach: RequesterBreach) {
    requester_breach(breach);
    let what: &dyn fmt::Display = &breach.what();
    trace::server::breach(peer, xid, breach.name(), what);
}

/// Traces and counts that a message of these `bytes` is not served. Any context.
#[cold]
pub(crate) fn refused(
    peer: impl Source<Peer>,
    cid: impl Source<Cid>,
    bytes: &[u8],
    reason: &Reason,
) {
    let breach = RequesterBreach::of(reason);
    requester_breach(breach);
    trace::server::refused(cid, bytes, reason);
    let detail: &dyn fmt::Display = &Detail(reason);
    trace::server::breach(peer, xid(bytes), breach.name(), detail);
}

/// Returns the XID of a message; zero if it is too short for one.
fn xid(bytes: &[u8]) -> u32 {
    bytes.first_chunk().copied().map_or(0, u32::from_be_bytes)
}

/// The details of a refusal, for people.
struct Detail<'a>(&'a Reason);

impl fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reason::Version(version) => write!(f, "version {version}"),
            Reason::Header(error) => write!(f, "{error}"),
            // CAST: the discriminant of a `repr(u32)` enum.
            Reason::Type(proc) => write!(f, "message type {}", *proc as u32),
            Reason::Padding(why) => f.write_str(why),
            Reason::Message(mismatch) => f.write_str(mismatch_name(*mismatch)),
            Reason::Chunks(Unfit::Reads(violation)) => f.write_str(violation_name(*violation)),
            Reason::Short | Reason::Chunks(_) => f.write_str(RequesterBreach::of(self.0).what()),
        }
    }
}

const fn mismatch_name(mismatch: Mismatch) -> &'static str {
    match mismatch {
        Mismatch::NoMessage => "no RPC message",
        Mismatch::Xid => "two XIDs",
        Mismatch::Direction => "two directions, or none",
    }
}

const fn violation_name(violation: Violation) -> &'static str {
    match violation {
        Violation::Overlap => "read chunks overlap",
        Violation::Beyond => "read chunk behind the end of the call",
        Violation::PositionZero => "read chunk at position zero beside an inline call",
        Violation::Header => "read chunk within the header of the call",
        Violation::NoMessage => "no read chunk at position zero",
        Violation::TooLong => "call too long",
        Violation::Odd => "call of an odd length",
    }
}
