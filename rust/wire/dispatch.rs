// SPDX-License-Identifier: GPL-2.0

//! Chooses the decoder by the version of a message.

use super::decode::{decode, split_inline, split_single, OneSegment};
use super::{
    peek, v1, v2, DecodeError, Direction, Limits, Lists, Message, Prefix, ReadSegment, Segment,
    Version, What,
};

impl<'a> Message<'a> {
    /// Decodes a message of any version.
    ///
    /// # Errors
    ///
    /// The errors of [`Message::decode_as`], and [`What::Version`] for an unsupported version.
    #[inline]
    pub fn decode(bytes: &'a [u8], limits: &Limits) -> Result<Self, DecodeError> {
        let version = peek(bytes)?.version;
        match Version::from_u32(version) {
            Some(version) => Self::decode_as(version, bytes, limits),
            None => Err(DecodeError::new(What::Version(version), 4)),
        }
    }

    /// Splits a message without chunks, which is an RDMA_MSG with three absent lists, into its
    /// first words, its direction if the version has one, and the RPC message. Returns `None` for
    /// any other message, well-formed or not, and for one of another version.
    #[inline(always)]
    pub fn split_plain(
        version: Version,
        bytes: &'a [u8],
    ) -> Option<(Prefix, Option<Direction>, &'a [u8])> {
        let (prefix, kind, payload) = match version {
            Version::One => split_inline::<v1::Decoder, { v1::len::MIN }>(bytes)?,
            Version::Two => split_inline::<v2::Decoder, { v2::len::MIN }>(bytes)?,
        };
        Some((prefix, kind.direction(), payload))
    }

    /// Splits an RDMA_MSG or RDMA_NOMSG with a read list of one segment and no other chunk. Returns
    /// `None` for any other message, well-formed or not, and for one of another version.
    #[inline(always)]
    pub fn split_one_read(
        version: Version,
        bytes: &'a [u8],
    ) -> Option<OneSegment<'a, ReadSegment>> {
        let lists = Lists::one_read;
        match version {
            Version::One => split_single::<v1::Decoder, { v1::len::MIN }, _>(bytes, lists),
            Version::Two => split_single::<v2::Decoder, { v2::len::MIN }, _>(bytes, lists),
        }
    }

    /// Splits an RDMA_MSG or RDMA_NOMSG with a write chunk of one segment and no other chunk.
    /// Returns `None` for any other message, well-formed or not, and for one of another version.
    #[inline(always)]
    pub fn split_one_write(version: Version, bytes: &'a [u8]) -> Option<OneSegment<'a, Segment>> {
        let lists = Lists::one_write;
        match version {
            Version::One => split_single::<v1::Decoder, { v1::len::MIN }, _>(bytes, lists),
            Version::Two => split_single::<v2::Decoder, { v2::len::MIN }, _>(bytes, lists),
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
        match version {
            Version::One => decode::<v1::Decoder, { v1::len::MIN }>(bytes, limits),
            Version::Two => decode::<v2::Decoder, { v2::len::MIN }>(bytes, limits),
        }
    }
}
