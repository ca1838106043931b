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
//! be used. The header's length depends on the chunks chosen, and is computed exactly.

mod extent;
mod forms;
mod space;

pub use extent::Extents;
pub use forms::Forms;
pub use space::{CallOptions, InlineSpace};

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
