// SPDX-License-Identifier: GPL-2.0

//! Short texts made while an event is being recorded.

use core::fmt::{self, Write};

use kernel::ffi;

use super::Field;

/// The beginning of what a value displays as, for a `const char *` of an event.
///
/// # Invariants
///
/// `len < LEN`, and the bytes from `len` on are zero: there is a NUL within the array.
pub(super) struct Text {
    bytes: [u8; Self::LEN],
    len: usize,
}

impl Text {
    /// Room for the text and its NUL.
    const LEN: usize = 64;

    /// Formats `value`; what does not fit is left out.
    pub(super) fn new(value: &impl fmt::Display) -> Self {
        // INVARIANT: no text yet, and all bytes are zero.
        let mut text = Self {
            bytes: [0; Self::LEN],
            len: 0,
        };
        // Fails when there is no more room, which leaves the beginning in place.
        let _ = core::write!(text, "{value}");
        text
    }
}

impl Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let rest = self.bytes.get_mut(self.len..).unwrap_or_default();
        let Some((_nul, room)) = rest.split_last_mut() else {
            return Err(fmt::Error);
        };
        let n = s.len().min(room.len());
        for (to, from) in room.iter_mut().zip(s.bytes()) {
            *to = from;
        }
        // INVARIANT: `n` is at most the room before the last byte, which stays zero.
        self.len += n;
        if n < s.len() {
            return Err(fmt::Error);
        }
        Ok(())
    }
}

impl Field for Text {
    type C = *const ffi::c_char;

    #[inline(always)]
    fn to_c(&self) -> *const ffi::c_char {
        self.bytes.as_ptr().cast()
    }
}

#[cfg(RPCRDMA_KUNIT)]
#[kernel::prelude::kunit_tests(rpcrdma_trace_text)]
mod tests {
    use super::*;

    /// Length of the text and whether a NUL follows it.
    fn shape(text: &Text) -> (usize, bool) {
        (text.len, text.bytes.iter().skip(text.len).all(|b| *b == 0))
    }

    #[test]
    fn short_text_is_kept() {
        let text = Text::new(&"gap at byte 12");
        assert!(text.bytes.starts_with(b"gap at byte 12\0"));
        assert_eq!(shape(&text), (14, true));
    }

    #[test]
    fn long_text_is_cut_and_ends_in_nul() {
        let line = "0123456789012345678901234567890123456789012345678901234567890123456789";
        let text = Text::new(&line);
        assert_eq!(shape(&text), (Text::LEN - 1, true));
    }
}
