// SPDX-License-Identifier: GPL-2.0

//! Codecs for the headers of RPC-over-RDMA.
//!
//! Everything in this room works on byte slices with `core` alone: no allocation, no panic, no
//! `unsafe`, no clock and no kernel name. All functions may be called in any context, softirq
//! included.
//!
//! Vocabulary, as in RFC 8166:
//!
//! - A *segment* names registered memory of the requester: R_key (*handle*), length, offset.
//! - A *read chunk* is a run of read segments with equal *position*. At position zero it carries a
//!   whole RPC message (long call).
//! - A *write chunk* is an array of segments for one result; the *reply chunk* takes a whole reply.
//!
//! Decoding checks once and yields a view whose accessors cannot fail. Encoding uses types that
//! follow each other in the order of the header. Lists therefore cannot be written out of order,
//! and an error message cannot carry a list.
//!
//! Bytes from a peer are hostile. A message that is truncated, or that counts more elements than
//! the caller's [`Limits`] permit, is refused with a [`DecodeError`] that names the error and its
//! offset.
#![forbid(unsafe_code)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]
#![allow(unreachable_pub)]

pub mod cm_private;
#[cfg(RPCRDMA_LEGACY)]
pub mod conf_rdma;
pub mod message;
pub mod v1;
pub mod v2;
pub mod xchar;

mod common_reply;
mod cursor;
mod decode;
mod encode;
mod error;
mod header;
mod lists;
mod prefix;
mod remedy;
mod rpc;
mod segment;
mod version;

#[cfg(any(test, RPCRDMA_KUNIT))]
pub mod vectors;

pub use common_reply::{CommonReply, OnlyChunk};
pub use decode::{Limits, OneSegment};
pub use encode::{EncodeError, ListProc, ReadListWriter};
pub use error::{DecodeError, What};
pub use header::error_as;
pub use lists::{has_read_list, Lists, ReadSegments, WriteChunk};
pub use message::{Message, Proc};
pub use prefix::{peek, Prefix};
pub use remedy::{answer, refuse, Receiver, Remedy};
pub use rpc::CallHeader;
pub use segment::{ReadSegment, Segment};
pub use version::{Direction, Version};
