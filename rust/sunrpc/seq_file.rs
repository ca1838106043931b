// SPDX-License-Identifier: GPL-2.0

//! Writing text to a `seq_file`.
//!
//! C header: [`include/linux/seq_file.h`](srctree/include/linux/seq_file.h)

use core::fmt;

use kernel::seq_file::SeqFile;
use kernel::seq_print;

/// Writes to a `seq_file`.
pub(crate) struct SeqWriter<'a>(&'a SeqFile);

impl<'a> SeqWriter<'a> {
    /// Creates a writer that appends to `file`.
    pub(super) fn new(file: &'a SeqFile) -> Self {
        Self(file)
    }
}

impl fmt::Write for SeqWriter<'_> {
    /// Never fails: on overflow `seq_file` repeats the whole output with a larger buffer.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        seq_print!(self.0, "{}", text);
        Ok(())
    }
}
