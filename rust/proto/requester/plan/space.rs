// SPDX-License-Identifier: GPL-2.0

//! The space for the RPC message beside each header that a plan may choose. It depends only on the
//! terms of a connection, so it is not computed for each call.

use super::super::super::inline::Thresholds;
use super::ReplyKind;

/// The longest message beside a header, in bytes; negative if the header alone is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Space(i64);

impl Space {
    /// No message fits.
    const NONE: Self = Self(-1);

    fn new(threshold: u32, header: usize) -> Self {
        let header = i64::try_from(header).unwrap_or(i64::MAX);
        Self(i64::from(threshold).saturating_sub(header))
    }

    /// Returns whether a message of `len` bytes fits. `len` is a sum of a few 32-bit numbers.
    #[inline(always)]
    pub(super) const fn takes(self, len: u64) -> bool {
        // CAST: `len` has far less than 63 bits.
        len as i64 <= self.0
    }
}

/// The longest calls whose header has the same chunk for the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Calls {
    /// Without a read list.
    pub(super) inline: Space,
    /// With a read list of the maximum number of segments.
    pub(super) read: Space,
}

/// Properties of a connection's calls that do not follow from its thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallOptions {
    /// Calls may have read chunks.
    pub read_chunks: bool,
    /// The payload of an inline call begins at a multiple of this number of bytes, a power of two,
    /// if the call has space for the padding. Zero: no alignment is requested.
    pub align: u32,
}

impl CallOptions {
    /// Read chunks, and no alignment.
    pub const DEFAULT: Self = Self {
        read_chunks: true,
        align: 0,
    };
}

/// The space beside all headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlineSpace {
    /// For a reply without chunks.
    pub(super) reply: Space,
    /// For a reply that returns a write chunk.
    pub(super) written: Space,
    /// For a call that offers nothing for its reply.
    none: Calls,
    /// For a call with a write chunk.
    write: Calls,
    /// For a call with a reply chunk.
    reply_chunk: Calls,
    align: u32,
}

impl InlineSpace {
    /// Computes the space of a connection with these thresholds. The chunks of a call have at most
    /// `max_segs` segments each.
    pub fn new(thresholds: &Thresholds, max_segs: u32, options: CallOptions) -> Self {
        // CAST: lossless where `usize` has 32 bits or more.
        let (segs, t) = (max_segs as usize, thresholds);
        let call = |write, reply| Calls {
            inline: Space::new(t.client_to_server, t.header_len(0, write, reply)),
            read: match options.read_chunks {
                true => Space::new(t.client_to_server, t.header_len(segs, write, reply)),
                false => Space::NONE,
            },
        };
        let reply = |write| Space::new(t.server_to_client, t.header_len(0, write, None));
        Self {
            reply: reply(None),
            written: reply(Some(segs)),
            none: call(None, None),
            write: call(Some(segs), None),
            reply_chunk: call(None, Some(segs)),
            align: options.align,
        }
    }

    /// Returns the space for a call that offers `reply`.
    #[inline(always)]
    pub(super) const fn calls(&self, reply: ReplyKind) -> &Calls {
        match reply {
            ReplyKind::Inline => &self.none,
            ReplyKind::WriteChunk => &self.write,
            ReplyKind::ReplyChunk => &self.reply_chunk,
        }
    }

    /// Returns [`CallOptions::align`].
    pub const fn align(&self) -> u32 {
        self.align
    }
}
