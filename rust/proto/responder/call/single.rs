// SPDX-License-Identifier: GPL-2.0

//! A call with one chunk of one segment: a READ or WRITE, or a long call, of an ordinary client.

use super::super::super::super::wire::{CallHeader, OneSegment, ReadSegment, Segment, Version};
use super::super::limits::Limits;
use super::{check_segment, Call};

impl<'a> Call<'a> {
    /// Makes a call of a message whose only segment is in the read list. Returns `None` if the
    /// segment is not acceptable, or the arguments are wrapped; [`Call::check`] finds the error.
    #[inline(always)]
    pub(in super::super) fn one_read(
        message: &OneSegment<'a, ReadSegment>,
        version: Version,
        limits: &Limits,
    ) -> Option<Self> {
        let mut call = Self::one_segment(message, version, limits)?;
        let ReadSegment { position, segment } = message.segment;
        let bytes = segment.length;
        // A chunk at position zero is the whole call, without an inline part.
        let header = CallHeader::peek(message.payload)?;
        let placed = header.len <= position && position <= call.len && !header.wrapped;
        let len = call.len.checked_add(bytes.checked_next_multiple_of(4)?)?;
        if !placed || len > limits.max_call || !fits_reads(bytes, limits) {
            return None;
        }
        (call.len, call.pulled, call.reads) = (len, bytes, 1);
        call.item = Some(position);
        call.with_segment(&segment, limits)
    }

    /// Makes a long call of a message whose only segment is in the read list. Returns `None` if the
    /// segment is not acceptable; [`Call::check`] finds the error.
    #[inline(always)]
    pub(in super::super) fn one_long(
        message: &OneSegment<'a, ReadSegment>,
        version: Version,
        limits: &Limits,
    ) -> Option<Self> {
        let mut call = Self::plain(&message.prefix, version, &[]);
        call.lists = message.lists;
        let ReadSegment { position, segment } = message.segment;
        let bytes = segment.length;
        let fits = bytes <= limits.max_call && bytes % 4 == 0 && fits_reads(bytes, limits);
        if position != 0 || !fits {
            return None;
        }
        (call.len, call.pulled, call.reads) = (bytes, bytes, 1);
        call.long = true;
        call.with_segment(&segment, limits)
    }

    /// Makes a call of a message whose only segment is in the write list. Returns `None` if the
    /// segment is not acceptable; [`Call::check`] finds the error.
    #[inline(always)]
    pub(in super::super) fn one_write(
        message: &OneSegment<'a, Segment>,
        version: Version,
        limits: &Limits,
    ) -> Option<Self> {
        let call = Self::one_segment(message, version, limits)?;
        let segment = &message.segment;
        let written = u64::from(segment.length.min(limits.max_reply));
        let requests = limits.write_requests(1, written);
        if segment.length == 0 || requests > u64::from(limits.write_wrs) {
            return None;
        }
        call.with_segment(segment, limits)
    }

    /// Makes a call of a message whose segment is still to be checked.
    #[inline(always)]
    fn one_segment<S>(
        message: &OneSegment<'a, S>,
        version: Version,
        limits: &Limits,
    ) -> Option<Self> {
        // CAST: `usize` has at least 32 bits.
        let inline = message.payload.len();
        let fits = inline <= limits.max_call as usize && inline % 4 == 0;
        fits.then(|| Self {
            lists: message.lists,
            ..Self::plain(&message.prefix, version, message.payload)
        })
    }

    /// Checks the segment, and takes its R_key.
    #[inline(always)]
    fn with_segment(mut self, segment: &Segment, limits: &Limits) -> Option<Self> {
        check_segment(segment).ok()?;
        self.rkey = limits.remote_invalidation.then_some(segment.handle);
        Some(self)
    }
}

/// Returns whether a segment of `length` bytes is not empty, and its RDMA Reads take no more work
/// requests than there are.
#[inline(always)]
fn fits_reads(length: u32, limits: &Limits) -> bool {
    let requests = limits.read_requests(1, u64::from(length));
    length != 0 && requests <= u64::from(limits.read_wrs)
}
