// SPDX-License-Identifier: GPL-2.0

//! Decodes a received message. Both versions share this code.

use super::cursor::Cursor;
use super::lists::ONE_CHUNK_LEN;
use super::message::{Body, ErrorBody, Message, Proc};
use super::{peek, DecodeError, Direction, ListProc, Lists, Prefix, Version, What};

/// The number of list elements that a decoder accepts. It refuses a message with more elements.
///
/// The receive buffer bounds the lists anyway. These limits are the number of elements that the
/// local side is prepared to process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of entries of the read list.
    pub read_segments: u32,
    /// Maximum number of chunks of the write list.
    pub write_chunks: u32,
    /// Maximum number of segments of any one write chunk or of the reply chunk.
    pub chunk_segments: u32,
}

impl Limits {
    /// No bound except the length of the message.
    pub const NONE: Self = Self {
        read_segments: u32::MAX,
        write_chunks: u32::MAX,
        chunk_segments: u32::MAX,
    };

    /// Returns the limits of a requester that offers at most `chunks` write chunks of at most
    /// `segments` segments each. It accepts no read chunks in a reply (RFC 8166 section 4.3).
    pub const fn requester(chunks: u32, segments: u32) -> Self {
        Self {
            read_segments: 0,
            write_chunks: chunks,
            chunk_segments: segments,
        }
    }
}

// CAST: reads the discriminants of a `repr(u32)` enum.
const MSG: u32 = Proc::Msg as u32;
const NOMSG: u32 = Proc::Nomsg as u32;
const MSGP: u32 = Proc::Msgp as u32;
const DONE: u32 = Proc::Done as u32;
const ERROR: u32 = Proc::Error as u32;
const OPTIONAL: u32 = Proc::Optional as u32;

/// ERR_VERS and RDMA2_ERR_VERS.
pub(super) const ERR_VERS: u32 = 1;
/// ERR_CHUNK and RDMA2_ERR_BAD_HEADER.
pub(super) const ERR_BAD_HEADER: u32 = 2;
/// RDMA2_ERR_INVAL_OPTION; version one lacks it.
pub(super) const ERR_INVAL_OPTION: u32 = 3;

/// The parts of a message with one chunk of one segment, which is a [`ReadSegment`] or a
/// [`Segment`].
#[derive(Clone, Copy, Debug)]
pub struct OneSegment<'a, S> {
    /// The first words.
    pub prefix: Prefix,
    /// The message type.
    pub proc: ListProc,
    /// The direction, if the version has one.
    pub direction: Option<Direction>,
    /// The chunk lists.
    pub lists: Lists<'a>,
    /// Their only segment.
    pub segment: S,
    /// The RPC message, if it is inline. Other bytes behind the lists are ignored.
    pub payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// Decodes a message of any version.
    ///
    /// # Errors
    ///
    /// The errors of [`Message::decode_as`], and [`What::Version`] for an unsupported version.
    pub fn decode(bytes: &'a [u8], limits: &Limits) -> Result<Self, DecodeError> {
        let version = peek(bytes)?.version;
        match Version::from_u32(version) {
            Some(version) => Self::decode_as(version, bytes, limits),
            None => Err(DecodeError::new(What::Version(version), 4)),
        }
    }

    /// Decodes a message that must be of this version.
    ///
    /// Bytes after an RDMA_NOMSG, RDMA_DONE or RDMA_ERROR header are ignored: RFC 5666 pads
    /// ERR_CHUNK with eight words, RFC 8166 does not. The RPC message is not decoded;
    /// [`Message::check_direction`] compares its direction with the header's.
    ///
    /// # Errors
    ///
    /// A [`DecodeError`] that names the first item that is truncated, unknown, malformed or beyond
    /// `limits`.
    #[inline(always)]
    //= 5666-4.2-1 header and chunks are checked
    pub fn decode_as(
        version: Version,
        bytes: &'a [u8],
        limits: &Limits,
    ) -> Result<Self, DecodeError> {
        let Some((prefix, direction, payload)) = Self::split_plain(version, bytes) else {
            return decode_any(version, bytes, limits);
        };
        let lists = Lists::EMPTY;
        let (len, body) = (version.min_header(), Body::Msg { lists, payload });
        Ok(Self::new(version, direction, &prefix, len, body))
    }

    /// Splits a message without chunks, which is an RDMA_MSG with three absent lists, into its
    /// first words, its direction if the version has one, and the RPC message. Returns `None` for
    /// any other message, well-formed or not, and for one of another version.
    #[inline(always)]
    pub fn split_plain(
        version: Version,
        bytes: &'a [u8],
    ) -> Option<(Prefix, Option<Direction>, &'a [u8])> {
        let (prefix, direction, rest) = split(version, bytes)?;
        let (lists, payload) = rest.split_first_chunk()?;
        let plain = prefix.proc == MSG && Lists::are_absent(lists);
        plain.then_some((prefix, direction, payload))
    }

    /// Splits an RDMA_MSG or RDMA_NOMSG with one chunk of one segment and no other chunk, with a
    /// few comparisons: with a read chunk if `lists` is [`Lists::one_read`], and a write chunk if
    /// it is [`Lists::one_write`]. Returns `None` for any other message, well-formed or not, and
    /// for a message of another version.
    #[inline(always)]
    pub fn split_single<S>(
        version: Version,
        bytes: &'a [u8],
        lists: impl FnOnce(&'a [u8; ONE_CHUNK_LEN]) -> Option<(Lists<'a>, S)>,
    ) -> Option<OneSegment<'a, S>> {
        let (prefix, direction, rest) = split(version, bytes)?;
        let proc = match prefix.proc {
            MSG => ListProc::Msg,
            NOMSG => ListProc::Nomsg,
            _ => return None,
        };
        let (chunk, payload) = rest.split_first_chunk()?;
        let (lists, segment) = lists(chunk)?;
        Some(OneSegment {
            prefix,
            proc,
            direction,
            lists,
            segment,
            payload,
        })
    }
}

/// Splits a message of this version into its first words, its direction if the version has one, and
/// the bytes with which the chunk lists of an RDMA_MSG begin.
#[inline(always)]
pub(super) fn split(version: Version, bytes: &[u8]) -> Option<(Prefix, Option<Direction>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk()?;
    let prefix = Prefix::from_bytes(head);
    if prefix.version != version.number() {
        return None;
    }
    let Version::Two = version else {
        return Some((prefix, None, rest));
    };
    let (word, rest) = rest.split_first_chunk()?;
    let direction = Direction::from_u32(u32::from_be_bytes(*word))?;
    Some((prefix, Some(direction), rest))
}

/// Decodes any message.
#[inline(never)]
fn decode_any<'a>(
    version: Version,
    bytes: &'a [u8],
    limits: &Limits,
) -> Result<Message<'a>, DecodeError> {
    let mut c = Cursor::new(bytes);
    let prefix = Prefix::decode(&mut c, version.number())?;
    if prefix.proc != MSG && prefix.proc != NOMSG {
        return decode_rare(version, prefix, c, limits);
    }
    let direction = direction(&mut c, version)?;
    let lists = Lists::decode(&mut c, limits)?;
    let payload = c.rest();
    let body = if prefix.proc == MSG {
        Body::Msg { lists, payload }
    } else {
        Body::Nomsg { lists }
    };
    Ok(Message::new(version, direction, &prefix, c.offset(), body))
}

/// Reads the direction from the header, if the version has one.
fn direction(c: &mut Cursor<'_>, version: Version) -> Result<Option<Direction>, DecodeError> {
    let Version::Two = version else {
        return Ok(None);
    };
    let word = c.word()?;
    let direction = Direction::from_u32(word);
    direction
        .map(Some)
        .ok_or_else(|| c.error_before(What::Direction(word)))
}

/// Decodes the message types other than RDMA_MSG and RDMA_NOMSG.
#[inline(never)]
//= V2-3.2-1 XID and credits of the direction
//= V2-4.2.2-3 direction of error is REPLY
fn decode_rare<'a>(
    version: Version,
    prefix: Prefix,
    mut c: Cursor<'a>,
    limits: &Limits,
) -> Result<Message<'a>, DecodeError> {
    let (direction, body) = match (version, prefix.proc) {
        (_, ERROR) => (Some(Direction::Reply), Body::Error(error(&mut c, version)?)),
        (Version::One, MSGP) => (
            None,
            Body::Msgp {
                align: c.word()?,
                thresh: c.word()?,
                lists: Lists::decode(&mut c, limits)?,
                payload: c.rest(),
            },
        ),
        (Version::One, DONE) => (Some(Direction::Call), Body::Done),
        (Version::Two, OPTIONAL) => (
            direction(&mut c, version)?,
            Body::Optional {
                opttype: c.word()?,
                optinfo: c.opaque()?,
                payload: c.rest(),
            },
        ),
        (_, proc) => return Err(DecodeError::new(What::Proc(proc), 12)),
    };
    Ok(Message::new(version, direction, &prefix, c.offset(), body))
}

/// Decodes the body of RDMA_ERROR. Both versions number their errors alike.
//= 5666-4.3-1 eight words of padding
fn error(c: &mut Cursor<'_>, version: Version) -> Result<ErrorBody, DecodeError> {
    match c.word()? {
        ERR_VERS => Ok(ErrorBody::Vers {
            low: c.word()?,
            high: c.word()?,
        }),
        ERR_BAD_HEADER => Ok(ErrorBody::BadHeader),
        ERR_INVAL_OPTION if version == Version::Two => Ok(ErrorBody::InvalidOption),
        other => Err(c.error_before(What::ErrorCode(other))),
    }
}
