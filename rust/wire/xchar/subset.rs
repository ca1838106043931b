// SPDX-License-Identifier: GPL-2.0

//! Subsets of a list of characteristics: `xcharsubset`, section 2.1.

use super::super::cursor::Cursor;
use super::super::DecodeError;

/// A bit mask: bit `N mod 32` of word `N div 32` stands for element `N`; words beyond the last are
/// zero.
///
/// # Invariants
///
/// `words` is a whole number of words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subset<'a> {
    words: &'a [u8],
}

impl<'a> Subset<'a> {
    /// Decodes an `xcharsubset`. Elements that its list lacks are harmless.
    pub(super) fn decode(c: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        // CAST: `usize` has at least 32 bits. A length beyond the input is refused.
        let len = (c.word()? as usize).saturating_mul(4);
        Ok(Self {
            words: c.bytes(len)?,
        })
    }

    /// Returns whether the subset has element `n`.
    //= XC-2.1-5 bit N mod 32 of word
    //= XC-2.1-6 words beyond last are zero
    pub fn contains(&self, n: u32) -> bool {
        // CAST: lossless where `usize` has 32 bits or more.
        let word = self.masks().nth((n / 32) as usize).unwrap_or(0);
        word & bit(n) != 0
    }

    /// Returns the first element in the subset that a list of `count` elements lacks.
    pub fn beyond(&self, count: u32) -> Option<u32> {
        self.masks().enumerate().find_map(|(i, word)| {
            let first = u32::try_from(i).unwrap_or(u32::MAX).saturating_mul(32);
            let allowed = match count.saturating_sub(first) {
                0 => 0,
                n @ 1..=31 => bit(n).wrapping_sub(1),
                _ => u32::MAX,
            };
            let excess = word & !allowed;
            (excess != 0).then(|| first.saturating_add(excess.trailing_zeros()))
        })
    }

    /// Iterates over the words of the mask.
    fn masks(&self) -> impl Iterator<Item = u32> + 'a {
        self.words
            .chunks_exact(4)
            .map(|w| w.try_into().map_or(0, u32::from_be_bytes))
    }
}

/// Returns the bit that stands for element `n` in its word, which has 32 elements.
pub(super) const fn bit(n: u32) -> u32 {
    // This shifts by `n` modulo 32.
    1u32.wrapping_shl(n)
}

/// The outcome of one requested change (section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The change is effective.
    Done,
    /// The change was refused, or the characteristic is not known.
    Rejected,
    /// The change will be announced by UPD_XCHAR later.
    Pending,
}

/// The three subsets of RESP_XCHAR. Their list is that of the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Response<'a> {
    pub(super) done: Subset<'a>,
    pub(super) rejected: Subset<'a>,
    pub(super) pending: Subset<'a>,
}

impl Response<'_> {
    /// Checks the response against a request of `count` characteristics: the subsets must not
    /// overlap, and together must cover the request and no more. Afterwards
    /// [`Response::disposition`] is `Some` for every element.
    ///
    /// # Errors
    ///
    /// The first element that is in two subsets or in none, or that the request lacks.
    //= XC-4.3-2 three subsets do not overlap
    pub fn check(&self, count: u32) -> Result<(), u32> {
        let subsets = [&self.done, &self.rejected, &self.pending];
        if let Some(n) = subsets.iter().find_map(|s| s.beyond(count)) {
            return Err(n);
        }
        let lacking = (0..count).find(|&n| self.disposition(n).is_none());
        lacking.map_or(Ok(()), Err)
    }

    /// Returns the outcome of element `n`, or `None` unless exactly one subset has it.
    pub fn disposition(&self, n: u32) -> Option<Disposition> {
        let done = self.done.contains(n);
        let rejected = self.rejected.contains(n);
        let pending = self.pending.contains(n);
        match (done, rejected, pending) {
            (true, false, false) => Some(Disposition::Done),
            (false, true, false) => Some(Disposition::Rejected),
            (false, false, true) => Some(Disposition::Pending),
            _ => None,
        }
    }
}
