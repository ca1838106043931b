// SPDX-License-Identifier: GPL-2.0

//! The Connection Configuration Protocol as a client uses it: its call, the server's answer, and
//! what follows from both (RFC 5666 section 6).
//!
//! The call has AUTH_NONE, although section 11 demands protection by a flavour: there is no context
//! of RPCSEC_GSS yet. The call contains no secret, and concerns only this connection.
//!
//! Before the server has answered, a client may send one message at a time, of at most 1024
//! bytes. The server's answer bounds the client's calls and its use of RDMA Read.

use super::super::super::wire::conf_rdma::{self, Reply, Request, CONF_RDMA, PROGRAM, VERSION};
use super::super::super::wire::v1::DEFAULT_INLINE;
use super::padded::Padding;

/// The limits of a connection after the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Longest inline call in bytes that may be sent.
    pub max_call: u32,
    /// Longest inline reply in bytes that the server may send.
    pub max_reply: u32,
    /// Read chunks may be offered, in calls or in replies. They may not be offered if either side
    /// has announced that it can have no active RDMA Read (section 6.2). The text does not say
    /// whether the number bounds the Reads that a side issues or those that it serves. A transfer
    /// needs both.
    //= 5666-6.2-3 announces no RDMA Reads
    pub read_chunks: bool,
    /// The padding that the server recommends, if this client supports it.
    pub padding: Option<Padding>,
}

impl Configuration {
    /// Returns the configuration that follows from `request` and its `reply`. `None`: the server
    /// accepts no inline call of 1024 bytes, which every connection permits (section 6.1). Neither
    /// a longer call nor its chunk list could be sent, so the connection is useless, and is closed.
    ///
    /// The server's `maxcall_sendsize` may be larger than requested; the client does not send
    /// longer calls than it has requested. An alignment of 4 requests no padding, and an alignment
    /// that is not a power of two is not supported.
    //= 5666-6.2-1 no call longer than server accepts
    //= 5666-6.2-2 server may accept more or less
    //= 5666-6.2-6 client and server have agreed
    //= 5666-6.2-4 pad as the server recommends
    pub fn agree(request: &Request, reply: &Reply) -> Option<Self> {
        if reply.maxcall_sendsize < DEFAULT_INLINE {
            return None;
        }
        let max_call = reply.maxcall_sendsize.min(request.maxcall_sendsize);
        // The server recommends an alignment, but no threshold. The alignment serves as the
        // threshold.
        let padding = Padding::new(reply.align, reply.align);
        Some(Self {
            max_call: max_call.max(DEFAULT_INLINE),
            max_reply: request.maxreply_sendsize.max(DEFAULT_INLINE),
            read_chunks: request.maxrdmaread != 0 && reply.maxrdmaread != 0,
            padding: padding.filter(|padding| padding.align() > 4),
        })
    }
}

/// Bytes of the RPC call.
//= 5666-6.1-2 assumes one receive of 1 KB
pub const CALL_LEN: usize = 40 + conf_rdma::LEN;

/// The server's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The call succeeded.
    Reply(Reply),
    /// The server does not know the program, or does not serve the call.
    Refused,
    /// The message is not an answer to this call.
    Malformed,
}

/// Returns the RPC call with this XID.
pub fn call(xid: u32, request: &Request) -> [u8; CALL_LEN] {
    let header = [xid, 0, 2, PROGRAM, VERSION, CONF_RDMA, 0, 0, 0, 0];
    let header = header.into_iter().flat_map(u32::to_be_bytes);
    let mut call = [0; CALL_LEN];
    for (place, byte) in call.iter_mut().zip(header.chain(request.encode())) {
        *place = byte;
    }
    call
}

/// Decodes the RPC reply to the call with this XID.
pub fn hear(xid: u32, reply: &[u8]) -> Heard {
    heard(xid, reply).unwrap_or(Heard::Malformed)
}

fn heard(xid: u32, reply: &[u8]) -> Option<Heard> {
    let mut rest = reply;
    if word(&mut rest)? != xid || word(&mut rest)? != 1 {
        return None;
    }
    match word(&mut rest)? {
        0 => {}
        1 => return Some(Heard::Refused),
        _ => return None,
    }
    // The verifier of AUTH_NONE is empty.
    if (word(&mut rest)?, word(&mut rest)?) != (0, 0) {
        return None;
    }
    match word(&mut rest)? {
        0 => Reply::decode(rest).ok().map(Heard::Reply),
        1..=5 => Some(Heard::Refused),
        _ => None,
    }
}

fn word(rest: &mut &[u8]) -> Option<u32> {
    let (word, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u32::from_be_bytes(*word))
}
