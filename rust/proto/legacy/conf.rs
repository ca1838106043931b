// SPDX-License-Identifier: GPL-2.0

//! The effect of the Connection Configuration Protocol: RFC 5666 section 6.
//!
//! State: RFC 5666 only.
//!
//! Before the server has answered, a client may send one message at a time, of at most 1024
//! bytes. The server's answer bounds the client's calls and its use of RDMA Read.

use super::super::super::wire::conf_rdma::{Reply, Request};
use super::super::super::wire::v1::DEFAULT_INLINE;
use super::padding::Padding;

/// What a client may send on a connection after the exchange.
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

    /// Returns the configuration that follows from `request` and its `reply`.
    ///
    /// The server's `maxcall_sendsize` may be larger than requested; the client does not send
    /// longer calls than it has requested. Neither size falls below the basic level.
    //= 5666-6.2-2 server may accept more or less
    //= 5666-6.2-4 pad as the server recommends
    pub fn agree(request: &Request, reply: &Reply) -> Self {
        let max_call = reply.maxcall_sendsize.min(request.maxcall_sendsize);
        Self {
            max_call: max_call.max(DEFAULT_INLINE),
            max_reply: request.maxreply_sendsize.max(DEFAULT_INLINE),
            max_reads_here: request.maxrdmaread,
            max_reads_there: reply.maxrdmaread,
            // The server recommends an alignment, but no threshold. The alignment serves as the
            // threshold.
            padding: Padding::new(reply.align, reply.align).ok(),
        }
    }

    /// Returns whether read chunks may be offered, in calls or in replies. They may not if either
    /// side has announced that it can have no active RDMA Read (section 6.2). The text does not say
    /// whether the number bounds the Reads that a side issues or those that it serves. A transfer
    /// needs both.
    //= 5666-6.2-3 announces no RDMA Reads
    pub const fn may_offer_read_chunks(&self) -> bool {
        self.max_reads_here != 0 && self.max_reads_there != 0
    }
}

/// The exchange, as the client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// No request was sent: the basic level applies.
    Initial,
    /// The request was not answered; nothing else may be sent.
    Asked(Request),
    /// The server has answered.
    Agreed(Configuration),
}

impl Exchange {
    /// Returns the configuration in force.
    pub const fn configuration(&self) -> Configuration {
        match self {
            Self::Initial | Self::Asked(_) => Configuration::INITIAL,
            Self::Agreed(agreed) => *agreed,
        }
    }

    /// Returns whether a call of `len` bytes, header included, may be sent inline now. Credits are
    /// not considered.
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

    /// Notes that the request was sent. A second one on the same connection replaces the first.
    //= 5666-6.1-1 before any other RPC program
    pub fn on_request(&mut self, request: Request) {
        *self = Self::Asked(request);
    }

    /// Handles the server's answer. Returns `false` if no request was sent.
    pub fn on_reply(&mut self, reply: &Reply) -> bool {
        let Self::Asked(request) = *self else {
            return false;
        };
        *self = Self::Agreed(Configuration::agree(&request, reply));
        true
    }

    /// Handles an error: the server does not know the program, or refuses it. The basic level
    /// stays.
    pub fn on_error(&mut self) {
        *self = Self::Initial;
    }
}
