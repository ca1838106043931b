// SPDX-License-Identifier: GPL-2.0

//! The most common replies of version one, decoded with a few comparisons.
//!
//! State: live.

use super::lists::single;
use super::message::Proc;
use super::{v1, Lists, Prefix, Segment, Version};

// CAST: reads the discriminants of a `repr(u32)` enum.
const MSG: u32 = Proc::Msg as u32;
const NOMSG: u32 = Proc::Nomsg as u32;
/// Bytes of three lists of which only the write list is present, with one chunk of one segment.
const ONE_CHUNK: usize = 36;

/// An RDMA_MSG of version one whose lists are all absent, or that has one write chunk of one
/// segment and nothing else. [`Message`](super::Message) describes the same message in general
/// form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brief<'a> {
    /// Transaction ID of the RPC.
    pub xid: u32,
    /// Credits, not clamped.
    pub credits: u32,
    /// The only segment, unless all lists are absent.
    pub segment: Option<Segment>,
    /// The RPC message, without the payload that is in the chunk.
    pub payload: &'a [u8],
}

impl<'a> Brief<'a> {
    /// Decodes a message, or returns `None` if it has another form, well-formed or not.
    #[inline(always)]
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let (head, payload) = bytes.split_first_chunk::<{ v1::len::MIN }>()?;
        let prefix = Prefix::from_bytes(head.first_chunk()?);
        if prefix.version != Version::One.number() || prefix.proc != MSG {
            return None;
        }
        let (segment, payload) = if Lists::are_absent(head.last_chunk()?) {
            (None, payload)
        } else {
            let (_, lists) = bytes.split_first_chunk::<{ Prefix::LEN }>()?;
            let (lists, payload) = lists.split_first_chunk()?;
            (Some(only_segment(lists)?), payload)
        };
        Some(Self {
            xid: prefix.xid,
            credits: prefix.credits,
            segment,
            payload,
        })
    }
}

/// Returns the segment of lists that have no other one.
#[inline(always)]
fn only_segment(lists: &[u8; ONE_CHUNK]) -> Option<Segment> {
    let [a0, a1, a2, a3, a4, a5, a6, a7, n0, n1, n2, n3, rest @ ..] = *lists;
    let [segment @ .., b0, b1, b2, b3, b4, b5, b6, b7] = rest;
    // No read list, and a first write chunk.
    let before = u64::from_be_bytes([a0, a1, a2, a3, a4, a5, a6, a7]);
    let count = u32::from_be_bytes([n0, n1, n2, n3]);
    // No second write chunk, and no reply chunk.
    let behind = u64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
    (before == 1 && count == 1 && behind == 0).then(|| Segment::from_bytes(&segment))
}

/// An RDMA_NOMSG of version one whose only list is a reply chunk of one segment.
/// [`Message`](super::Message) describes the same message in general form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BriefLong {
    /// Transaction ID of the RPC.
    pub xid: u32,
    /// Credits, not clamped.
    pub credits: u32,
    /// The only segment of the reply chunk.
    pub segment: Segment,
}

impl BriefLong {
    /// Decodes a message, or returns `None` if it has another form, well-formed or not.
    #[inline(always)]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let (head, lists) = bytes.split_first_chunk::<{ Prefix::LEN }>()?;
        let prefix = Prefix::from_bytes(head);
        if prefix.version != Version::One.number() || prefix.proc != NOMSG {
            return None;
        }
        Some(Self {
            xid: prefix.xid,
            credits: prefix.credits,
            segment: single::one_reply(lists.try_into().ok()?)?,
        })
    }
}
