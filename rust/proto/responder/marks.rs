// SPDX-License-Identifier: GPL-2.0

//! Payloads that the upper layer has marked in a reply.
//!
//! While the upper layer encodes a reply it marks the results that may travel in write chunks. The
//! first mark belongs to the first chunk of the call, and so on (RFC 8166 section 4.3.2, RFC 8267
//! section 2). A payload of zero bytes also takes its chunk: otherwise the next payload would come
//! in a chunk that the requester made for another result.
//!
//! A mark is never refused, even if its payload is longer than the chunk. Whether a reply can be
//! sent is decided when all of it is encoded ([`Plan`](super::reply::Plan)): a payload that does
//! not fit its chunk makes the reply ERR_CHUNK (RFC 8166 section 4.5.3).
//!
//! Each payload follows the word with its length. NFSv4 of Linux marks the text of a symbolic link
//! at that word instead, and writes the word after it has marked the text ([`Marks::settle`]).

use super::super::super::wire::Lists;

/// The maximum number of write chunks in a call, and of marks. Calls with more chunks are refused.
pub const MOST: usize = 8;

/// The longest text of a symbolic link, in bytes.
const LONGEST_LINK: u32 = 4095;

/// A payload: bytes of the encoded reply, without their XDR padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The first byte, counted from the start of the RPC message.
    pub start: u32,
    /// Number of bytes, perhaps zero.
    pub len: u32,
}

impl Mark {
    /// Returns the end of the payload; it saturates.
    pub const fn end(&self) -> u32 {
        self.start.saturating_add(self.len)
    }
}

/// The marks of one reply, in ascending order.
///
/// # Invariants
///
/// `count <= MOST`, and until they are settled, each mark begins behind the start and not before
/// the end of the one before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    marks: [Mark; MOST],
    count: usize,
    /// The furthest end of a payload that was marked, even if the mark was not kept.
    furthest: u32,
    /// Not zero if a payload that was marked may be the text of a symbolic link. It is as long as
    /// `furthest`, so that one store clears both.
    short: u32,
}

impl Marks {
    /// Makes an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all marks.
    pub fn clear(&mut self) {
        // INVARIANT: no marks are left.
        self.count = 0;
        self.furthest = 0;
        self.short = 0;
    }

    /// Adds the payload at `start`. Marks at or behind `start` are removed, because the upper layer
    /// has truncated the reply and encodes it again. If no write chunk is left in `offered`, the
    /// payload is sent with the rest of the reply.
    #[inline(always)]
    pub fn add(&mut self, start: u32, len: u32, offered: &Lists<'_>) {
        let mark = Mark { start, len };
        self.furthest = self.furthest.max(mark.end());
        if len <= LONGEST_LINK {
            self.short = 1;
        }
        while self
            .as_slice()
            .last()
            .is_some_and(|last| last.start >= start || last.end() > start)
        {
            // INVARIANT: the last mark is removed; the order of the others stays.
            self.count = self.count.saturating_sub(1);
        }
        if !has_chunk(offered, self.count) {
            return;
        }
        if let Some(place) = self.marks.get_mut(self.count) {
            // INVARIANT: there is a place at `count`, and all marks at or behind `start` are gone.
            *place = mark;
            self.count = self.count.saturating_add(1);
        }
    }

    /// Returns whether a payload that was marked lies behind the end of a reply of `len` bytes: the
    /// upper layer has truncated the reply since.
    pub const fn truncated(&self, len: u32) -> bool {
        self.furthest > len
    }

    /// Settles where each payload of the encoded reply begins. `word` returns the word at an offset
    /// of the reply. If a text is marked at the word with its length, it begins behind that word.
    #[inline(always)]
    pub fn settle(&mut self, word: impl Fn(u32) -> Option<u32>) {
        if self.short != 0 {
            self.settle_short(word);
        }
    }

    #[cold]
    fn settle_short(&mut self, word: impl Fn(u32) -> Option<u32>) {
        let marks = self.marks.get_mut(..self.count).unwrap_or_default();
        for mark in marks.iter_mut().filter(|mark| mark.len <= LONGEST_LINK) {
            let is_len = |at| word(at) == Some(mark.len);
            if !is_len(mark.start.wrapping_sub(4)) && is_len(mark.start) {
                mark.start = mark.start.saturating_add(4);
            }
        }
    }

    /// Returns the marks, in ascending order.
    pub fn as_slice(&self) -> &[Mark] {
        self.marks.get(..self.count).unwrap_or_default()
    }
}

/// Returns whether there is a write chunk number `n`.
fn has_chunk(offered: &Lists<'_>, n: usize) -> bool {
    match offered.only_write() {
        Some(_) => n == 0,
        None => offered.write_list().nth(n).is_some(),
    }
}
