// SPDX-License-Identifier: GPL-2.0

//! The effect of the Connection Configuration Protocol: RFC 5666 section 6.
//!
//! Before the server has answered, a client may send one message at a time, of at most 1024
//! bytes. The server's answer bounds the client's calls and its use of RDMA Read.

use super::super::super::wire::conf_rdma::{Reply, Request};
use super::super::super::wire::v1::DEFAULT_INLINE;
use super::padding::Padding;

/// The limits of a connection after the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Longest inline call in bytes that may be sent.
    pub max_call: u32,
    /// Longest inline reply in bytes that the server may send.
    pub max_reply: u32,
    /// Most RDMA Reads that may be active at the client and at the server, if they have been
    /// announced.
    pub max_reads: Option<(u32, u32)>,
    /// The padding that the server recommends, if it can be followed.
    pub padding: Option<Padding>,
}

impl Configuration {
    /// Returns the configuration that follows from `request` and its `reply`.
    ///
    /// The server's `maxcall_sendsize` may be larger than requested; the client does not send
    /// longer calls than it has requested. An alignment of 4 asks for no padding, and one that is
    /// no power of two cannot be followed.
    ///
    /// # Errors
    ///
    /// [`BelowBasicLevel`].
    //= 5666-6.2-1 no call longer than server accepts
    //= 5666-6.2-2 server may accept more or less
    //= 5666-6.2-6 client and server have agreed
    //= 5666-6.2-4 pad as the server recommends
    pub fn agree(request: &Request, reply: &Reply) -> Result<Self, BelowBasicLevel> {
        if reply.maxcall_sendsize < DEFAULT_INLINE {
            return Err(BelowBasicLevel);
        }
        let max_call = reply.maxcall_sendsize.min(request.maxcall_sendsize);
        // The server recommends an alignment, but no threshold. The alignment serves as the
        // threshold.
        let padding = Padding::new(reply.align, reply.align).ok();
        Ok(Self {
            max_call: max_call.max(DEFAULT_INLINE),
            max_reply: request.maxreply_sendsize.max(DEFAULT_INLINE),
            max_reads: Some((request.maxrdmaread, reply.maxrdmaread)),
            padding: padding.filter(|padding| padding.align() > 4),
        })
    }

    /// Returns whether read chunks may be offered, in calls or in replies. They may not if either
    /// side has announced that it can have no active RDMA Read (section 6.2). The text does not say
    /// whether the number bounds the Reads that a side issues or those that it serves. A transfer
    /// needs both.
    //= 5666-6.2-3 announces no RDMA Reads
    pub const fn may_offer_read_chunks(&self) -> bool {
        !matches!(self.max_reads, Some((0, _) | (_, 0)))
    }
}

/// The server accepts no inline call of 1024 bytes, which every connection allows (section 6.1). A
/// longer call could not be sent, and neither could the chunk list of one: the connection is of no
/// use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BelowBasicLevel;

/// The effect of the server's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The connection is configured.
    Agreed(Configuration),
    /// The answer is not accepted: close the connection.
    Rejected,
    /// Nothing was asked.
    Unasked,
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
    /// Records that the request was sent. A second request on the same connection replaces the
    /// first.
    //= 5666-6.1-1 before any other RPC program
    pub fn on_request(&mut self, request: Request) {
        *self = Self::Asked(request);
    }

    /// Handles the server's answer. After one that is not accepted, the request counts as not
    /// answered.
    pub fn on_reply(&mut self, reply: &Reply) -> Answered {
        let Self::Asked(request) = *self else {
            return Answered::Unasked;
        };
        let Ok(agreed) = Configuration::agree(&request, reply) else {
            return Answered::Rejected;
        };
        *self = Self::Agreed(agreed);
        Answered::Agreed(agreed)
    }

    /// Handles an error: the server does not know the program, or refuses it. The connection is as
    /// if nothing had been asked, so read chunks may be offered.
    pub fn on_error(&mut self) {
        *self = Self::Initial;
    }
}
