// SPDX-License-Identifier: GPL-2.0

//! A payload in pages, with the bytes before and behind it.

use super::{Payload, Piece, PAGE};
use crate::compat::casts::u32_as_usize;

/// Bytes in three sections, any of which may be empty: a piece, pages, and a second piece. Bytes
/// are removed from the front.
#[derive(Clone, Copy)]
pub(crate) struct Sections<'a> {
    before: Option<Piece>,
    pages: Payload<'a>,
    behind: Option<Piece>,
}

impl<'a> Sections<'a> {
    /// Describes these sections.
    pub(crate) fn new(before: Option<Piece>, pages: Payload<'a>, behind: Option<Piece>) -> Self {
        Self {
            before,
            pages,
            behind,
        }
    }

    /// Returns whether there are no bytes left.
    pub(crate) fn is_empty(&self) -> bool {
        self.before.is_none() && self.pages.is_empty() && self.behind.is_none()
    }

    /// Returns the largest number of pages that the bytes may occupy.
    pub(crate) fn pages(&self) -> usize {
        let ends = pages_of(&self.before).saturating_add(pages_of(&self.behind));
        self.pages.pages().saturating_add(u32_as_usize(ends))
    }

    /// Returns the length in bytes of the longer piece.
    pub(crate) fn longest_piece(&self) -> u32 {
        len_of(&self.before).max(len_of(&self.behind))
    }

    /// Returns whether only one section has bytes.
    pub(crate) fn is_single(&self) -> bool {
        let ends = u8::from(self.before.is_some()) + u8::from(self.behind.is_some());
        ends + u8::from(!self.pages.is_empty()) == 1
    }

    /// Removes all bytes, and returns the sections. A returned piece is not empty.
    pub(crate) fn take(&mut self) -> (Option<Piece>, Payload<'a>, Option<Piece>) {
        let pages = core::mem::replace(&mut self.pages, Payload::EMPTY);
        // All bytes of the first piece may have been removed.
        let before = self.before.take().filter(|piece| piece.len() != 0);
        (before, pages, self.behind.take())
    }

    /// Returns the first piece that has bytes, from which the caller may remove some. Pages that
    /// are adjacent are one piece. If a page is missing, the bytes end there.
    pub(crate) fn first(&mut self) -> Option<&mut Piece> {
        if len_of(&self.before) == 0 {
            self.before = self.next();
        }
        self.before.as_mut()
    }

    /// Removes and returns the first piece of those that follow `before`.
    fn next(&mut self) -> Option<Piece> {
        if self.pages.is_empty() {
            return self.behind.take();
        }
        let run = self.pages.next_run();
        if run.is_none() {
            self.pages = Payload::EMPTY;
            self.behind = None;
        }
        run
    }
}

/// Returns the length in bytes of a piece.
fn len_of(piece: &Option<Piece>) -> u32 {
    piece.as_ref().map_or(0, Piece::len)
}

/// Returns the number of pages of a piece.
fn pages_of(piece: &Option<Piece>) -> u32 {
    piece
        .as_ref()
        .map_or(0, |piece| (piece.offset() + piece.len()).div_ceil(PAGE))
}
