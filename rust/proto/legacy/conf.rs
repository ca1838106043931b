// SPDX-License-Identifier: GPL-2.0

//! Applying the Connection Configuration Protocol: RFC 5666 section 6.
//!
//! State: RFC 5666 only.
//!
//! Before the server has answered, a client may send one message at a time, of at most 1024
//! bytes. The server's answer bounds the client's calls and its use of RDMA Read.

use super::super::super::wire::conf_rdma::{Reply, Request};
use super::super::super::wire::v1::DEFAULT_INLINE;
use super::padding::Padding;

/// What a client may do on a connection whose configuration is negotiated in band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Longest inline call in bytes that may be sent.
    pub max_call: u32,
    /// Longest inline reply in bytes that the server may send.
    pub max_reply: u32,
    /// Most RDMA Reads that may be active at the client.
    pub max_reads_here: u32,
    /// Most RDMA Reads that may be active at the server.
    pub max_reads_there: u32,
    /// The padding that the server recommends, if it can be followed.
    pub padding: Option<Padding>,
}

impl Configuration {
    /// The basic level before any configuration (section 6.1).
    pub const INITIAL: Self = Self {
        max_call: DEFAULT_INLINE,
        max_reply: DEFAULT_INLINE,
        max_reads_here: 0,
        max_reads_there: 0,
        padding: None,
    };

    /// What client and server have agreed on by `request` and its `reply`.
    ///
    /// The server's `maxcall_sendsize` may be more than was asked for; the client does not send
    /// more than it can, which is what it asked for. Below the basic level neither falls.
    //= 5666-6.2-2 server may accept more or less
    //= 5666-6.2-4 pad as the server recommends
    pub fn agree(request: &Request, reply: &Reply) -> Self {
        let max_call = reply.maxcall_sendsize.min(request.maxcall_sendsize);
        Self {
            max_call: max_call.max(DEFAULT_INLINE),
            max_reply: request.maxreply_sendsize.max(DEFAULT_INLINE),
            max_reads_here: request.maxrdmaread,
            max_reads_there: reply.maxrdmaread,
            // The server recommends an alignment, but no threshold: pad what is longer than it.
            padding: Padding::new(reply.align, reply.align).ok(),
        }
    }

    /// Whether read chunks may be offered, in calls or in replies: not if either side has
    /// announced that no RDMA Read can be active at it (section 6.2). The text leaves open whether
    /// the number bounds the Reads issued by a side or those it serves; either way, a transfer
    /// takes both.
    //= 5666-6.2-3 announces no RDMA Reads
    pub const fn may_offer_read_chunks(&self) -> bool {
        self.max_reads_here != 0 && self.max_reads_there != 0
    }
}

/// The exchange itself, as the client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// Nothing was asked: the basic level holds.
    Initial,
    /// The request is unanswered; nothing else may be sent.
    Asked(Request),
    /// The server has answered.
    Agreed(Configuration),
}

impl Exchange {
    /// What holds now.
    pub const fn configuration(&self) -> Configuration {
        match self {
            Self::Initial | Self::Asked(_) => Configuration::INITIAL,
            Self::Agreed(agreed) => *agreed,
        }
    }

    /// Whether a call of `len` bytes, header included, may be sent inline now. Credits are another
    /// question.
    //= 5666-6.1-2 assumes one receive of 1 KB
    //= 5666-6.1-4 sends nothing else until answered
    //= 5666-6.2-1 no call longer than server accepts
    //= 5666-6.2-6 client and server have agreed
    pub fn may_send(&self, len: u32) -> bool {
        match self {
            Self::Initial => len <= DEFAULT_INLINE,
            Self::Asked(_) => false,
            Self::Agreed(agreed) => len <= agreed.max_call,
        }
    }

    /// The request was sent. A second one on the same connection replaces the first.
    //= 5666-6.1-1 before any other RPC program
    pub fn on_request(&mut self, request: Request) {
        *self = Self::Asked(request);
    }

    /// The server has answered. `false`: nothing was asked.
    pub fn on_reply(&mut self, reply: &Reply) -> bool {
        let Self::Asked(request) = *self else {
            return false;
        };
        *self = Self::Agreed(Configuration::agree(&request, reply));
        true
    }

    /// The server does not know the program, or refuses it: the basic level stays.
    pub fn on_error(&mut self) {
        *self = Self::Initial;
    }
}
