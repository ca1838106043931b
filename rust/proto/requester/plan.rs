// SPDX-License-Identifier: GPL-2.0

//! The chunks of a call.
//!
//! RFC 8166 section 3.5 lists the forms. RFC 8267 says which arguments and results NFS allows in
//! data chunks; the upper layer has marked these in its buffers. The cheapest form that fits is
//! chosen:
//!
//! | | call | reply |
//! | --- | --- | --- |
//! | 1 | inline | inline |
//! | 2 | read chunk for the pages, rest inline | write chunk for the pages, rest inline |
//! | 3 | whole message in a position-zero read chunk | whole message in the reply chunk |
//!
//! Under RPCSEC_GSS integrity or privacy the transport sees no separate payload, so form 2 cannot
//! be used. The header's length depends on the chunks chosen, and is computed exactly, but not for
//! each call: the space beside each header depends only on the terms of a connection.

use super::super::super::wire::ListProc;
use super::super::inline::Thresholds;

/// The encoded RPC call: lengths in bytes of a `struct xdr_buf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallShape {
    /// `head[0].iov_len`.
    pub head_len: u32,
    /// `page_len`.
    pub page_len: u32,
    /// `tail[0].iov_len`.
    pub tail_len: u32,
    /// The pages hold one argument that may be a read chunk (`XDRBUF_WRITE`).
    pub payload_in_pages: bool,
}

/// The buffers for the reply: lengths in bytes of the receive `struct xdr_buf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyShape {
    /// `head[0].iov_len`.
    pub head_len: u32,
    /// `page_len`.
    pub page_len: u32,
    /// `tail[0].iov_len`.
    pub tail_len: u32,
    /// `buflen`: the longest reply that upper layer and buffer allow.
    pub buflen: u32,
    /// The pages take one result that may be a write chunk (`XDRBUF_READ`).
    pub payload_in_pages: bool,
}

/// How the call's RPC message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Inline, copied into the send buffer.
    Inline,
    /// The pages are a read chunk; head and tail are inline.
    ReadChunk {
        /// Position of the chunk in the XDR stream, in bytes.
        position: u32,
    },
    /// The whole message is a read chunk at position zero (long call).
    PositionZero,
}

impl CallKind {
    /// Returns the parts of a call that the Send carries after the header, in order. Empty for a
    /// long call.
    #[inline(always)]
    pub const fn inline_parts(self, s: &CallShape) -> Extents {
        match self {
            Self::Inline => Extents::of(s.head_len, s.page_len, s.tail_len),
            Self::ReadChunk { .. } => {
                Extents::of(s.head_len, 0, s.tail_len).skip_in_tail(pad_of(s.page_len))
            }
            Self::PositionZero => Extents::EMPTY,
        }
    }
}

/// The memory that the call offers for the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// None: the reply arrives inline.
    Inline,
    /// A write chunk for the pages. Head and tail arrive inline.
    //= 8166-3.4-1 XDR padding into write chunks
    WriteChunk,
    /// A reply chunk for the whole message. A short reply may nevertheless arrive inline.
    ReplyChunk,
}

/// Why a call cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The call is too long to be inline, and can have no read chunk: none is permitted, or the
    /// header with the maximum number of segments exceeds the threshold.
    NoReadChunk,
    /// The lengths of head, pages and tail add up to more than 32 bits.
    MessageTooLong,
}

/// Returns the bytes of XDR padding after `len` bytes of opaque data (RFC 4506 section 4.9).
const fn pad_of(len: u32) -> u32 {
    len.wrapping_neg() % 4
}

/// Parts of head, pages and tail of a `struct xdr_buf` (`include/linux/sunrpc/xdr.h`), in that
/// order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    head: u32,
    pages: u32,
    tail_start: u32,
    tail: u32,
}

impl Extents {
    /// Nothing.
    pub const EMPTY: Self = Self::of(0, 0, 0);

    /// Returns the first bytes of each section, as many as given.
    pub(super) const fn of(head: u32, pages: u32, tail: u32) -> Self {
        Self {
            head,
            pages,
            tail_start: 0,
            tail,
        }
    }

    /// Returns these parts without the first `n` bytes of the tail.
    pub(super) const fn skip_in_tail(self, n: u32) -> Self {
        Self {
            tail_start: n,
            tail: self.tail.saturating_sub(n),
            ..self
        }
    }

    /// Returns the number of bytes in all. It saturates; plans are made only of lengths whose sum
    /// fits.
    pub const fn len(&self) -> u32 {
        let before = self.head.saturating_add(self.pages);
        before.saturating_add(self.tail)
    }

    /// Returns the number of bytes of the head, the first of which is the first byte of the head.
    #[inline]
    pub const fn head(&self) -> u32 {
        self.head
    }

    /// Returns the part of the tail: its first byte, and the number of bytes.
    #[inline]
    pub const fn tail(&self) -> (u32, u32) {
        (self.tail_start, self.tail)
    }
}

/// The forms of a call and of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forms {
    /// How the call's RPC message travels.
    pub call: CallKind,
    /// The memory that the call offers for the reply.
    pub reply: ReplyKind,
}

impl Forms {
    /// Chooses the forms of a call. `data_touch` returns whether RPCSEC_GSS integrity or privacy is
    /// in use (`RPCAUTH_AUTH_DATATOUCH`). It is called only if the result matters.
    ///
    /// # Errors
    ///
    /// See [`PlanError`]. Neither occurs with thresholds of at least 1024 bytes, at most 16
    /// segments, and messages below 4 GiB.
    //= 8166-3.5-1 does not fit inline
    #[inline(always)]
    pub fn choose(
        call: &CallShape,
        reply: &ReplyShape,
        space: &InlineSpace,
        data_touch: impl Fn() -> bool,
    ) -> Result<Self, PlanError> {
        let reply = reply_form(reply, space, &data_touch)?;
        let call = call_form(call, reply, space, &data_touch)?;
        Ok(Self { call, reply })
    }

    /// Returns the message type that follows from the form of the call.
    #[inline]
    //= 5666-4-1 too long moves as a chunk
    pub const fn proc(&self) -> ListProc {
        match self.call {
            CallKind::PositionZero => ListProc::Nomsg,
            _ => ListProc::Msg,
        }
    }

    /// Returns whether no memory has to be registered.
    #[inline]
    pub const fn is_inline(&self) -> bool {
        matches!(
            (self.call, self.reply),
            (CallKind::Inline, ReplyKind::Inline)
        )
    }
}

//= 5666-3.4-2 call may offer write chunks
//= 5666-3.4-8 calls do not leave out write list
//= 5666-3.8-6 replies have no read chunks
//= 8267-2-1 data chunks; none under integrity
#[inline(always)]
fn reply_form(
    s: &ReplyShape,
    space: &InlineSpace,
    data_touch: impl Fn() -> bool,
) -> Result<ReplyKind, PlanError> {
    let total = total(s.head_len, s.page_len, s.tail_len)?;
    if space.reply.takes(total.max(s.buflen.into())) {
        return Ok(ReplyKind::Inline);
    }
    let may = s.payload_in_pages && s.page_len != 0 && !data_touch();
    if may && space.written.takes(sum(s.head_len, s.tail_len)) {
        return Ok(ReplyKind::WriteChunk);
    }
    Ok(ReplyKind::ReplyChunk)
}

//= 5666-3.4-1 upper layer decides which data
//= 8267-2-1 data chunks; none under integrity
#[inline(always)]
fn call_form(
    s: &CallShape,
    reply: ReplyKind,
    space: &InlineSpace,
    data_touch: impl Fn() -> bool,
) -> Result<CallKind, PlanError> {
    let calls = space.calls(reply);
    if calls
        .inline
        .takes(total(s.head_len, s.page_len, s.tail_len)?)
    {
        return Ok(CallKind::Inline);
    }
    if !calls.read.takes(0) {
        return Err(PlanError::NoReadChunk);
    }
    let may = s.payload_in_pages && s.page_len != 0 && s.head_len % 4 == 0 && !data_touch();
    let rest = s.tail_len.saturating_sub(pad_of(s.page_len));
    if may && calls.read.takes(sum(s.head_len, rest)) {
        return Ok(CallKind::ReadChunk {
            position: s.head_len,
        });
    }
    Ok(CallKind::PositionZero)
}

/// Returns the length of a message, which must be below 4 GiB.
#[inline(always)]
fn total(head: u32, pages: u32, tail: u32) -> Result<u64, PlanError> {
    let total = u64::from(pages).wrapping_add(sum(head, tail));
    if total > u32::MAX.into() {
        return Err(PlanError::MessageTooLong);
    }
    Ok(total)
}

/// Returns the sum of two lengths.
#[inline(always)]
fn sum(a: u32, b: u32) -> u64 {
    u64::from(a).wrapping_add(b.into())
}

/// The longest message beside a header, in bytes; negative if the header alone is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Space(i64);

impl Space {
    /// No message fits.
    const NONE: Self = Self(-1);

    fn new(threshold: u32, header: usize) -> Self {
        let header = i64::try_from(header).unwrap_or(i64::MAX);
        Self(i64::from(threshold).saturating_sub(header))
    }

    /// Returns whether a message of `len` bytes fits. `len` is a sum of a few 32-bit numbers.
    #[inline(always)]
    const fn takes(self, len: u64) -> bool {
        // CAST: `len` has far less than 63 bits.
        len as i64 <= self.0
    }
}

/// The longest calls whose header has the same chunk for the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Calls {
    /// Without a read list.
    inline: Space,
    /// With a read list of the maximum number of segments.
    read: Space,
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
    reply: Space,
    /// For a reply that returns a write chunk.
    written: Space,
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
            inline: Space::new(t.client_to_server, t.version.header_len(0, write, reply)),
            read: if options.read_chunks {
                Space::new(t.client_to_server, t.version.header_len(segs, write, reply))
            } else {
                Space::NONE
            },
        };
        let reply = |write| Space::new(t.server_to_client, t.version.header_len(0, write, None));
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
    const fn calls(&self, reply: ReplyKind) -> &Calls {
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
