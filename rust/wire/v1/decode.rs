// SPDX-License-Identifier: GPL-2.0

//! Decoding a version-one message.

use super::super::cursor::Cursor;
use super::super::{header, DecodeError, Limits, Lists, Prefix, What};
use super::{Proc, ERR_CHUNK, ERR_VERS, VERSION};

// CAST: the discriminants of a `repr(u32)` enum.
const MSG: u32 = Proc::Msg as u32;
const NOMSG: u32 = Proc::Nomsg as u32;

/// A decoded version-one message.
pub type Header<'a> = header::Header<Body<'a>>;

/// What follows the four fixed words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
//= 5666-4.1-8
pub enum Body<'a> {
    /// RDMA_MSG.
    Msg {
        /// The chunk lists.
        lists: Lists<'a>,
        /// The RPC message, less what the read chunks stand for. Possibly empty.
        payload: &'a [u8],
    },
    /// RDMA_NOMSG.
    Nomsg {
        /// The chunk lists.
        lists: Lists<'a>,
    },
    /// RDMA_MSGP, of an RFC 5666 peer only.
    Msgp {
        /// Padding alignment in bytes, as sent.
        align: u32,
        /// Size in bytes at or above which opaque data is padded.
        thresh: u32,
        /// The chunk lists.
        lists: Lists<'a>,
        /// The RPC message with its padding.
        payload: &'a [u8],
    },
    /// RDMA_DONE, of an RFC 5666 peer only.
    Done,
    /// RDMA_ERROR.
    Error(ErrorBody),
}

/// Why the peer could not process a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorBody {
    /// ERR_VERS: the inclusive range of versions the peer supports. Not checked for order.
    Vers {
        /// Lowest version.
        low: u32,
        /// Highest version.
        high: u32,
    },
    /// ERR_CHUNK, with or without the eight words of padding of RFC 5666.
    Chunk,
}

impl<'a> Header<'a> {
    /// Message type.
    #[inline]
    pub const fn proc(&self) -> Proc {
        match *self.body() {
            Body::Msg { .. } => Proc::Msg,
            Body::Nomsg { .. } => Proc::Nomsg,
            Body::Msgp { .. } => Proc::Msgp,
            Body::Done => Proc::Done,
            Body::Error(_) => Proc::Error,
        }
    }

    /// The chunk lists; none for RDMA_DONE and RDMA_ERROR.
    #[inline]
    pub const fn lists(&self) -> Option<&Lists<'a>> {
        match self.body() {
            Body::Msg { lists, .. } | Body::Nomsg { lists } | Body::Msgp { lists, .. } => {
                Some(lists)
            }
            Body::Done | Body::Error(_) => None,
        }
    }

    /// The inline part of the RPC message; empty when there is none.
    #[inline]
    pub const fn payload(&self) -> &'a [u8] {
        match *self.body() {
            Body::Msg { payload, .. } | Body::Msgp { payload, .. } => payload,
            Body::Nomsg { .. } | Body::Done | Body::Error(_) => &[],
        }
    }
}

/// Decodes a received message.
///
/// Bytes after an RDMA_NOMSG, RDMA_DONE or RDMA_ERROR header are ignored: RFC 5666 pads
/// ERR_CHUNK with eight words, RFC 8166 does not.
///
/// # Errors
///
/// A [`DecodeError`] naming the first item that is cut short, unknown, malformed or beyond
/// `limits`.
#[inline]
//= 5666-4.2-1
pub fn decode<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Header<'a>, DecodeError> {
    if let Some(header) = decode_inline(bytes) {
        return Ok(header);
    }
    decode_any(bytes, limits)
}

/// The most common message by far, RDMA_MSG with three absent lists, at the price of a few
/// comparisons. `None` for any other, well-formed or not.
#[inline]
fn decode_inline(bytes: &[u8]) -> Option<Header<'_>> {
    let (head, payload) = bytes.split_first_chunk::<{ super::len::MIN }>()?;
    let (prefix, lists) = head.split_first_chunk()?;
    let prefix = Prefix::from_bytes(prefix);
    let plain = prefix.version == VERSION && prefix.proc == MSG;
    if !plain || !Lists::are_absent(lists.first_chunk()?) {
        return None;
    }
    let body = Body::Msg {
        lists: Lists::EMPTY,
        payload,
    };
    Some(Header::new(&prefix, super::len::MIN, body))
}

/// Any message.
#[inline(never)]
fn decode_any<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Header<'a>, DecodeError> {
    let mut c = Cursor::new(bytes);
    let prefix = Prefix::decode(&mut c, VERSION)?;
    let body = match prefix.proc {
        MSG | NOMSG => {
            let lists = Lists::decode(&mut c, limits)?;
            let payload = c.rest();
            if prefix.proc == MSG {
                Body::Msg { lists, payload }
            } else {
                Body::Nomsg { lists }
            }
        }
        _ => decode_rare(prefix.proc, &mut c, limits)?,
    };
    Ok(Header::new(&prefix, c.offset(), body))
}

/// The message types of RFC 5666, and RDMA_ERROR.
#[inline(never)]
fn decode_rare<'a>(
    proc: u32,
    c: &mut Cursor<'a>,
    limits: &Limits,
) -> Result<Body<'a>, DecodeError> {
    match Proc::from_u32(proc) {
        Some(Proc::Msgp) => Ok(Body::Msgp {
            align: c.word()?,
            thresh: c.word()?,
            lists: Lists::decode(c, limits)?,
            payload: c.rest(),
        }),
        Some(Proc::Done) => Ok(Body::Done),
        Some(Proc::Error) => decode_error(c).map(Body::Error),
        Some(Proc::Msg | Proc::Nomsg) | None => Err(Prefix::unknown_proc(proc)),
    }
}

//= 5666-4.3-1
fn decode_error(c: &mut Cursor<'_>) -> Result<ErrorBody, DecodeError> {
    match c.word()? {
        ERR_VERS => Ok(ErrorBody::Vers {
            low: c.word()?,
            high: c.word()?,
        }),
        ERR_CHUNK => Ok(ErrorBody::Chunk),
        other => Err(c.error_before(What::ErrorCode(other))),
    }
}
