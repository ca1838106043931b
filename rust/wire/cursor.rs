// SPDX-License-Identifier: GPL-2.0

//! A reader of XDR words that cannot run past its input.

use super::{DecodeError, What};

/// The part of a message that was not read yet.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    /// Length of the whole input, for offsets in errors.
    len: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte of `bytes`.
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            len: bytes.len(),
        }
    }

    /// Returns the bytes that were not read yet.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the number of bytes read so far.
    pub(super) const fn offset(&self) -> usize {
        self.len.wrapping_sub(self.rest.len())
    }

    /// Returns an error about the next item.
    #[inline(always)]
    pub(super) const fn error(&self, what: What) -> DecodeError {
        DecodeError::new(what, self.offset())
    }

    /// Returns an error about the word that was read last.
    #[inline(always)]
    pub(super) const fn error_before(&self, what: What) -> DecodeError {
        DecodeError::new(what, self.offset().wrapping_sub(4))
    }

    /// Reads the next `N` bytes.
    #[inline(always)]
    pub(super) fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], DecodeError> {
        match self.rest.split_first_chunk() {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(self.error(What::Truncated)),
        }
    }

    /// Reads the next `n` bytes.
    #[inline(always)]
    pub(super) fn bytes(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(n) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(self.error(What::Truncated)),
        }
    }

    /// Reads the next list entry of `N` bytes, including the word that announces it. Returns `None`
    /// if the list ends here or is malformed.
    #[inline(always)]
    pub(super) fn entry<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((entry, rest)) if entry.starts_with(&1u32.to_be_bytes()) => {
                self.rest = rest;
                Some(entry)
            }
            _ => None,
        }
    }

    /// Skips two words if both are zero, which means two absent lists.
    #[inline(always)]
    pub(super) fn absent_pair(&mut self) -> bool {
        match self.rest.split_first_chunk() {
            Some((words, rest)) if u64::from_ne_bytes(*words) == 0 => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Reads the next 32-bit word.
    #[inline(always)]
    pub(super) fn word(&mut self) -> Result<u32, DecodeError> {
        self.array().map(|b| u32::from_be_bytes(*b))
    }

    /// Reads the next boolean: exactly 0 or 1 (RFC 4506 section 4.4).
    #[inline(always)]
    pub(super) fn boolean(&mut self) -> Result<bool, DecodeError> {
        match self.word()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.error_before(What::Bool(other))),
        }
    }

    /// Reads the next counted opaque data, and skips its padding. The bytes of the padding are not
    /// checked, since they carry no data.
    //= XC-2.1-1 length beyond the message
    pub(super) fn opaque(&mut self) -> Result<&'a [u8], DecodeError> {
        // CAST: `usize` has at least 32 bits. A length beyond the input is refused.
        let len = self.word()? as usize;
        let data = self.bytes(len)?;
        self.bytes(len.wrapping_neg() % 4)?;
        Ok(data)
    }

    /// Checks that all bytes were read.
    pub(super) const fn end(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.error(What::Trailing))
        }
    }
}
