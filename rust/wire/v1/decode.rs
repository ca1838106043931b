// SPDX-License-Identifier: GPL-2.0

//! Decodes the message types that only version one has.

use super::super::cursor::Cursor;
use super::super::decode::VersionDecoder;
use super::super::message::{Body, HeaderKind, Message, Proc};
use super::super::{DecodeError, Limits, Lists, Prefix, Version};
use super::len;

// CAST: the discriminants of a `repr(u32)` enum.
const MSGP: u32 = Proc::Msgp as u32;
const DONE: u32 = Proc::Done as u32;

/// Version one: no word stands before the chunk lists, and there are RDMA_MSGP and RDMA_DONE.
pub(in super::super) struct Decoder;

impl VersionDecoder<{ len::MIN }> for Decoder {
    const VERSION: Version = Version::One;
    const ERROR_KIND: HeaderKind = HeaderKind::One;

    #[inline(always)]
    fn kind(_: &mut Cursor<'_>) -> Result<HeaderKind, DecodeError> {
        Ok(HeaderKind::One)
    }

    #[inline(always)]
    fn kind_of_inline(_: &[u8; len::MIN]) -> Option<HeaderKind> {
        Some(HeaderKind::One)
    }

    fn decode_own<'a>(
        prefix: &Prefix,
        c: &mut Cursor<'a>,
        limits: &Limits,
    ) -> Result<Message<'a>, DecodeError> {
        let body = match prefix.proc {
            MSGP => Body::Msgp {
                align: c.word()?,
                thresh: c.word()?,
                lists: Lists::decode(c, limits)?,
                payload: c.rest(),
            },
            DONE => Body::Done,
            other => return Err(Prefix::unknown_proc(other)),
        };
        Ok(Message::new(prefix, HeaderKind::One, c.offset(), body))
    }
}
