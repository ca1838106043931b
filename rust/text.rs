// SPDX-License-Identifier: GPL-2.0

//! Short strings by value, for C code that expects a NUL-terminated string, and copies of as many
//! bytes as fit. Every room may use them.

use core::fmt::Write;

use kernel::ffi::c_char;
use kernel::fmt;
use kernel::str::BStr;

/// Copies as many bytes as fit, and returns their number.
pub(crate) fn copy(to: &mut [u8], from: &[u8]) -> usize {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
    to.len().min(from.len())
}

/// A NUL-terminated string of at most `SIZE - 1` bytes.
///
/// # Invariants
///
/// `len < SIZE`, and the bytes from `len` on are zero.
#[derive(Clone, Copy)]
pub(crate) struct StackString<const SIZE: usize> {
    bytes: [u8; SIZE],
    len: usize,
}

impl<const SIZE: usize> StackString<SIZE> {
    /// The empty string.
    pub(crate) const EMPTY: Self = {
        assert!(SIZE > 0);
        // INVARIANT: All bytes are zero, and there is at least one.
        Self {
            bytes: [0; SIZE],
            len: 0,
        }
    };

    /// Formats `value`, and truncates the result if it is too long.
    pub(crate) fn new(value: &impl core::fmt::Display) -> Self {
        let mut text = Self::EMPTY;
        // The only error is that the string is full, in which case it is truncated.
        let _ = core::write!(text, "{value}");
        text
    }

    /// Returns the string without its NUL.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Returns a pointer to the first byte, which is valid until `self` is moved or changed.
    pub(crate) fn as_char_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }
}

impl<const SIZE: usize> Write for StackString<SIZE> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let rest = self.bytes.get_mut(self.len..).unwrap_or_default();
        let Some((_nul, room)) = rest.split_last_mut() else {
            return Err(fmt::Error);
        };
        let n = copy(room, s.as_bytes());
        // INVARIANT: `n` bytes fit before the last byte, which stays zero.
        self.len += n;
        (n == s.len()).then_some(()).ok_or(fmt::Error)
    }
}

impl<const SIZE: usize> fmt::Display for StackString<SIZE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(BStr::from_bytes(self.as_bytes()), f)
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_text)]
mod tests {
    use super::*;
    use kernel::prelude::*;

    /// Returns whether the byte after the string, and all following ones, are NUL.
    fn is_terminated<const SIZE: usize>(text: &StackString<SIZE>) -> bool {
        text.len < SIZE && text.bytes.iter().skip(text.len).all(|byte| *byte == 0)
    }

    #[test]
    fn a_short_string_is_complete() {
        let text = StackString::<16>::new(&"gap at byte 12");
        assert!(text.as_bytes() == b"gap at byte 12");
        assert!(is_terminated(&text));
        assert!(StackString::<1>::EMPTY.as_bytes().is_empty());
    }

    #[test]
    fn a_long_string_is_truncated_before_its_nul() {
        let text = StackString::<8>::new(&fmt!("{}-{}", 12345, 67890));
        assert!(text.as_bytes() == b"12345-6");
        assert!(is_terminated(&text));
        let none = StackString::<1>::new(&"a");
        assert!(none.as_bytes().is_empty() && is_terminated(&none));
    }

    #[test]
    fn a_string_is_displayed_as_it_was_formatted() {
        let text = StackString::<32>::new(&fmt!("{}", "fe80::1%eth0"));
        assert!(StackString::<32>::new(&fmt!("{}", text)).as_bytes() == text.as_bytes());
    }
}
