// SPDX-License-Identifier: GPL-2.0

//! Socket addresses as text, in the form in which SUNRPC displays them.

use kernel::prelude::*;

use crate::mem::SockAddr;
use crate::raw;
use crate::text::StackString;

/// Size of the longest address with its scope and the NUL.
const SIZE: usize = 72;

/// The text of an address.
pub(crate) type AddrText = StackString<SIZE>;

/// Formats the network address in `addr`, without the port. Any context.
pub(crate) fn ntop(addr: &SockAddr) -> AddrText {
    let mut buf = [0u8; SIZE];
    // SAFETY: `as_ptr` returns a socket address in memory of the size of a `sockaddr_storage`.
    // `buf` has room for `SIZE` bytes, and the call writes a NUL or nothing.
    unsafe { raw::rpc_ntop(addr.as_ptr(), buf.as_mut_ptr().cast(), SIZE) };
    let text = CStr::from_bytes_until_nul(&buf).unwrap_or_default();
    AddrText::new(&fmt!("{}", text))
}

/// Returns the bytes of the network address in `addr`, without port and scope.
pub(crate) fn host(addr: &SockAddr) -> &[u8] {
    let bytes = addr.bytes();
    match u32::from(addr.family()) {
        raw::AF_INET => bytes.get(4..8),
        _ => bytes.get(8..24),
    }
    .unwrap_or_default()
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_sunrpc_address)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_address_is_shown_without_its_port() {
        let addr = SockAddr::new([192, 0, 2, 17], 20049);
        assert!(ntop(&addr).as_bytes() == b"192.0.2.17");
        assert_eq!(host(&addr), [192, 0, 2, 17]);
    }
}
