// SPDX-License-Identifier: GPL-2.0

//! Limits on the work that one call may cause.
//!
//! The requester chooses how its memory is divided into segments. Each segment takes at least one
//! work request, so the number of segments is bounded by the send queue, before anything is posted.

use super::super::super::wire::{self, Version};
use super::marks;

/// The limits of one connection. They stay the same from the first message to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The lowest and the highest version that is served.
    pub versions: (Version, Version),
    /// The longest call in bytes: the largest payload with the upper layer's data around it.
    pub max_call: u32,
    /// The longest reply in bytes.
    pub max_reply: u32,
    /// The maximum number of work requests for the RDMA Reads of one call. Where each Read needs a
    /// registration of its own (iWARP), the caller has left room for it.
    pub read_wrs: u32,
    /// The maximum number of work requests for the RDMA Writes of one reply.
    pub write_wrs: u32,
    /// The maximum number of scatter/gather elements in an RDMA Write. Each lies within a page.
    pub sges: u32,
    /// The maximum number of pages that an RDMA Read can place its bytes in.
    pub read_pages: u32,
    /// The binary logarithm of the size of a page.
    pub page_shift: u32,
    /// Both peers support remote invalidation.
    pub remote_invalidation: bool,
}

impl Limits {
    /// Returns the limits of the decoder. A segment that is not empty takes a work request, so more
    /// segments than work requests are refused at once.
    pub const fn wire(&self) -> wire::Limits {
        wire::Limits {
            read_segments: self.read_wrs,
            // CAST: a small constant.
            write_chunks: marks::MOST as u32,
            chunk_segments: self.write_wrs,
        }
    }

    /// Returns a sufficient number of RDMA Reads to fetch `bytes` bytes from `segments` segments of
    /// the requester.
    pub fn read_requests(&self, segments: u32, bytes: u64) -> u64 {
        self.work_requests(segments, bytes, self.read_pages)
    }

    /// Returns a sufficient number of work requests to move `bytes` bytes to or from `segments`
    /// segments of the requester, wherever they begin within one run of local pages.
    ///
    /// A segment of `n` bytes touches at most `n / page + 2` pages, and takes one work request for
    /// the first of them and for each `most` further ones.
    fn work_requests(&self, segments: u32, bytes: u64, most: u32) -> u64 {
        let pages = bytes.checked_shr(self.page_shift).unwrap_or(0);
        let further = pages.saturating_add(u64::from(segments));
        let full = further.checked_div(u64::from(most)).unwrap_or(u64::MAX);
        full.saturating_add(u64::from(segments))
    }

    /// Returns a sufficient number of work requests to write a reply of `bytes` bytes to `segments`
    /// segments of the requester, wherever its parts lie.
    ///
    /// Head and tail of a reply each lie in a page that holds no other part of the reply: at two
    /// places the bytes continue in another page before a page is full.
    pub fn write_requests(&self, segments: u32, bytes: u64) -> u64 {
        if segments == 0 {
            return 0;
        }
        let seams = 2u64.checked_shl(self.page_shift).unwrap_or(u64::MAX);
        self.work_requests(segments, bytes.saturating_add(seams), self.sges)
    }
}

/// Returns how many RDMA Reads may be outstanding on a connection. `offered` is the number in the
/// requester's connection request, `device` the limit of the local device. `None` means that no
/// read chunk could ever be served: the connection request is refused.
//= 5666-6.2-5 number of active RDMA Reads
pub fn read_depth(offered: u8, device: u8) -> Option<u8> {
    Some(offered.min(device)).filter(|depth| *depth != 0)
}
