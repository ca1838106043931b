// SPDX-License-Identifier: GPL-2.0

//! Reading a file that has one line.

use kernel::bindings as k;

/// Copies what `line` has from `*pos` on to `buffer`, as much as fits; sets `*len` to the number of
/// bytes, and moves `*pos` behind them.
pub(super) fn read(line: &[u8], buffer: &mut [u8], len: &mut usize, pos: &mut k::loff_t) {
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
