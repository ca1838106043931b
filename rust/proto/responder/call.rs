// SPDX-License-Identifier: GPL-2.0

//! A call that a responder has accepted, and the checks of its chunks.
//!
//! Nothing of the requester's memory is read or written before all of the following hold:
//!
//! - The whole call is no longer than [`Limits::max_call`], the sum taken over all its parts.
//! - The RDMA Reads, and the RDMA Writes of any reply up to [`Limits::max_reply`], take no more
//!   work requests than the send queue can hold.
//! - No segment is too long for an RDMA operation, or ends behind the last address. No chunk is
//!   without room.
//! - Beside an inline part no read chunk begins before the end of the RPC header: the header has no
//!   data item, and the upper layer reads it from one stretch of memory.

use super::super::super::wire::message::Body;
use super::super::super::wire::{
    CallHeader, Lists, Message, Prefix, ReadSegment, Segment, Version, WriteChunk,
};
use super::limits::Limits;
use super::reassembly::{Part, Placement, Source, Violation};

mod single;

/// The longest segment in bytes: InfiniBand's longest message.
pub const LONGEST_SEGMENT: u32 = 1 << 31;

/// The reason for which the chunks of a call are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The read chunks do not make up a call.
    Reads(Violation),
    /// A segment is too long for an RDMA operation, or ends behind the last address.
    Segment,
    /// A chunk has no bytes.
    EmptyChunk,
    /// The RDMA Reads would take more work requests than allowed.
    ReadWork,
    /// The RDMA Writes could take more work requests than allowed.
    WriteWork,
}

/// A call within the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    lists: Lists<'a>,
    inline: &'a [u8],
    version: Version,
    xid: u32,
    credits: u32,
    len: u32,
    pulled: u32,
    reads: u32,
    rkey: Option<u32>,
    /// See [`Self::item`].
    item: Option<u32>,
    long: bool,
}

impl<'a> Call<'a> {
    /// Returns the transaction ID.
    pub const fn xid(&self) -> u32 {
        self.xid
    }

    /// Returns the version, which is also that of the reply.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Returns the credits that the requester requests, as sent.
    pub const fn credits(&self) -> u32 {
        self.credits
    }

    /// Returns the length of the whole call in bytes, round-up included.
    pub const fn total_len(&self) -> u32 {
        self.len
    }

    /// Returns the number of these bytes that RDMA Reads have to fetch.
    pub const fn pulled(&self) -> u32 {
        self.pulled
    }

    /// Returns the number of RDMA Reads in [`Self::parts`].
    pub const fn reads(&self) -> u32 {
        self.reads
    }

    /// Returns the inline part of the call. It is the whole call if there are no RDMA Reads.
    pub const fn inline(&self) -> &'a [u8] {
        self.inline
    }

    /// Returns the chunk lists, of which the reply needs the write list and the reply chunk.
    pub const fn lists(&self) -> &Lists<'a> {
        &self.lists
    }

    /// Returns the R_key that a Send of the reply may invalidate.
    pub const fn rkey(&self) -> Option<u32> {
        self.rkey
    }

    /// Returns the position of the only read chunk, if its bytes may be a separate data item: the
    /// beginning of the call is inline, and the arguments are not wrapped.
    pub const fn item(&self) -> Option<u32> {
        self.item
    }

    /// Iterates over the parts of the call, in order and without gap.
    pub fn parts(&self) -> impl Iterator<Item = Part> + 'a {
        // The parts have been checked, so there is no error.
        let parts = Placement::new(&self.lists, self.inline, self.long, self.len);
        parts.into_iter().flatten().map_while(Result::ok)
    }
}

impl<'a> Call<'a> {
    /// Makes a call of a message with chunk lists, of which `len` bytes are inline.
    #[inline]
    pub(super) fn new(message: &Message<'a>, xid: u32, version: Version, len: u32) -> Self {
        Self {
            lists: message.lists().copied().unwrap_or_default(),
            inline: message.payload(),
            version,
            xid,
            credits: message.credits(),
            len,
            pulled: 0,
            reads: 0,
            rkey: None,
            item: None,
            long: matches!(message.body(), Body::Nomsg { .. }),
        }
    }

    /// Makes a call without chunks, all of which is `inline`.
    #[inline]
    pub(super) const fn plain(prefix: &Prefix, version: Version, inline: &'a [u8]) -> Self {
        Self {
            lists: Lists::EMPTY,
            inline,
            version,
            xid: prefix.xid,
            credits: prefix.credits,
            // CAST: `take` has compared the length with `Limits::max_call`.
            len: inline.len() as u32,
            pulled: 0,
            reads: 0,
            rkey: None,
            item: None,
            long: false,
        }
    }

    /// Returns whether the call has chunks.
    pub(super) const fn has_chunks(&self) -> bool {
        self.long || !self.lists.is_empty()
    }

    /// Checks the chunks, and adds up their bytes and RDMA Reads.
    #[inline(never)]
    pub(super) fn check(&mut self, limits: &Limits) -> Result<(), Unfit> {
        let mut handles = Handles::default();
        if self.long || self.lists.read_list().next().is_some() {
            self.check_reads(&mut handles, limits)?;
        }
        check_writes(&self.lists, &mut handles, limits)?;
        self.rkey = handles.choose(limits.remote_invalidation);
        Ok(())
    }

    /// Checks the read list.
    fn check_reads(&mut self, handles: &mut Handles, limits: &Limits) -> Result<(), Unfit> {
        let mut found = Found::default();
        for r in self.lists.read_list() {
            check_segment(&r.segment)?;
            handles.see(r.segment.handle);
            found.add(&r)?;
        }
        found.end_chunk()?;
        self.item = (found.chunks == 1 && !self.long).then_some(found.position);
        self.add_reads(limits.max_call)
            .and_then(|()| self.check_header())
            .map_err(Unfit::Reads)?;
        let requests = limits.read_requests(self.reads, u64::from(self.pulled));
        require(requests <= u64::from(limits.read_wrs), Unfit::ReadWork)
    }

    /// Checks that the first read chunk beside an inline part begins behind the RPC header.
    fn check_header(&mut self) -> Result<(), Violation> {
        let Some(first) = self.lists.read_list().next().filter(|_| !self.long) else {
            return Ok(());
        };
        let header = CallHeader::peek(self.inline).filter(|header| header.len <= first.position);
        if header.ok_or(Violation::Header)?.wrapped {
            self.item = None;
        }
        Ok(())
    }

    /// Sums up the bytes of the call and its RDMA Reads.
    fn add_reads(&mut self, max: u32) -> Result<(), Violation> {
        self.len = 0;
        for part in Placement::new(&self.lists, self.inline, self.long, max)? {
            let part = part?;
            self.len = self.len.saturating_add(part.len);
            if matches!(part.source, Source::Read { .. }) {
                self.reads = self.reads.saturating_add(1);
                self.pulled = self.pulled.saturating_add(part.len);
            }
        }
        Ok(())
    }
}

/// The chunks of a read list so far.
#[derive(Default)]
struct Found {
    /// Chunks, including the current one.
    chunks: u32,
    /// The position of the current chunk, and whether it has bytes.
    position: u32,
    any: bool,
}

impl Found {
    /// Adds an entry.
    fn add(&mut self, r: &ReadSegment) -> Result<(), Unfit> {
        if self.chunks == 0 || r.position != self.position {
            self.end_chunk()?;
            self.chunks = self.chunks.saturating_add(1);
            self.position = r.position;
            self.any = false;
        }
        self.any |= r.segment.length != 0;
        Ok(())
    }

    /// Checks that the current chunk, if there is one, is not empty.
    fn end_chunk(&self) -> Result<(), Unfit> {
        require(self.chunks == 0 || self.any, Unfit::EmptyChunk)
    }
}

/// Checks the write list and the reply chunk. A reply of [`Limits::max_reply`] bytes can be written
/// with the available work requests, however its bytes are divided among the chunks.
fn check_writes(lists: &Lists<'_>, handles: &mut Handles, limits: &Limits) -> Result<(), Unfit> {
    let (mut room, mut chunks) = (Room::default(), 0u32);
    for chunk in lists.write_list() {
        room.add(chunk, handles)?;
        chunks = chunks.saturating_add(1);
    }
    if let Some(chunk) = lists.reply_chunk() {
        // The bytes between two payloads are a separate stretch in the reply chunk.
        room.segments = room.segments.saturating_add(chunks);
        room.add(chunk, handles)?;
    }
    let bytes = room.bytes.min(u64::from(limits.max_reply));
    let requests = limits.write_requests(room.segments, bytes);
    require(requests <= u64::from(limits.write_wrs), Unfit::WriteWork)
}

/// The space of chunks for a reply: segments that are not empty, and their bytes.
#[derive(Default)]
struct Room {
    segments: u32,
    bytes: u64,
}

impl Room {
    /// Checks a chunk and adds it.
    #[inline]
    fn add(&mut self, chunk: WriteChunk<'_>, handles: &mut Handles) -> Result<(), Unfit> {
        let before = self.bytes;
        for segment in chunk.segments() {
            check_segment(&segment)?;
            handles.see(segment.handle);
            self.segments = self.segments.saturating_add(u32::from(segment.length != 0));
            self.bytes = self.bytes.saturating_add(u64::from(segment.length));
        }
        require(self.bytes != before, Unfit::EmptyChunk)
    }
}

/// Checks that one RDMA operation can reach all of a segment.
fn check_segment(s: &Segment) -> Result<(), Unfit> {
    let last = u64::from(s.length.saturating_sub(1));
    let reachable = s.length <= LONGEST_SEGMENT && s.offset.checked_add(last).is_some();
    require(reachable, Unfit::Segment)
}

/// Returns `unfit` as an error unless `fits`.
fn require(fits: bool, unfit: Unfit) -> Result<(), Unfit> {
    fits.then_some(()).ok_or(unfit)
}

/// The R_keys of a call, seen one after the other. A reply invalidates one of them at most
/// (RFC 8797 section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handles {
    first: Option<u32>,
    /// A second, different R_key was seen.
    differ: bool,
}

impl Handles {
    /// Takes the R_key of a segment into account.
    pub fn see(&mut self, handle: u32) {
        self.differ |= *self.first.get_or_insert(handle) != handle;
    }

    /// Returns the R_key that a responder invalidates with its reply: the one R_key of all the
    /// request's chunks, if there is exactly one and invalidation is `allowed`. With several R_keys
    /// the requester has to invalidate the others locally anyway.
    //= 8797-3.2-1 only if both ends support it
    //= 8797-4.1-1 invalidate remotely if both set R
    //= 8797-4.1-3 replies use plain Send
    //= XC-3.2-3 Invalidate answers only calls with chunks
    pub fn choose(&self, allowed: bool) -> Option<u32> {
        self.first.filter(|_| allowed && !self.differ)
    }
}
