// SPDX-License-Identifier: GPL-2.0

//! Decodes the parts that only version two has.

use super::super::cursor::Cursor;
use super::super::decode::VersionDecoder;
use super::super::message::{Body, HeaderKind, Message, Proc};
use super::super::{DecodeError, Direction, Limits, Prefix, Version, What};
use super::len;

// CAST: the discriminant of a `repr(u32)` enum.
const OPTIONAL: u32 = Proc::Optional as u32;

/// Version two: the direction stands before the chunk lists, and there is RDMA2_OPTIONAL.
pub(in super::super) struct Decoder;

impl VersionDecoder<{ len::MIN }> for Decoder {
    const VERSION: Version = Version::Two;
    //= V2-3.2-1 XID and credits of the direction
    //= V2-4.2.2-3 direction of error is REPLY
    const ERROR_KIND: HeaderKind = HeaderKind::Two(Direction::Reply);

    #[inline(always)]
    fn kind(c: &mut Cursor<'_>) -> Result<HeaderKind, DecodeError> {
        direction(c).map(HeaderKind::Two)
    }

    #[inline(always)]
    fn kind_of_inline(header: &[u8; len::MIN]) -> Option<HeaderKind> {
        let (_, rest) = header.split_first_chunk::<{ Prefix::LEN }>()?;
        let direction = u32::from_be_bytes(*rest.first_chunk()?);
        Direction::from_u32(direction).map(HeaderKind::Two)
    }

    fn decode_own<'a>(
        prefix: &Prefix,
        c: &mut Cursor<'a>,
        _: &Limits,
    ) -> Result<Message<'a>, DecodeError> {
        if prefix.proc != OPTIONAL {
            return Err(Prefix::unknown_proc(prefix.proc));
        }
        let kind = Self::kind(c)?;
        let body = Body::Optional {
            opttype: c.word()?,
            optinfo: c.opaque()?,
            payload: c.rest(),
        };
        Ok(Message::new(prefix, kind, c.offset(), body))
    }
}

#[inline(always)]
fn direction(c: &mut Cursor<'_>) -> Result<Direction, DecodeError> {
    let word = c.word()?;
    Direction::from_u32(word).ok_or_else(|| c.error_before(What::Direction(word)))
}
