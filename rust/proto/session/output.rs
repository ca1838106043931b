// SPDX-License-Identifier: GPL-2.0

//! The orders of a session to its caller.

use super::super::super::wire::{DecodeError, Version};
use super::super::version::Memory;
use super::super::xchar::Fault;
use super::Control;

/// An order of the session to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Close the connection. No further output follows.
    Close(Close),
    /// Keep this knowledge about the peer for later connections.
    Remember(Memory),
    /// The version of the connection is settled.
    Settled(Version),
    /// Send the first call again, with the same XID, in this version. The RPC has not failed.
    Resend {
        /// The XID.
        xid: u32,
        /// The version.
        version: Version,
    },
    /// Messages that were prepared under an earlier generation than `before` have to be prepared
    /// again ([`super::Terms::voids`]). When no such message can be posted any more, call
    /// [`super::Session::on_voided`] with the generation of the terms.
    Void {
        /// The generation.
        before: u32,
    },
    /// Post Receives of this size from now on, and call [`super::Session::on_posting`] or
    /// [`super::Session::on_post_failed`]. A size that is smaller than before may be ignored.
    Post {
        /// The size in bytes.
        size: u32,
    },
    /// Keep a Receive of the peer free for a message of the session, and call
    /// [`super::Session::on_room`]. If there is none, [`super::Session::on_timer`] requests it
    /// again.
    Room,
    /// The message for which [`Output::Room`] reserved a Receive is posted. It occupies the Receive
    /// until a later message of ours is answered.
    Operated,
    /// Send this control message.
    Send(Control),
}

/// Why a connection has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// The first message was not answered in time.
    Unanswered,
    /// The peers have no version in common.
    NoVersion,
    /// The peer has sent more operations than can be answered.
    TooMany,
}

/// The treatment of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Who processes the message.
    pub take: Take,
    /// The message's credits count as a grant. The message ends no call unless it is delivered.
    pub grant: bool,
    /// The rule that the peer has broken, to be counted.
    pub breach: Option<Breach>,
}

/// Who processes a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// The caller processes it as any call, reply or error.
    Deliver,
    /// The session has processed it.
    Done,
    /// The message is dropped.
    Drop,
}

/// A rule that the peer has broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// A message in another version than the connection's.
    Version(u32),
    /// A message that cannot be decoded.
    Undecodable(DecodeError),
    /// A first reply whose RPC message is missing, or is not a reply with the same XID.
    Reply,
    /// An RPC message behind an operation that has none; an operation in the wrong direction, or an
    /// RPC message in another direction than the header says.
    Form,
    /// The values of an operation, or an answer to no request.
    Operation(Fault),
    /// More messages than the session keeps answers for.
    TooMany,
}

/// The outputs that wait for [`super::Session::poll`], besides control messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    pub(super) close: Option<Close>,
    /// [`Output::Close`] was returned.
    pub(super) closed: bool,
    pub(super) memory: Option<Memory>,
    pub(super) settled: Option<Version>,
    pub(super) resend: Option<(u32, Version)>,
    pub(super) void: bool,
    /// [`Output::Operated`] is due.
    pub(super) operated: bool,
    /// The size of the latest [`Output::Post`].
    pub(super) posted: Option<u32>,
}
