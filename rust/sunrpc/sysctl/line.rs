// SPDX-License-Identifier: GPL-2.0

//! Files that have one line.

use kernel::bindings as k;
use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;
use kernel::str::CStrExt;

use crate::text::Text;

/// A line: the text of the largest number, or a word, fits with its newline and a NUL.
pub(super) type Line = Text<24>;

/// What is behind a file. The methods run in process context.
pub(super) trait File: Sync + 'static {
    /// Returns the name of the file.
    fn name(&self) -> &'static CStr;

    /// Returns what a reader of the file gets.
    fn line(&self) -> Line;

    /// Handles what a writer has written.
    ///
    /// # Errors
    ///
    /// That of the writer.
    fn write(&self, text: &[u8]) -> Result;
}

/// Returns the C description of a file.
pub(super) fn table<F: File>(file: &'static F) -> k::ctl_table {
    k::ctl_table {
        procname: file.name().as_char_ptr(),
        data: (&raw const *file).cast_mut().cast(),
        // CAST: a line is short. SUNRPC's own handlers read this value, ours does not.
        maxlen: size_of::<Line>() as i32,
        mode: 0o644,
        proc_handler: Some(handle::<F>),
        ..pin_init::zeroed()
    }
}

/// Reads or writes a file.
///
/// # Safety
///
/// `table` is from [`table`] for an `F`; `buffer` has `*len` initialized bytes; nothing else uses
/// `buffer`, `len` and `pos` during the call.
unsafe extern "C" fn handle<F: File>(
    table: *const k::ctl_table,
    write: c_int,
    buffer: *mut c_void,
    len: *mut usize,
    pos: *mut k::loff_t,
) -> c_int {
    // SAFETY: The caller passes a table whose data are a static `F`.
    let file = unsafe { &*(*table).data.cast::<F>().cast_const() };
    // SAFETY: The caller passes pointers that are valid, and used by nothing else.
    let (len, pos) = unsafe { (&mut *len, &mut *pos) };
    // SAFETY: The caller passes a buffer of so many bytes that is used by nothing else.
    let buffer = unsafe { core::slice::from_raw_parts_mut(buffer.cast::<u8>(), *len) };
    if write != 0 {
        return file.write(buffer).map_or_else(Error::to_errno, |()| 0);
    }
    read(file.line().as_bytes(), buffer, len, pos);
    0
}

/// Copies what `line` has from `*pos` on to `buffer`, as much as fits; sets `*len` to the number of
/// bytes, and moves `*pos` behind them.
fn read(line: &[u8], buffer: &mut [u8], len: &mut usize, pos: &mut k::loff_t) {
    let from = usize::try_from(*pos).unwrap_or(usize::MAX);
    *len = copy_from(line, from, buffer);
    // CAST: at most the length of a line.
    *pos = pos.saturating_add(*len as k::loff_t);
}

/// Copies the bytes of `line` from `from` on to `buffer`, as many as fit. Returns their number.
fn copy_from(line: &[u8], from: usize, buffer: &mut [u8]) -> usize {
    let rest = line.get(from..).unwrap_or_default();
    for (to, byte) in buffer.iter_mut().zip(rest) {
        *to = *byte;
    }
    rest.len().min(buffer.len())
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_sysctl_line)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_in_parts() {
        let mut buffer = [0u8; 3];
        assert_eq!(copy_from(b"1234\n", 0, &mut buffer), 3);
        assert_eq!(&buffer, b"123");
        assert_eq!(copy_from(b"1234\n", 3, &mut buffer), 2);
        assert_eq!(&buffer, b"4\n3");
        assert_eq!(copy_from(b"1234\n", 5, &mut buffer), 0);
        assert_eq!(copy_from(b"1234\n", usize::MAX, &mut buffer), 0);
    }
}
