// SPDX-License-Identifier: GPL-2.0

//! What requesters did wrong, counted for the whole module.
//!
//! These events are rare, so they are not counted for each connection. If a counter is not zero,
//! the trace event `svcrdma_breach` shows the requester.

use core::fmt::{self, Write};

use super::Counter;
use crate::observe::trace::WcStatus;
use crate::proto::responder::call::Unfit;
use crate::proto::responder::intake::Reason;
use crate::raw;

/// Defines the breaches, each with the name of its counter and a description.
macro_rules! breaches {
    ($($(#[$doc:meta])* $variant:ident = ($name:literal, $what:literal),)*) => {
        /// What a requester did wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum RequesterBreach {
            $($(#[$doc])* $variant,)*
        }

        impl RequesterBreach {
            /// All breaches, in the order of their discriminants.
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the name of the counter.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Returns what has happened.
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
    /// A message is of a type that is no call: [`Reason::Type`].
    MessageType = ("message_type", "no call"),
    /// An RPC message is missing, or does not agree with its header: [`Reason::Message`].
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
    /// The requester's device has refused an RDMA Read or Write. The connection is closed.
    Rkey = ("rkey", "R_key refused"),
    /// A Send has found no Receive at the requester. The connection is closed.
    NoReceive = ("no_receive", "no Receive posted"),
    /// A message has invalidated an R_key of this host. The connection is closed.
    Invalidate = ("invalidate", "R_key of the server invalidated"),
    /// A reply answers no call of this host.
    BackwardXid = ("backward_xid", "reply to no call"),
    /// A reply to a call of this host is too long, or has two XIDs.
    BackwardForm = ("backward_form", "malformed reply"),
    /// A connection request allows no RDMA Reads. It is refused.
    ReadDepth = ("read_depth", "no RDMA Reads allowed"),
    /// Replies have waited too long, because the requester does not receive or is not read from.
    /// The connection is closed.
    Slow = ("slow", "replies have waited too long"),
    /// A connection has ended while RDMA Reads or Writes were outstanding.
    TransferLost = ("transfer_lost", "connection lost during RDMA Reads or Writes"),
    /// A message broke the rules by which the peers agree on version and characteristics.
    Session = ("session", "message that breaks the rules of version two"),
    /// A connection request was refused because too many are waiting.
    Backlog = ("backlog", "too many connection requests"),
    /// The padding of a call cannot be taken out: [`Reason::Padding`].
    Padding = ("padding", "padding that cannot be taken out"),
    /// An RDMA_DONE belongs to no reply.
    Done = ("done", "RDMA_DONE for no reply"),
    /// The RDMA_DONE for a reply has not come. The connection is closed.
    NoDone = ("no_done", "no RDMA_DONE for a reply"),
}

impl RequesterBreach {
    /// Returns the breach that a refused message is.
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

    /// Returns the breach that the failure of an RDMA Read or Write is.
    pub(crate) const fn of_transfer(wc: WcStatus) -> Self {
        match wc.status {
            raw::ib_wc_status_IB_WC_REM_ACCESS_ERR
            | raw::ib_wc_status_IB_WC_REM_INV_REQ_ERR
            | raw::ib_wc_status_IB_WC_REM_OP_ERR => Self::Rkey,
            _ => Self::TransferLost,
        }
    }

    /// Returns the breach that the failure of a Send is. `None` means that the requester need not
    /// have done anything wrong.
    pub(crate) const fn of_send(wc: WcStatus) -> Option<Self> {
        match wc.status {
            raw::ib_wc_status_IB_WC_RNR_RETRY_EXC_ERR => Some(Self::NoReceive),
            _ => None,
        }
    }

    /// Returns the breach that the failure of a Receive is. `None` means that the requester need
    /// not have done anything wrong.
    pub(crate) const fn of_receive(wc: WcStatus) -> Option<Self> {
        match wc.status {
            raw::ib_wc_status_IB_WC_LOC_LEN_ERR => Some(Self::TooLong),
            _ => None,
        }
    }
}

/// The number of breaches.
const KINDS: usize = RequesterBreach::ALL.len();

/// The module's counters of [`RequesterBreach`]es.
pub(crate) struct RequesterBreachCounts([Counter; KINDS]);

static COUNTS: RequesterBreachCounts = RequesterBreachCounts::new();

/// Counts one breach. Any context.
pub(crate) fn requester_breach(what: RequesterBreach) {
    COUNTS.count(what);
}

impl RequesterBreachCounts {
    const fn new() -> Self {
        Self([const { Counter::new() }; KINDS])
    }

    /// Returns the counters of the module.
    pub(crate) fn of_module() -> &'static Self {
        &COUNTS
    }

    fn count(&self, what: RequesterBreach) {
        // CAST: the discriminant of an enum without fields.
        if let Some(counter) = self.0.get(what as usize) {
            counter.add(1);
        }
    }

    /// Writes one line `name count` for each kind of breach.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub(crate) fn write(&self, out: &mut impl Write) -> fmt::Result {
        for (breach, counter) in RequesterBreach::ALL.iter().zip(&self.0) {
            core::writeln!(out, "{} {}", breach.name(), counter.get())?;
        }
        Ok(())
    }
}

#[cfg(RPCRDMA_KUNIT)]
#[kernel::prelude::kunit_tests(rpcrdma_requester_breach)]
mod tests {
    use super::*;
    use kernel::prelude::*;
    use kernel::str::Formatter;

    #[test]
    fn each_breach_has_its_own_line() -> Result {
        let counts = RequesterBreachCounts::new();
        for (n, breach) in RequesterBreach::ALL.iter().enumerate() {
            (0..=n).for_each(|_| counts.count(*breach));
        }
        let mut buffer = [0u8; 512];
        let mut out = Formatter::new(&mut buffer);
        counts.write(&mut out).map_err(|_| EOVERFLOW)?;
        let written = out.bytes_written();
        let text = buffer.get(..written).unwrap_or_default();
        assert!(text.starts_with(b"short 1\nversion 2\nheader 3\n"));
        assert!(text.ends_with(b"\nsession 22\nbacklog 23\npadding 24\ndone 25\nno_done 26\n"));
        Ok(())
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
