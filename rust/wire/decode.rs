// SPDX-License-Identifier: GPL-2.0

//! Decodes a received message. Both versions share this code. [`VersionDecoder`] has the parts in
//! which they differ.

use super::cursor::Cursor;
use super::lists::{ABSENT_LEN, ONE_CHUNK_LEN};
use super::message::{Body, ErrorBody, HeaderKind, Message, Proc};
use super::{DecodeError, Direction, ListProc, Lists, Prefix, Version, What};

/// The number of list elements that a decoder accepts. It refuses a message with more elements.
///
/// The receive buffer bounds the lists in any case. These limits say how many elements the local
/// side is prepared to process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most entries of the read list.
    pub read_segments: u32,
    /// Most chunks of the write list.
    pub write_chunks: u32,
    /// Most segments of any one write chunk or of the reply chunk.
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
const ERROR: u32 = Proc::Error as u32;

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
    /// The RPC message, if it is inline. Other bytes behind the lists mean nothing.
    pub payload: &'a [u8],
}

/// The parts of decoding in which the versions differ. `MIN` is the length of a header with three
/// absent lists.
pub(super) trait VersionDecoder<const MIN: usize> {
    /// The version.
    const VERSION: Version;

    /// The kind of an RDMA_ERROR header.
    const ERROR_KIND: HeaderKind;

    /// Reads the words between the four fixed words and the chunk lists.
    ///
    /// # Errors
    ///
    /// [`What::Truncated`], [`What::Direction`].
    fn kind(c: &mut Cursor<'_>) -> Result<HeaderKind, DecodeError>;

    /// Reads those words from a header with three absent lists. Returns `None` if they are
    /// malformed.
    fn kind_of_inline(header: &[u8; MIN]) -> Option<HeaderKind>;

    /// Decodes a message type that only this version has.
    ///
    /// # Errors
    ///
    /// The errors of [`Message::decode_as`].
    fn decode_own<'a>(
        prefix: &Prefix,
        c: &mut Cursor<'a>,
        limits: &Limits,
    ) -> Result<Message<'a>, DecodeError>;
}

/// Decodes a message that must be of the version of `D`.
///
/// # Errors
///
/// The errors of [`Message::decode_as`].
#[inline]
pub(super) fn decode<'a, D: VersionDecoder<MIN>, const MIN: usize>(
    bytes: &'a [u8],
    limits: &Limits,
) -> Result<Message<'a>, DecodeError> {
    let Some((prefix, kind, payload)) = split_inline::<D, MIN>(bytes) else {
        return decode_any::<D, MIN>(bytes, limits);
    };
    let body = Body::Msg {
        lists: Lists::EMPTY,
        payload,
    };
    Ok(Message::new(&prefix, kind, MIN, body))
}

/// Splits an RDMA_MSG with three absent lists, by far the most common message, with a few
/// comparisons. Returns `None` for any other message, well-formed or not.
#[inline(always)]
pub(super) fn split_inline<D: VersionDecoder<MIN>, const MIN: usize>(
    bytes: &[u8],
) -> Option<(Prefix, HeaderKind, &[u8])> {
    let (head, payload) = bytes.split_first_chunk::<MIN>()?;
    let prefix = Prefix::from_bytes(head.first_chunk()?);
    let plain = prefix.version == D::VERSION.number() && prefix.proc == MSG;
    if !plain || !Lists::are_absent(head.last_chunk()?) {
        return None;
    }
    Some((prefix, D::kind_of_inline(head)?, payload))
}

/// Splits an RDMA_MSG or RDMA_NOMSG with one chunk of one segment, which `lists` recognizes, with a
/// few comparisons. Returns `None` for any other message, well-formed or not.
#[inline(always)]
pub(super) fn split_single<'a, D: VersionDecoder<MIN>, const MIN: usize, S>(
    bytes: &'a [u8],
    lists: impl FnOnce(&'a [u8; ONE_CHUNK_LEN]) -> Option<(Lists<'a>, S)>,
) -> Option<OneSegment<'a, S>> {
    let head = bytes.first_chunk::<MIN>()?;
    let prefix = Prefix::from_bytes(head.first_chunk()?);
    if prefix.version != D::VERSION.number() {
        return None;
    }
    let proc = match prefix.proc {
        MSG => ListProc::Msg,
        NOMSG => ListProc::Nomsg,
        _ => return None,
    };
    let behind = bytes.get(MIN.wrapping_sub(ABSENT_LEN)..)?;
    let (chunk, payload) = behind.split_first_chunk::<{ ONE_CHUNK_LEN }>()?;
    let direction = D::kind_of_inline(head)?.direction();
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

/// Decodes any message.
#[inline(never)]
fn decode_any<'a, D: VersionDecoder<MIN>, const MIN: usize>(
    bytes: &'a [u8],
    limits: &Limits,
) -> Result<Message<'a>, DecodeError> {
    let mut c = Cursor::new(bytes);
    let prefix = Prefix::decode(&mut c, D::VERSION.number())?;
    if prefix.proc != MSG && prefix.proc != NOMSG {
        return decode_rare::<D, MIN>(prefix, c, limits);
    }
    let kind = D::kind(&mut c)?;
    let lists = Lists::decode(&mut c, limits)?;
    let payload = c.rest();
    let body = if prefix.proc == MSG {
        Body::Msg { lists, payload }
    } else {
        Body::Nomsg { lists }
    };
    Ok(Message::new(&prefix, kind, c.offset(), body))
}

/// Decodes the message types other than RDMA_MSG and RDMA_NOMSG.
#[inline(never)]
fn decode_rare<'a, D: VersionDecoder<MIN>, const MIN: usize>(
    prefix: Prefix,
    mut c: Cursor<'a>,
    limits: &Limits,
) -> Result<Message<'a>, DecodeError> {
    if prefix.proc != ERROR {
        return D::decode_own(&prefix, &mut c, limits);
    }
    let body = Body::Error(error(&mut c, D::VERSION)?);
    Ok(Message::new(&prefix, D::ERROR_KIND, c.offset(), body))
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
