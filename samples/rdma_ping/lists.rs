// SPDX-License-Identifier: GPL-2.0

//! The server's page lists: memory of the client is read into one, and written from the other.

use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::block::{self, is_pattern, pattern};
use super::end::{End, SEND_SGES, TAG};
use super::wire::{self, Offer};
use crate::compat::code::{EILSEQ, EPROTO};
use crate::mem::{Page, PageRef, Piece};
use crate::rdma::mr::{Kind, MrPool};
use crate::rdma::qp::{PostError, Remote};
use crate::rdma::scatter::{Sink, Source};

/// Number of pages of a sink.
const PAGES: usize = 4;
/// Offset of the first byte that is read, in the pages of the sink.
const AT: usize = 33;
/// Length of the first of two segments that are read.
const FIRST: u32 = 1000;
/// The byte that fills pages before they are read into.
const UNTOUCHED: u8 = 0xee;
/// Lengths of the two long parts of a reply.
const LONG: [usize; 2] = [PAGE_SIZE - 1096, PAGE_SIZE - 96];
/// Offset and length of the parts of a reply, each in a page of its own.
const PARTS: [(usize, usize); 5] = [
    (100, LONG[0]),
    (0, 1),
    (7, LONG[1]),
    (PAGE_SIZE - 1, 1),
    (512, block::LEN - LONG[0] - LONG[1] - 2),
];
/// Number of scatter/gather entries of an RDMA Write.
const WRITE_SGES: u32 = 2;

/// The page lists of a server, with what they need.
pub(crate) struct Lists {
    pub(crate) source: Source,
    pub(crate) sink: Sink,
    /// Regions for RDMA Reads, if the device needs them. A region has one page, so that a segment
    /// needs several.
    regions: Option<Arc<MrPool>>,
    read_sges: u32,
}

impl Lists {
    /// Makes empty lists for a server. May sleep.
    pub(crate) fn new(server: &End) -> Result<Self> {
        let limits = server.pd.limits();
        let pool = || MrPool::new(server.pd.clone(), 1, Kind::Plain, 3);
        Ok(Self {
            source: Source::new(&server.pd)?,
            sink: Sink::new(&server.pd, GFP_KERNEL)?,
            regions: limits.reads_need_regions.then(pool).transpose()?,
            read_sges: limits.max_read_sge.min(SEND_SGES),
        })
    }

    /// Prepares RDMA Reads of the offered memory, in two segments.
    pub(crate) fn prepare_reads(&mut self, offer: &Offer) -> Result {
        let pages = self.sink.pages().ok_or(EBUSY)?;
        Page::fill(pages, PAGES, GFP_KERNEL)?;
        for page in pages.iter_mut() {
            page.bytes().fill(UNTOUCHED);
        }
        let (from, regions) = (offer.read, self.regions.as_ref());
        let (sink, sges) = (&mut self.sink, self.read_sges);
        let rest = Remote {
            addr: from.addr + u64::from(FIRST),
            ..from
        };
        // CAST: a block is a few pages.
        let (at, left) = (AT + FIRST as usize, block::LEN as u32 - FIRST);
        sink.read(AT, FIRST, from, sges, regions, GFP_KERNEL)?;
        sink.read(at, left, rest, sges, regions, GFP_KERNEL)?;
        if sink.work_requests() < 2 {
            return Err(EPROTO);
        }
        Ok(())
    }

    /// Compares the memory that was read with the pattern of `n`, and frees the pages.
    pub(crate) fn check_reads(&mut self, n: u32) -> Result {
        let pages = self.sink.pages().ok_or(EBUSY)?;
        let mut bytes = KVec::with_capacity(PAGES * PAGE_SIZE, GFP_KERNEL)?;
        for page in pages.iter_mut() {
            bytes.extend_from_slice(page.bytes(), GFP_KERNEL)?;
        }
        Page::free_all(pages);
        let (before, rest) = bytes.split_at_checked(AT).ok_or(EPROTO)?;
        let (read, behind) = rest.split_at_checked(block::LEN).ok_or(EPROTO)?;
        let untouched = [before, behind]
            .into_iter()
            .flatten()
            .all(|b| *b == UNTOUCHED);
        let idle = self.regions.as_ref().is_none_or(|r| r.counts().idle == 3);
        if is_pattern(n, read) && untouched && idle {
            Ok(())
        } else {
            Err(EILSEQ)
        }
    }

    /// Prepares RDMA Writes of the pattern of `n` to the offered memory, in two segments.
    pub(crate) fn prepare_writes(&mut self, offer: &Offer, n: u32) -> Result {
        let mut bytes = KVec::from_elem(0, block::LEN, GFP_KERNEL)?;
        pattern(n, &mut bytes);
        let pages = self.source.pages().ok_or(EBUSY)?;
        let mut pieces: KVec<Piece> = KVec::new();
        let mut rest = &bytes[..];
        for (offset, len) in PARTS {
            let (part, left) = rest.split_at_checked(len).ok_or(EINVAL)?;
            rest = left;
            let mut page = Page::allocate(GFP_KERNEL)?;
            let place = page.bytes().get_mut(offset..offset + len).ok_or(EINVAL)?;
            place.copy_from_slice(part);
            // CAST: at most the size of a page.
            // SAFETY: The list keeps the page until the RDMA Writes have completed.
            pieces.push(unsafe { page.piece(offset as u32, len as u32) }, GFP_KERNEL)?;
            pages.push(PageRef::from(page), GFP_KERNEL)?;
        }
        self.add_writes(&pieces, offer.write)
    }

    /// Adds the RDMA Writes of two segments, which share no work request.
    fn add_writes(&mut self, pieces: &[Piece], to: Remote) -> Result {
        let (first, second) = pieces.split_at_checked(2).ok_or(EINVAL)?;
        let len: u32 = first.iter().map(Piece::len).sum();
        let rest = Remote {
            addr: to.addr + u64::from(len),
            ..to
        };
        let source = &mut self.source;
        source.write(first.iter().copied(), to, WRITE_SGES)?;
        source.write(second.iter().copied(), rest, WRITE_SGES)?;
        // One work request for the first segment, and two for the second.
        if source.work_requests() == 3 {
            Ok(())
        } else {
            Err(EPROTO)
        }
    }

    /// Posts the RDMA Reads.
    pub(crate) fn post_reads(&mut self, server: &End) -> Result<u64, PostError> {
        server.qp.post_reads(TAG, &mut self.sink)
    }

    /// Posts the RDMA Writes with a reply, which invalidates the memory that was written.
    pub(crate) fn post_reply(&mut self, server: &mut End, offer: &Offer) -> Result<u64, PostError> {
        let (out, source) = (&mut server.out, Some(&mut self.source));
        let rkey = Some(offer.write.rkey);
        server
            .qp
            .post_reply(TAG, source, out, wire::LEN, rkey, true)
    }

    /// Checks that lists that have been posted and have completed cannot be posted or added to, and
    /// clears the source.
    pub(crate) fn finish(&mut self, server: &mut End, offer: &Offer) -> Result {
        if self.source.in_flight() || server.out.in_flight() {
            return Err(EPROTO);
        }
        let again = self.post_reply(server, offer);
        let more = self
            .source
            .write(core::iter::empty(), offer.write, WRITE_SGES);
        let cleared = self.source.clear() && self.source.work_requests() == 0;
        let emptied = self.source.pages().is_some_and(|pages| pages.is_empty());
        if again == Err(PostError::Invalid) && more == Err(EBUSY) && cleared && emptied {
            Ok(())
        } else {
            Err(EPROTO)
        }
    }

    /// Checks that arguments that are not valid are refused, and that the lists are empty then.
    pub(crate) fn refuse_arguments(&mut self, server: &End, offer: &Offer) -> Result {
        self.prepare_reads(offer)?;
        let regions = self.regions.as_ref();
        let beyond = PAGES * PAGE_SIZE;
        let sink = &mut self.sink;
        let refused = sink.read(beyond, 1, offer.read, self.read_sges, regions, GFP_KERNEL);
        let empty = sink.work_requests() == 0;
        let nothing = server.qp.post_reads(TAG, sink);
        let source = &mut self.source;
        let no_sge = source.write(core::iter::empty(), offer.write, 0);
        let invalid = refused == Err(EINVAL) && no_sge == Err(EINVAL);
        if invalid && empty && nothing == Err(PostError::Invalid) && sink.pages().is_some() {
            Ok(())
        } else {
            Err(EPROTO)
        }
    }
}
