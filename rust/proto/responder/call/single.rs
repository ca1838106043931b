// SPDX-License-Identifier: GPL-2.0

//! A call with one chunk of one segment: a READ or WRITE of an ordinary client.
//!
//! State: live.

use super::super::super::super::wire::{Lists, Prefix, ReadSegment, Segment, Single, Version};
use super::super::limits::Limits;
use super::{check_segment, Call};

impl<'a> Call<'a> {
    /// Makes a call of a message with the `lists`, whose only segment is `single`. Returns `None`
    /// if anything is wrong with it; [`Call::check`] finds the error.
    #[inline(always)]
    pub(in super::super) fn single(
        prefix: &Prefix,
        version: Version,
        (lists, single): (Lists<'a>, Single),
        inline: &'a [u8],
        limits: &Limits,
    ) -> Option<Self> {
        // CAST: `usize` has at least 32 bits.
        if inline.len() > limits.max_call as usize {
            return None;
        }
        let call = Self {
            lists,
            ..Self::plain(prefix, version, inline)
        };
        match single {
            Single::Read(read) => call.with_read(&read, limits),
            Single::Write(segment) => call.with_write(&segment, limits),
        }
    }

    /// Adds the only read segment.
    #[inline(always)]
    fn with_read(mut self, read: &ReadSegment, limits: &Limits) -> Option<Self> {
        let bytes = read.segment.length;
        // A chunk at position zero is the whole call, and has no call beside it.
        let placed = read.position != 0 && read.position <= self.len;
        let len = self.len.checked_add(bytes.checked_next_multiple_of(4)?)?;
        if !placed || len > limits.max_call || !fits(bytes, bytes, limits, limits.read_wrs) {
            return None;
        }
        (self.len, self.pulled, self.reads) = (len, bytes, 1);
        self.position = Some(read.position);
        self.with_segment(&read.segment, limits)
    }

    /// Adds the only segment of the write list.
    #[inline(always)]
    fn with_write(self, segment: &Segment, limits: &Limits) -> Option<Self> {
        let written = segment.length.min(limits.max_reply);
        fits(segment.length, written, limits, limits.write_wrs)
            .then(|| self.with_segment(segment, limits))?
    }

    /// Checks the segment, and takes its R_key.
    #[inline(always)]
    fn with_segment(mut self, segment: &Segment, limits: &Limits) -> Option<Self> {
        check_segment(segment).ok()?;
        self.rkey = limits.remote_invalidation.then_some(segment.handle);
        Some(self)
    }
}

/// Returns whether a segment of `length` bytes is not empty, and whether `moved` bytes of it take
/// no more than `wrs` work requests.
#[inline(always)]
fn fits(length: u32, moved: u32, limits: &Limits, wrs: u32) -> bool {
    length != 0 && limits.work_requests(1, u64::from(moved)) <= u64::from(wrs)
}
