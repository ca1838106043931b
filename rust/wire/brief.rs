// SPDX-License-Identifier: GPL-2.0

//! The most common replies, decoded with a few comparisons.
//!
//! The two versions differ in one word: version two has the direction before the chunk lists.

use super::lists::single;
use super::message::Proc;
use super::{Direction, Lists, Prefix, Segment, Version};

/// Bytes of three absent lists.
const NO_CHUNK: usize = 12;
/// Bytes of three lists of which only the write list is present, with one chunk of one segment.
const ONE_CHUNK: usize = 36;

/// An RDMA_MSG whose lists are all absent, or that has one write chunk of one segment and nothing
/// else. [`Message`](super::Message) describes the same message in general form.
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
    /// Decodes a message of this version. Returns `None` if it has another form, well-formed or
    /// not. A message of version two has another form if its direction is not REPLY.
    #[inline(always)]
    pub fn of(version: Version, bytes: &'a [u8]) -> Option<Self> {
        let (prefix, body) = split(version, Proc::Msg, bytes)?;
        let (absent, payload) = body.split_first_chunk::<NO_CHUNK>()?;
        let (segment, payload) = if Lists::are_absent(absent) {
            (None, payload)
        } else {
            let (lists, payload) = body.split_first_chunk()?;
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

/// Returns the first words of a message, and what is behind them: the chunk lists first. Returns
/// `None` if it has another version or type, or is a call by its direction.
#[inline(always)]
fn split(version: Version, proc: Proc, bytes: &[u8]) -> Option<(Prefix, &[u8])> {
    const REPLY: [u8; 4] = (Direction::Reply as u32).to_be_bytes();
    let (head, rest) = bytes.split_first_chunk::<{ Prefix::LEN }>()?;
    let prefix = Prefix::from_bytes(head);
    // CAST: reads the discriminant of a `repr(u32)` enum.
    if prefix.version != version.number() || prefix.proc != proc as u32 {
        return None;
    }
    let body = match version {
        Version::One => rest,
        Version::Two => rest.strip_prefix(&REPLY)?,
    };
    Some((prefix, body))
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

/// An RDMA_NOMSG whose only list is a reply chunk of one segment.
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
    /// Decodes a message of this version. Returns `None` if it has another form, well-formed or
    /// not. A message of version two has another form if its direction is not REPLY.
    #[inline(always)]
    pub fn of(version: Version, bytes: &[u8]) -> Option<Self> {
        let (prefix, lists) = split(version, Proc::Nomsg, bytes)?;
        Some(Self {
            xid: prefix.xid,
            credits: prefix.credits,
            segment: single::one_reply(lists.try_into().ok()?)?,
        })
    }
}
