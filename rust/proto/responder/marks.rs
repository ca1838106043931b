// SPDX-License-Identifier: GPL-2.0

//! Payloads that the upper layer has marked in a reply.
//!
//! While the upper layer encodes a reply it marks the results that may travel in write chunks. The
//! first mark belongs to the first chunk of the call, and so on (RFC 8166 section 4.3.2, RFC 8267
//! section 2). A payload of zero bytes takes its chunk, too: otherwise the next payload would come
//! in a chunk that the requester made for another result.

use super::super::super::wire::Lists;

/// The most write chunks of a call, and so the most marks. Calls with more chunks are refused.
pub const MOST: usize = 8;

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

/// The payload is longer than the write chunk that belongs to it. The operation that has marked it
/// fails; the reply says so to the requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooSmall;

/// The marks of one reply, in ascending order.
///
/// # Invariants
///
/// `count <= MOST`, and each mark begins behind the start and not before the end of the one before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    marks: [Mark; MOST],
    count: usize,
}

impl Marks {
    /// Makes an empty set.
    pub const fn new() -> Self {
        Self {
            marks: [Mark { start: 0, len: 0 }; MOST],
            count: 0,
        }
    }

    /// Forgets all marks.
    #[inline]
    pub fn clear(&mut self) {
        // INVARIANT: no marks are left.
        self.count = 0;
    }

    /// Notes the payload at `start`. Marks at or behind `start` are forgotten: the upper layer has
    /// truncated the reply since, and encodes it anew. Without a write chunk left in `offered`, the
    /// payload goes with the rest of the reply.
    ///
    /// # Errors
    ///
    /// [`TooSmall`]: the payload is not noted.
    #[inline(always)]
    pub fn add(&mut self, start: u32, len: u32, offered: &Lists<'_>) -> Result<(), TooSmall> {
        while self
            .as_slice()
            .last()
            .is_some_and(|last| last.start >= start || last.end() > start)
        {
            // INVARIANT: the last mark goes; the order of the others stays.
            self.count = self.count.saturating_sub(1);
        }
        let Some(room) = room(offered, self.count) else {
            return Ok(());
        };
        if u64::from(len) > room {
            return Err(TooSmall);
        }
        if let Some(mark) = self.marks.get_mut(self.count) {
            // INVARIANT: there is a place at `count`, and all marks at or behind `start` are gone.
            *mark = Mark { start, len };
            self.count = self.count.saturating_add(1);
        }
        Ok(())
    }

    /// Returns the marks, in ascending order.
    #[inline]
    pub fn as_slice(&self) -> &[Mark] {
        self.marks.get(..self.count).unwrap_or_default()
    }
}

/// Returns how many bytes write chunk number `n` takes; `None` if there are fewer chunks.
#[inline]
fn room(offered: &Lists<'_>, n: usize) -> Option<u64> {
    match offered.only_write() {
        Some(segment) => (n == 0).then_some(segment.length.into()),
        None => offered.write_list().nth(n).map(|chunk| chunk.total_len()),
    }
}
