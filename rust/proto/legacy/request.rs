// SPDX-License-Identifier: GPL-2.0

//! The client's call of CONF_RDMA, and what the server answers: RFC 5666 section 6.
//!
//! The call has AUTH_NONE, although section 11 demands protection by a flavor: there is no context
//! of RPCSEC_GSS yet. What the call says is no secret, and it concerns this connection alone.

use super::super::super::wire::conf_rdma::{self, Reply, Request, CONF_RDMA, PROGRAM, VERSION};

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
