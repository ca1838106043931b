// SPDX-License-Identifier: GPL-2.0

//! Decoding a version-two message.

use super::super::cursor::Cursor;
use super::super::{DecodeError, Direction, Limits, Lists, Prefix, What};
use super::{Proc, ERR_BAD_HEADER, ERR_INVAL_OPTION, ERR_VERS, VERSION};

/// A decoded version-two message. All accessors are infallible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    xid: u32,
    credits: u32,
    header_len: usize,
    body: Body<'a>,
}

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
    /// RDMA2_ERR_BAD_HEADER.
    BadHeader,
    /// RDMA2_ERR_INVAL_OPTION: the operation of an RDMA2_OPTIONAL is not known or supported.
    InvalidOption,
}

impl<'a> Header<'a> {
    /// Transaction ID, in the XID space of the message's direction.
    #[inline]
    pub const fn xid(&self) -> u32 {
        self.xid
    }

    /// Credits requested or granted in the message's direction, as sent.
    #[inline]
    pub const fn credits(&self) -> u32 {
        self.credits
    }

    /// What follows the fixed words.
    #[inline]
    pub const fn body(&self) -> &Body<'a> {
        &self.body
    }

    /// Message type.
    #[inline]
    pub const fn proc(&self) -> Proc {
        match self.body {
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
        match self.body {
            Body::Msg { direction, .. }
            | Body::Nomsg { direction, .. }
            | Body::Optional { direction, .. } => direction,
            Body::Error(_) => Direction::Reply,
        }
    }

    /// Length of the header in bytes: where the RPC message starts, if there is one.
    #[inline]
    pub const fn header_len(&self) -> usize {
        self.header_len
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
    let mut c = Cursor::new(bytes);
    let prefix = Prefix::from_bytes(c.array()?);
    if prefix.version != VERSION {
        return Err(refuse(What::Version(prefix.version), 4));
    }
    let body = match Proc::from_u32(prefix.proc) {
        Some(Proc::Msg) => Body::Msg {
            direction: direction(&mut c)?,
            lists: Lists::decode(&mut c, limits)?,
            payload: c.rest(),
        },
        Some(Proc::Nomsg) => Body::Nomsg {
            direction: direction(&mut c)?,
            lists: Lists::decode(&mut c, limits)?,
        },
        Some(Proc::Error) => Body::Error(error(&mut c)?),
        Some(Proc::Optional) => Body::Optional {
            direction: direction(&mut c)?,
            opttype: c.word()?,
            optinfo: c.opaque()?,
            payload: c.rest(),
        },
        None => return Err(refuse(What::Proc(prefix.proc), 12)),
    };
    Ok(Header {
        xid: prefix.xid,
        credits: prefix.credits,
        header_len: c.offset(),
        body,
    })
}

#[inline]
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

#[cold]
const fn refuse(what: What, offset: usize) -> DecodeError {
    DecodeError { what, offset }
}
