// SPDX-License-Identifier: GPL-2.0

//! Filling the scatterlist of a memory region.

use core::iter::Peekable;
use core::ptr::NonNull;

use super::pack::Packer;
use crate::compat::casts::u32_as_usize;
use crate::mem::{Payload, Piece, Sections, PAGE};
use crate::raw as bindings;

/// Bits of `page_link` that are not part of the address of a page.
const FLAGS: usize = bindings::SG_PAGE_LINK_MASK as usize;

/// The properties that the regions of a pool share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MrShape {
    /// Number of pages.
    pub(super) depth: u32,
    /// Whether gaps between pages are supported.
    pub(super) gaps: bool,
    /// Length in bytes of the longest piece that the device can map.
    pub(super) longest: u32,
    /// Number of whole pages that fit in such a piece; at least 1.
    pub(super) longest_pages: u32,
}

impl MrShape {
    /// Returns the shape with pieces of at most a page.
    pub(super) fn of_pages(self) -> Self {
        Self {
            longest: PAGE,
            longest_pages: 1,
            ..self
        }
    }
}

/// Memory that regions can map, one after the other.
///
/// By the invariants of [`Piece`] and [`Payload`], the bytes stay valid and are not moved while a
/// region that maps them is live.
///
/// # Safety
///
/// [`Self::fill`] counts no more entries than there are, and sets each that it counts to memory of
/// a [`Piece`] or a [`Payload`].
pub(crate) unsafe trait Memory: Clone {
    /// Puts the first part of the memory into the scatterlist of a region, as much as `shape`
    /// permits, and removes it from the value. Returns the number of entries used, and of bytes; no
    /// entry if there is nothing left, or if a page is missing.
    fn fill(&mut self, entries: &mut [bindings::scatterlist], shape: MrShape) -> (i32, u32);

    /// Removes the first `bytes` bytes, or all if there are fewer.
    fn skip(&mut self, bytes: u32);

    /// Returns whether all memory has been put into scatterlists. An iterator of pieces does not
    /// show this: a piece that ends with a region remains in it, with no bytes left.
    fn is_empty(&mut self) -> bool;
}

/// Memory in pieces.
trait Pieces {
    /// Returns the first piece that is not empty.
    fn first(&mut self) -> Option<&mut Piece>;
}

/// Implements [`Memory::fill`] for any pieces. The region ends where its pages are used up, or
/// before a gap that the device cannot map.
#[inline(never)]
fn pack(
    pieces: &mut impl Pieces,
    entries: &mut [bindings::scatterlist],
    shape: MrShape,
) -> (i32, u32) {
    let mut packer = Packer::new(shape.depth, shape.gaps, shape.longest);
    let (mut used, mut bytes) = (0, 0);
    for entry in entries {
        let Some(piece) = pieces.first() else {
            break;
        };
        let number = piece.page().as_ptr().addr() / size_of::<bindings::page>();
        let n = packer.add(number, piece.offset(), piece.len());
        if n == 0 {
            break;
        }
        let part = piece.split_front(n);
        set(entry, part.page(), part.offset(), part.len());
        used += 1;
        bytes += n;
    }
    (used, bytes)
}

/// Implements [`Memory::skip`] for any pieces.
#[cold]
fn skip(pieces: &mut impl Pieces, mut bytes: u32) {
    while bytes != 0 {
        let Some(piece) = pieces.first() else {
            break;
        };
        bytes -= piece.split_front(bytes).len();
    }
}

/// Returns how many of the first entries lie entirely within the first `length` bytes, and how many
/// bytes they have.
pub(super) fn whole(entries: &[bindings::scatterlist], length: u64) -> (i32, u32) {
    let (mut used, mut bytes) = (0, 0_u32);
    for entry in entries {
        match bytes.checked_add(entry.length) {
            Some(sum) if u64::from(sum) <= length => bytes = sum,
            _ => break,
        }
        used += 1;
    }
    (used, bytes)
}

impl<I: Iterator<Item = Piece> + Clone> Pieces for Peekable<I> {
    fn first(&mut self) -> Option<&mut Piece> {
        while self.next_if(|p| p.len() == 0).is_some() {}
        self.peek_mut()
    }
}

// SAFETY: `pack` counts the entries that it sets, each to a part of a piece.
unsafe impl<I: Iterator<Item = Piece> + Clone> Memory for Peekable<I> {
    fn fill(&mut self, entries: &mut [bindings::scatterlist], shape: MrShape) -> (i32, u32) {
        pack(self, entries, shape)
    }

    fn skip(&mut self, bytes: u32) {
        skip(self, bytes);
    }

    fn is_empty(&mut self) -> bool {
        self.first().is_none()
    }
}

impl Pieces for Sections<'_> {
    fn first(&mut self) -> Option<&mut Piece> {
        Sections::first(self)
    }
}

// SAFETY: `pack` and `fill_sections` count the entries that they set, each to a part of a piece or
// a run of the pages.
unsafe impl Memory for Sections<'_> {
    fn fill(&mut self, entries: &mut [bindings::scatterlist], shape: MrShape) -> (i32, u32) {
        if fits(self, shape) {
            fill_sections(self, entries, shape)
        } else {
            pack(self, entries, shape)
        }
    }

    fn skip(&mut self, bytes: u32) {
        skip(self, bytes);
    }

    fn is_empty(&mut self) -> bool {
        Sections::is_empty(self) || Sections::first(self).is_none()
    }
}

/// Returns whether one region of this shape takes all of the sections.
fn fits(sections: &Sections<'_>, shape: MrShape) -> bool {
    let enough = sections.pages() <= u32_as_usize(shape.depth);
    enough && sections.longest_piece() <= shape.longest && (shape.gaps || sections.is_single())
}

/// Implements [`Memory::fill`] for sections that fit.
#[inline(never)]
fn fill_sections(
    sections: &mut Sections<'_>,
    entries: &mut [bindings::scatterlist],
    shape: MrShape,
) -> (i32, u32) {
    let (before, mut pages, behind) = sections.take();
    let (mut used, mut bytes) = (0, 0);
    if let (Some(piece), Some(entry)) = (before, entries.first_mut()) {
        set(entry, piece.page(), piece.offset(), piece.len());
        (used, bytes) = (1, piece.len());
    }
    if !pages.is_empty() {
        let unused = entries.get_mut(used..).unwrap_or_default();
        let (n, len) = fill_runs(&mut pages, unused, shape);
        if n == 0 {
            return (0, 0);
        }
        used += u32_as_usize(n.unsigned_abs());
        bytes += len;
    }
    if let (Some(piece), Some(entry)) = (behind, entries.get_mut(used)) {
        set(entry, piece.page(), piece.offset(), piece.len());
        used += 1;
        bytes += piece.len();
    }
    // CAST: a region has fewer than 2^31 pages.
    (used as i32, bytes)
}

/// A payload has no gaps: only its first run may begin, and only its last may end, within a page.
// SAFETY: `used` counts the entries that were set, each to a run of the payload. `trim` only makes
// the first and the last shorter.
unsafe impl Memory for Payload<'_> {
    fn fill(&mut self, entries: &mut [bindings::scatterlist], shape: MrShape) -> (i32, u32) {
        if let (Some(piece), Some(entry)) = (self.take_single_page(), entries.first_mut()) {
            set(entry, piece.page(), piece.offset(), piece.len());
            return (1, piece.len());
        }
        fill_runs(self, entries, shape)
    }

    fn skip(&mut self, bytes: u32) {
        Payload::skip(self, bytes);
    }

    fn is_empty(&mut self) -> bool {
        Payload::is_empty(self)
    }
}

/// Implements [`Memory::fill`] for a payload in several pages.
#[inline(never)]
fn fill_runs(
    payload: &mut Payload<'_>,
    entries: &mut [bindings::scatterlist],
    shape: MrShape,
) -> (i32, u32) {
    let part = payload.split_front(shape.depth);
    let mut runs = part.runs(shape.longest_pages);
    let mut used = 0;
    for (entry, run) in entries.iter_mut().zip(&mut runs) {
        set(entry, run.first, 0, run.len());
        used += 1;
    }
    if !runs.is_done() || !trim(entries, used, &part) {
        return (0, 0);
    }
    // CAST: a region has fewer than 2^31 pages.
    (used as i32, part.len())
}

/// Removes the bytes from the first and the last of `used` entries that are in the pages of `part`,
/// but not in `part`. Returns `false` if there is no entry.
fn trim(entries: &mut [bindings::scatterlist], used: usize, part: &Payload<'_>) -> bool {
    let Some(entries @ [_, ..]) = entries.get_mut(..used) else {
        return false;
    };
    if let Some(first) = entries.first_mut() {
        first.offset = part.offset();
        first.length = first.length.wrapping_sub(part.offset());
    }
    if let Some(last) = entries.last_mut() {
        last.length = last.length.wrapping_sub(part.behind());
    }
    true
}

/// Sets the memory of a scatterlist entry, as `sg_set_page()` does.
#[inline(always)]
fn set(entry: &mut bindings::scatterlist, page: NonNull<bindings::page>, offset: u32, len: u32) {
    entry.page_link = entry.page_link & FLAGS | page.as_ptr().expose_provenance();
    entry.offset = offset;
    entry.length = len;
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_rdma_fill)]
mod tests {
    use super::*;
    use crate::mem::Page;
    use kernel::bindings::page;
    use kernel::prelude::*;

    /// Returns entries of an array: pages with these numbers, of which 0 is a missing one.
    fn slots<const N: usize>(numbers: [usize; N]) -> [*mut page; N] {
        numbers.map(|n| core::ptr::null_mut::<page>().wrapping_add(n))
    }

    /// Returns the shape of a region of `depth` pages whose pieces have at most `longest` pages.
    fn shape(depth: u32, gaps: bool, longest: u32) -> MrShape {
        MrShape {
            depth,
            gaps,
            longest: longest * PAGE,
            longest_pages: longest,
        }
    }

    /// Fills a region of six entries, and returns number, offset and length of each piece.
    fn filled(payload: &mut Payload<'_>, depth: u32, longest: u32) -> Result<KVec<[u32; 3]>> {
        let before = payload.len();
        let (pieces, bytes) = fill(payload, shape(depth, false, longest))?;
        assert!(pieces.is_empty() || before == payload.len() + bytes);
        Ok(pieces)
    }

    /// Fills a region of six entries, and returns number, offset and length of each piece, and the
    /// number of all bytes.
    fn fill(memory: &mut impl Memory, shape: MrShape) -> Result<(KVec<[u32; 3]>, u32)> {
        let mut entries: [bindings::scatterlist; 6] = pin_init::zeroed();
        let (used, bytes) = memory.fill(&mut entries, shape);
        let mut pieces = KVec::new();
        for entry in entries.iter().take(used.unsigned_abs() as usize) {
            let number = (entry.page_link / size_of::<page>()) as u32;
            pieces.push([number, entry.offset, entry.length], GFP_KERNEL)?;
        }
        let sum: u32 = pieces.iter().map(|[_, _, len]| len).sum();
        assert_eq!(sum, bytes);
        Ok((pieces, bytes))
    }

    /// Describes `len` bytes of the page with this number, which does not exist.
    fn piece(number: usize, offset: u32, len: u32) -> Option<Piece> {
        payload(&slots([number]), offset, len).take_single_page()
    }

    /// Describes 50 bytes of page 2, two pages with a gap between them, and 9 bytes of page 11.
    fn sections(slots: &[*mut page; 2]) -> Sections<'_> {
        Sections::new(
            piece(2, 100, 50),
            payload(slots, 0, 2 * PAGE - 4),
            piece(11, 7, 9),
        )
    }

    const SECTIONS: [[u32; 3]; 4] = [[2, 100, 50], [7, 0, PAGE], [9, 0, PAGE - 4], [11, 7, 9]];

    /// Describes a payload. No test accesses its pages, which do not exist.
    fn payload(slots: &[*mut page], offset: u32, len: u32) -> Payload<'_> {
        // SAFETY: The array has as many entries as the bytes have pages. The pointers are compared
        // and stored, but not dereferenced.
        unsafe { Payload::new(slots, offset, len) }
    }

    #[test]
    fn payload_in_one_page() -> Result {
        let slots = slots([7]);
        let mut part = payload(&slots, 100, 50);
        assert_eq!(filled(&mut part, 4, 4)?.as_slice(), [[7, 100, 50]]);
        assert!(part.is_empty());
        Ok(())
    }

    #[test]
    fn only_the_ends_are_partial() -> Result {
        let slots = slots([7, 9, 11]);
        let mut all = payload(&slots, 100, 3 * PAGE - 130);
        let want = [[7, 100, PAGE - 100], [9, 0, PAGE], [11, 0, PAGE - 30]];
        assert_eq!(filled(&mut all, 4, 4)?.as_slice(), want);
        Ok(())
    }

    #[test]
    fn adjacent_pages_share_an_entry_up_to_the_longest() -> Result {
        let slots = slots([3, 4, 5, 6, 8]);
        let mut all = payload(&slots, 16, 5 * PAGE - 20);
        let want = [[3, 16, 3 * PAGE - 16], [6, 0, PAGE], [8, 0, PAGE - 4]];
        assert_eq!(filled(&mut all, 6, 3)?.as_slice(), want);
        Ok(())
    }

    #[test]
    fn rest_is_left_for_the_next_region() -> Result {
        let slots = slots([3, 4, 9]);
        let mut all = payload(&slots, 16, 3 * PAGE - 20);
        assert_eq!(filled(&mut all, 2, 4)?.as_slice(), [[3, 16, 2 * PAGE - 16]]);
        assert_eq!(filled(&mut all, 2, 4)?.as_slice(), [[9, 0, PAGE - 4]]);
        assert!(all.is_empty());
        Ok(())
    }

    #[test]
    fn pieces_that_fill_a_region_leave_nothing() -> Result {
        let pages = [Page::allocate(GFP_KERNEL)?, Page::allocate(GFP_KERNEL)?];
        // SAFETY: The pages stay while their pieces are compared, and no device accesses them.
        let pieces = pages.iter().map(|page| unsafe { page.piece(0, PAGE) });
        let mut pieces = pieces.peekable();
        let mut entries: [bindings::scatterlist; 2] = pin_init::zeroed();
        let shape = MrShape {
            depth: 2,
            gaps: false,
            longest: 4 * PAGE,
            longest_pages: 4,
        };
        assert!(!Memory::is_empty(&mut pieces));
        assert_eq!(pieces.fill(&mut entries, shape), (2, 2 * PAGE));
        assert!(Memory::is_empty(&mut pieces));
        Ok(())
    }

    #[test]
    fn region_with_gaps_takes_all_sections() -> Result {
        let slots = slots([7, 9]);
        for depth in [4, 6] {
            let mut all = sections(&slots);
            assert!(fits(&all, shape(depth, true, 4)));
            assert_eq!(
                fill(&mut all, shape(depth, true, 4))?.0.as_slice(),
                SECTIONS
            );
            assert!(Memory::is_empty(&mut all));
        }
        Ok(())
    }

    #[test]
    fn sections_are_divided_where_the_pages_end() -> Result {
        let slots = slots([7, 9]);
        let (mut all, three) = (sections(&slots), shape(3, true, 4));
        assert!(!fits(&all, three));
        assert_eq!(fill(&mut all, three)?.0.as_slice(), &SECTIONS[..3]);
        assert!(!Memory::is_empty(&mut all));
        assert_eq!(fill(&mut all, three)?.0.as_slice(), &SECTIONS[3..]);
        assert!(Memory::is_empty(&mut all));
        Ok(())
    }

    #[test]
    fn sections_are_divided_before_gaps() -> Result {
        let slots = slots([7, 9]);
        let (mut all, plain) = (sections(&slots), shape(6, false, 4));
        assert!(!fits(&all, plain));
        assert_eq!(fill(&mut all, plain)?.0.as_slice(), &SECTIONS[..1]);
        assert_eq!(fill(&mut all, plain)?.0.as_slice(), &SECTIONS[1..3]);
        assert_eq!(fill(&mut all, plain)?.0.as_slice(), &SECTIONS[3..]);
        assert!(Memory::is_empty(&mut all));
        Ok(())
    }

    #[test]
    fn one_section_has_no_gaps() -> Result {
        let (none, two) = (slots([]), slots([7, 9]));
        let plain = shape(6, false, 4);
        let mut head = Sections::new(piece(2, 100, 50), payload(&none, 0, 0), None);
        assert!(fits(&head, plain));
        assert_eq!(fill(&mut head, plain)?.0.as_slice(), &SECTIONS[..1]);
        let mut pages = Sections::new(None, payload(&two, 0, 2 * PAGE - 4), None);
        assert!(fits(&pages, plain));
        assert_eq!(fill(&mut pages, plain)?.0.as_slice(), &SECTIONS[1..3]);
        assert!(Memory::is_empty(&mut head) && Memory::is_empty(&mut pages));
        Ok(())
    }

    #[test]
    fn sections_end_at_a_missing_page() -> Result {
        let slots = slots([7, 0]);
        let (mut all, gaps) = (sections(&slots), shape(6, true, 4));
        assert!(fill(&mut all, gaps)?.0.is_empty());
        let (mut all, plain) = (sections(&slots), shape(6, false, 4));
        assert_eq!(fill(&mut all, plain)?.0.as_slice(), &SECTIONS[..1]);
        assert_eq!(fill(&mut all, plain)?.0.as_slice(), &SECTIONS[1..2]);
        assert!(Memory::is_empty(&mut all));
        Ok(())
    }

    #[test]
    fn region_keeps_the_entries_that_it_takes_as_a_whole() {
        let mut entries: [bindings::scatterlist; 3] = pin_init::zeroed();
        for (entry, len) in entries.iter_mut().zip([50, 8192, 9]) {
            entry.length = len;
        }
        let cases = [
            (0, (0, 0)),
            (49, (0, 0)),
            (50, (1, 50)),
            (4146, (1, 50)),
            (8242, (2, 8242)),
            (8251, (3, 8251)),
            (u64::MAX, (3, 8251)),
        ];
        for (length, kept) in cases {
            assert_eq!(whole(&entries, length), kept);
        }
        // A region never has more than 4 GiB.
        entries[1].length = u32::MAX;
        assert_eq!(whole(&entries, u64::MAX), (1, 50));
    }

    #[test]
    fn rest_of_a_payload_begins_behind_the_bytes_that_were_skipped() -> Result {
        let slots = slots([3, 4, 9]);
        const LAST: [u32; 3] = [9, 0, PAGE - 4];
        let rests: [(u32, &[[u32; 3]]); 6] = [
            (0, &[[3, 16, 2 * PAGE - 16], LAST]),
            (PAGE - 17, &[[3, PAGE - 1, PAGE + 1], LAST]),
            (PAGE - 16, &[[4, 0, PAGE], LAST]),
            (2 * PAGE - 16, &[LAST]),
            (3 * PAGE - 21, &[[9, PAGE - 5, 1]]),
            (3 * PAGE - 20, &[]),
        ];
        for (skipped, rest) in rests {
            let mut all = payload(&slots, 16, 3 * PAGE - 20);
            Memory::skip(&mut all, skipped);
            assert_eq!(Memory::is_empty(&mut all), rest.is_empty());
            assert_eq!(filled(&mut all, 4, 4)?.as_slice(), rest);
        }
        Ok(())
    }

    #[test]
    fn rest_of_sections_begins_behind_the_bytes_that_were_skipped() -> Result {
        let (slots, gaps) = (slots([7, 9]), shape(6, true, 4));
        let (first, last) = (50 + PAGE, 46 + 2 * PAGE);
        for (skipped, rest) in [
            (0, 0),
            (50, 1),
            (first, 2),
            (last, 3),
            (last + 9, 4),
            (!0, 4),
        ] {
            let mut all = sections(&slots);
            Memory::skip(&mut all, skipped);
            assert_eq!(fill(&mut all, gaps)?.0.as_slice(), &SECTIONS[rest..]);
        }
        let mut all = sections(&slots);
        Memory::skip(&mut all, first + 4);
        assert_eq!(
            fill(&mut all, gaps)?.0.as_slice(),
            [[9, 4, PAGE - 8], [11, 7, 9]]
        );
        Ok(())
    }

    #[test]
    fn missing_page_fills_nothing() -> Result {
        for numbers in [[0, 4], [3, 0]] {
            let slots = slots(numbers);
            let mut all = payload(&slots, 0, 2 * PAGE);
            assert!(filled(&mut all, 4, 4)?.is_empty());
        }
        Ok(())
    }
}
