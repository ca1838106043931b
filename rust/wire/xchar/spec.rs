// SPDX-License-Identifier: GPL-2.0

//! A list of characteristics: `xcharspec`, section 2.1.

use super::super::cursor::Cursor;
use super::super::DecodeError;
use super::Characteristic;

/// A list of characteristics, in any order. A characteristic may occur twice; the later value
/// counts.
///
/// # Invariants
///
/// `bytes` are well-formed `xcharval`, whose known ids have data of their type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
//= XC-2.1-7 elements may be in any order
pub struct Spec<'a> {
    count: u32,
    bytes: &'a [u8],
}

impl<'a> Spec<'a> {
    /// Decodes an `xcharspec`. The message bounds the number of its elements.
    pub(super) fn decode(c: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let count = c.word()?;
        let start = c.rest();
        for _ in 0..count {
            Characteristic::decode(c)?;
        }
        let len = start.len().wrapping_sub(c.rest().len());
        // INVARIANT: the loop has decoded exactly these bytes.
        Ok(Self {
            count,
            bytes: start.get(..len).unwrap_or_default(),
        })
    }

    /// Returns the number of elements.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Iterates over the elements in order.
    pub fn values(&self) -> impl Iterator<Item = Characteristic<'a>> + 'a {
        let mut cursor = Cursor::new(self.bytes);
        // Behind the last element there are no bytes, so decoding fails.
        core::iter::from_fn(move || Characteristic::decode(&mut cursor).ok())
    }
}
