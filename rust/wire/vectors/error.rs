// SPDX-License-Identifier: GPL-2.0

//! The text of a decoding error, as logs show it.

use core::fmt::{self, Write};

use super::super::{DecodeError, What};
use super::ensure;

/// Texts that were written one behind the other.
struct Text {
    bytes: [u8; 64],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let rest = self.bytes.get_mut(self.len..).ok_or(fmt::Error)?;
        let room = rest.get_mut(..s.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(s.as_bytes());
        self.len = self.len.saturating_add(s.len());
        Ok(())
    }
}

/// Compares the texts of errors with and without a number.
///
/// # Errors
///
/// The name of the first text that is wrong.
pub fn check() -> Result<(), &'static str> {
    for (what, offset, want) in [
        (What::Truncated, 8, "message too short at byte 8"),
        (What::Proc(77), 12, "unknown message type 77 at byte 12"),
    ] {
        let error = DecodeError { what, offset };
        let mut text = Text {
            bytes: [0; 64],
            len: 0,
        };
        ensure!(write!(text, "{error}").is_ok(), "error: room");
        let written = text.bytes.get(..text.len);
        ensure!(written == Some(want.as_bytes()), "error: text");
    }
    Ok(())
}
