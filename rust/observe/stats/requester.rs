// SPDX-License-Identifier: GPL-2.0

//! Breaches of the protocol by requesters: each breach is traced and counted.

use core::fmt;

use super::BreachCounters;
use crate::observe::trace::{self, Cid, Peer, Source, WcStatus};
use crate::proto::responder::call::Unfit;
use crate::proto::responder::intake::Reason;
use crate::proto::responder::reassembly::Violation;
use crate::raw;
use crate::wire::message::Mismatch;

/// Defines the breaches, each with the name of its counter and a description.
macro_rules! breaches {
    ($($(#[$doc:meta])* $variant:ident = ($name:literal, $what:literal),)*) => {
        /// A breach of the protocol by a requester.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum RequesterBreach {
            $($(#[$doc])* $variant,)*
        }

        impl RequesterBreach {
            /// The names of the counters, in the order of the discriminants.
            const NAMES: &'static [&'static str] = &[$(Self::$variant.name()),*];

            /// Returns the name of the counter.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Returns a description.
            pub(crate) const fn what(self) -> &'static str {
                match self {
                    $(Self::$variant => $what,)*
                }
            }
        }
    };
}

breaches! {
    /// A message has no XID and version: [`Reason::Short`].
    Short = ("short", "no XID and version"),
    /// A message has a version that is not served: [`Reason::Version`].
    Version = ("version", "version not served"),
    /// A header cannot be decoded: [`Reason::Header`].
    Header = ("header", "malformed header"),
    /// The type of a message is not that of a call: [`Reason::Type`].
    MessageType = ("message_type", "no call"),
    /// An RPC message is missing, or disagrees with its header: [`Reason::Message`].
    Message = ("message", "RPC message missing or not that of the header"),
    /// Read chunks do not make up a call: [`Unfit::Reads`].
    ReadList = ("read_list", "read chunks that make up no call"),
    /// A segment is too long, or ends behind the last address: [`Unfit::Segment`].
    Segment = ("segment", "segment too long"),
    /// A chunk has no bytes: [`Unfit::EmptyChunk`].
    EmptyChunk = ("empty_chunk", "chunk without bytes"),
    /// The RDMA Reads of a call would take too many work requests: [`Unfit::ReadWork`].
    ReadWork = ("read_work", "too many segments to read"),
    /// The RDMA Writes of a reply could take too many work requests: [`Unfit::WriteWork`].
    WriteWork = ("write_work", "too many segments to write"),
    /// A reply fits neither inline nor the chunks that its call offers.
    ReplyRoom = ("reply_room", "no room for the reply"),
    /// More calls are outstanding than were granted. The connection is closed.
    Credits = ("credits", "more calls than granted"),
    /// A message is longer than the Receive. The device closes the connection.
    TooLong = ("too_long", "message longer than the Receive"),
    /// The requester's device refused an RDMA Read or Write. The connection is closed.
    Rkey = ("rkey", "R_key refused"),
    /// A Send found no Receive at the requester. The connection is closed.
    NoReceive = ("no_receive", "no Receive posted"),
    /// A message invalidated an R_key of this host. The connection is closed.
    Invalidate = ("invalidate", "R_key of the server invalidated"),
    /// A reply answers no call of this host.
    BackwardXid = ("backward_xid", "reply to no call"),
    /// A reply to a call of this host is too long, or has two XIDs.
    BackwardForm = ("backward_form", "malformed reply"),
    /// A connection request allows no RDMA Reads. It is refused.
    ReadDepth = ("read_depth", "no RDMA Reads allowed"),
    /// Replies have waited too long, because the requester does not receive or is not read from; or
    /// it has not answered the calls that occupy its whole grant. The connection is closed.
    Slow = ("slow", "replies or callbacks have waited too long"),
    /// A connection ended while RDMA Reads or Writes were outstanding.
    TransferLost = ("transfer_lost", "connection lost during RDMA Reads or Writes"),
    /// A message broke the rules by which the peers agree on version and characteristics.
    Session = ("session", "message that breaks the rules of version two"),
    /// A connection request was refused because too many are waiting.
    Backlog = ("backlog", "too many connection requests"),
    /// The padding of a call cannot be removed: [`Reason::Padding`].
    Padding = ("padding", "padding that cannot be taken out"),
    /// An RDMA_DONE belongs to no reply.
    Done = ("done", "RDMA_DONE for no reply"),
    /// The RDMA_DONE for a reply did not arrive. The connection is closed.
    NoDone = ("no_done", "no RDMA_DONE for a reply"),
}

impl RequesterBreach {
    /// Returns the kind of breach for which a message was refused.
    pub(crate) const fn of(reason: &Reason) -> Self {
        match reason {
            Reason::Short => Self::Short,
            Reason::Version(_) => Self::Version,
            Reason::Header(_) => Self::Header,
            Reason::Type(_) => Self::MessageType,
            Reason::Padding(_) => Self::Padding,
            Reason::Message(_) => Self::Message,
            Reason::Chunks(unfit) => match unfit {
                Unfit::Reads(_) => Self::ReadList,
                Unfit::Segment => Self::Segment,
                Unfit::EmptyChunk => Self::EmptyChunk,
                Unfit::ReadWork => Self::ReadWork,
                Unfit::WriteWork => Self::WriteWork,
            },
        }
    }

    /// Returns the kind of breach that made an RDMA Read or Write fail.
    pub(crate) const fn of_transfer(wc: WcStatus) -> Self {
        match wc.status {
            raw::ib_wc_status_IB_WC_REM_ACCESS_ERR
            | raw::ib_wc_status_IB_WC_REM_INV_REQ_ERR
            | raw::ib_wc_status_IB_WC_REM_OP_ERR => Self::Rkey,
            _ => Self::TransferLost,
        }
    }

    /// Returns the kind of breach that made a Send fail; `None` if the requester need not be at
    /// fault.
    pub(crate) fn of_send(wc: WcStatus) -> Option<Self> {
        let found_none = wc.status == raw::ib_wc_status_IB_WC_RNR_RETRY_EXC_ERR;
        found_none.then_some(Self::NoReceive)
    }

    /// Returns the kind of breach that made a Receive fail; `None` if the requester need not be at
    /// fault.
    pub(crate) fn of_receive(wc: WcStatus) -> Option<Self> {
        (wc.status == raw::ib_wc_status_IB_WC_LOC_LEN_ERR).then_some(Self::TooLong)
    }
}

/// The number of breaches.
const KINDS: usize = RequesterBreach::NAMES.len();

/// The module's counters of [`RequesterBreach`]es.
pub(crate) static REQUESTER_BREACHES: BreachCounters<KINDS> =
    BreachCounters::new(RequesterBreach::NAMES);

/// Counts a breach. Any context.
pub(crate) fn requester_breach(what: RequesterBreach) {
    REQUESTER_BREACHES.count(what as usize);
}

/// Traces and counts a breach. `xid` is zero if it belongs to no message. Any context.
#[cold]
pub(crate) fn breach(peer: impl Source<Peer>, xid: u32, breach: RequesterBreach) {
    requester_breach(breach);
    let what: &dyn fmt::Display = &breach.what();
    trace::server::breach(peer, xid, breach.name(), what);
}

/// Traces and counts a message of these `bytes` that is not served. Any context.
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

/// The description of a refusal.
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

#[cfg(RPCRDMA_KUNIT)]
#[kernel::prelude::kunit_tests(rpcrdma_requester_breach)]
mod tests {
    use super::*;
    use crate::text::StackString;
    use kernel::prelude::*;

    #[test]
    fn each_breach_has_its_own_line() {
        let counts = BreachCounters::<KINDS>::new(RequesterBreach::NAMES);
        (0..KINDS).for_each(|kind| (0..=kind).for_each(|_| counts.count(kind)));
        let text = StackString::<512>::new(&fmt!("{counts}"));
        assert!(text
            .as_bytes()
            .starts_with(b"short 1\nversion 2\nheader 3\n"));
        let last = b"\nsession 22\nbacklog 23\npadding 24\ndone 25\nno_done 26\n";
        assert!(text.as_bytes().ends_with(last));
    }

    #[test]
    fn failures_are_told_apart() {
        let failed = |status| WcStatus {
            status,
            vendor_err: 0,
        };
        let refused = failed(raw::ib_wc_status_IB_WC_REM_ACCESS_ERR);
        let flushed = failed(raw::ib_wc_status_IB_WC_WR_FLUSH_ERR);
        let unheard = failed(raw::ib_wc_status_IB_WC_RNR_RETRY_EXC_ERR);
        let long = failed(raw::ib_wc_status_IB_WC_LOC_LEN_ERR);
        assert!(RequesterBreach::of_transfer(refused) == RequesterBreach::Rkey);
        assert!(RequesterBreach::of_transfer(flushed) == RequesterBreach::TransferLost);
        assert!(RequesterBreach::of_send(unheard) == Some(RequesterBreach::NoReceive));
        assert!(RequesterBreach::of_send(flushed).is_none());
        assert!(RequesterBreach::of_receive(long) == Some(RequesterBreach::TooLong));
        assert!(RequesterBreach::of_receive(flushed).is_none());
    }

    #[test]
    fn refusals_are_told_apart() {
        assert!(RequesterBreach::of(&Reason::Short) == RequesterBreach::Short);
        let unfit = Reason::Chunks(Unfit::EmptyChunk);
        assert!(RequesterBreach::of(&unfit) == RequesterBreach::EmptyChunk);
    }
}
