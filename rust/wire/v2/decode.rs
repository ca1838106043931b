// SPDX-License-Identifier: GPL-2.0

//! Decoding a version-two message.

use super::super::cursor::Cursor;
use super::super::{header, DecodeError, Direction, Limits, Lists, Prefix, What};
use super::{Proc, ERR_BAD_HEADER, ERR_INVAL_OPTION, ERR_VERS, VERSION};

// CAST: the discriminants of a `repr(u32)` enum.
const MSG: u32 = Proc::Msg as u32;
const NOMSG: u32 = Proc::Nomsg as u32;

/// A decoded version-two message. XID and credits belong to the message's direction.
pub type Header<'a> = header::Header<Body<'a>>;

/// What follows the four fixed words: `union rpcrdma2_body`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// RDMA2_MSG.
    Msg {
        /// Direction of the RPC message.
        direction: Direction,
        /// The chunk lists.
        lists: Lists<'a>,
        /// The RPC message, less what the read chunks stand for.
        payload: &'a [u8],
    },
    /// RDMA2_NOMSG.
    Nomsg {
        /// Direction of the RPC message.
        direction: Direction,
        /// The chunk lists.
        lists: Lists<'a>,
    },
    /// RDMA2_ERROR; its direction is always [`Direction::Reply`].
    Error(ErrorBody),
    /// RDMA2_OPTIONAL.
    //= V2-4.2.1-3
    Optional {
        /// Direction of the RPC message if there is one, else of the operation.
        direction: Direction,
        /// The operation.
        opttype: u32,
        /// Its data, without XDR padding.
        optinfo: &'a [u8],
        /// All, part or nothing of an RPC message.
        payload: &'a [u8],
    },
}

/// Why the peer could not process a message: `union rpcrdma2_error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorBody {
    /// RDMA2_ERR_VERS: the inclusive range of versions the peer supports. Not checked for order.
    Vers {
        /// Lowest version.
        low: u32,
        /// Highest version.
        high: u32,
    },
    /// RDMA2_ERR_BAD_HEADER: its header or chunks; ERR_CHUNK in version one.
    BadHeader,
    /// RDMA2_ERR_INVAL_OPTION: the operation of an RDMA2_OPTIONAL is not known or supported. No
    /// such error in version one.
    InvalidOption,
}

impl Header<'_> {
    /// Message type.
    #[inline]
    pub const fn proc(&self) -> Proc {
        match *self.body() {
            Body::Msg { .. } => Proc::Msg,
            Body::Nomsg { .. } => Proc::Nomsg,
            Body::Error(_) => Proc::Error,
            Body::Optional { .. } => Proc::Optional,
        }
    }

    /// Direction of the message; that of an error is always Reply (section 4.2.2).
    #[inline]
    //= V2-3.2-1 V2-4.2.2-3
    pub const fn direction(&self) -> Direction {
        match *self.body() {
            Body::Msg { direction, .. }
            | Body::Nomsg { direction, .. }
            | Body::Optional { direction, .. } => direction,
            Body::Error(_) => Direction::Reply,
        }
    }
}

/// Decodes a received message.
///
/// The RPC message is not looked at; [`super::super::Message::check_direction`] compares its
/// direction with the header's.
///
/// # Errors
///
/// A [`DecodeError`] naming the first item that is cut short, unknown, malformed or beyond
/// `limits`.
#[inline]
pub fn decode<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Header<'a>, DecodeError> {
    if let Some(header) = decode_inline(bytes) {
        return Ok(header);
    }
    decode_any(bytes, limits)
}

/// The most common message, RDMA2_MSG with three absent lists, as in version one. `None` for any
/// other, well-formed or not.
#[inline]
fn decode_inline(bytes: &[u8]) -> Option<Header<'_>> {
    let (head, payload) = bytes.split_first_chunk::<{ super::len::MIN }>()?;
    let (prefix, rest) = head.split_first_chunk()?;
    let (direction, lists) = rest.split_first_chunk()?;
    let prefix = Prefix::from_bytes(prefix);
    let plain = prefix.version == VERSION && prefix.proc == MSG;
    if !plain || !Lists::are_absent(lists.first_chunk()?) {
        return None;
    }
    let body = Body::Msg {
        direction: Direction::from_u32(u32::from_be_bytes(*direction))?,
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
            let direction = direction(&mut c)?;
            let lists = Lists::decode(&mut c, limits)?;
            let payload = c.rest();
            if prefix.proc == MSG {
                Body::Msg {
                    direction,
                    lists,
                    payload,
                }
            } else {
                Body::Nomsg { direction, lists }
            }
        }
        _ => decode_rare(prefix.proc, &mut c)?,
    };
    Ok(Header::new(&prefix, c.offset(), body))
}

/// The message types without chunk lists.
#[inline(never)]
fn decode_rare<'a>(proc: u32, c: &mut Cursor<'a>) -> Result<Body<'a>, DecodeError> {
    match Proc::from_u32(proc) {
        Some(Proc::Error) => error(c).map(Body::Error),
        Some(Proc::Optional) => Ok(Body::Optional {
            direction: direction(c)?,
            opttype: c.word()?,
            optinfo: c.opaque()?,
            payload: c.rest(),
        }),
        Some(Proc::Msg | Proc::Nomsg) | None => Err(Prefix::unknown_proc(proc)),
    }
}

#[inline(always)]
fn direction(c: &mut Cursor<'_>) -> Result<Direction, DecodeError> {
    let word = c.word()?;
    Direction::from_u32(word).ok_or_else(|| c.error_before(What::Direction(word)))
}

fn error(c: &mut Cursor<'_>) -> Result<ErrorBody, DecodeError> {
    match c.word()? {
        ERR_VERS => Ok(ErrorBody::Vers {
            low: c.word()?,
            high: c.word()?,
        }),
        ERR_BAD_HEADER => Ok(ErrorBody::BadHeader),
        ERR_INVAL_OPTION => Ok(ErrorBody::InvalidOption),
        other => Err(c.error_before(What::ErrorCode(other))),
    }
}
