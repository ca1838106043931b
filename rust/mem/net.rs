// SPDX-License-Identifier: GPL-2.0

//! Network namespaces and socket addresses, which `kernel::net` lacks in Linux 7.3.

use core::mem::size_of;
use core::net::IpAddr;
use core::ptr::NonNull;

use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::aref::AlwaysRefCounted;
use kernel::types::Opaque;

use crate::raw;

/// A network namespace (`struct net`).
///
/// # Invariants
///
/// The namespace is referenced while a reference to this type exists.
#[repr(transparent)]
pub(crate) struct Net(Opaque<bindings::net>);

// SAFETY: Any task may use and put a namespace.
unsafe impl Send for Net {}
// SAFETY: Several tasks may use a namespace at once; the methods read what does not change.
unsafe impl Sync for Net {}

impl Net {
    /// Returns a reference to a namespace.
    ///
    /// # Safety
    ///
    /// `net` points to a namespace that is referenced during `'a`, by a transport for example.
    pub(crate) unsafe fn from_raw<'a>(net: *const bindings::net) -> &'a Self {
        // SAFETY: The caller promises a valid namespace; `Net` has the layout of `struct net`.
        unsafe { &*net.cast() }
    }

    /// Returns the initial namespace.
    #[allow(dead_code, reason = "for the sample rdma_ping")]
    pub(crate) fn init() -> &'static Self {
        // SAFETY: The initial namespace is never freed.
        unsafe { Self::from_raw(&raw const bindings::init_net) }
    }

    /// Returns the number of the namespace, which is never reused.
    pub(crate) fn cookie(&self) -> u64 {
        // SAFETY: By the type invariant the namespace is referenced. The number does not change.
        unsafe { raw::rr_net_cookie(self.as_ptr()) }
    }

    /// Returns the namespace for C functions.
    pub(crate) fn as_ptr(&self) -> *mut bindings::net {
        self.0.get()
    }
}

// SAFETY: `get_net()` and `put_net()` count references, and the last one frees the namespace.
unsafe impl AlwaysRefCounted for Net {
    fn inc_ref(&self) {
        // SAFETY: By the type invariant the namespace is referenced.
        unsafe { raw::rr_get_net(self.as_ptr()) };
    }

    /// Puts a reference.
    ///
    /// # Safety
    ///
    /// The caller owns a reference to `net`, and does not use it after this.
    unsafe fn dec_ref(net: NonNull<Self>) {
        // SAFETY: The caller promises a reference, which is put here. `Net` has the layout of
        // `struct net`.
        unsafe { raw::rr_put_net(net.as_ptr().cast()) };
    }
}

/// The bytes of a `struct sockaddr_storage`.
pub(crate) type Storage = [u8; size_of::<bindings::__kernel_sockaddr_storage>()];

/// A socket address of any family, by value.
///
/// # Invariants
///
/// `len` is at most the size of `storage`, and bytes behind `len` are zero.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct SockAddr {
    storage: Storage,
    len: usize,
}

impl SockAddr {
    /// Copies the socket address in `bytes`, which start with the family in host byte order, as
    /// `struct sockaddr` does.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `bytes` are too short for a family, or longer than `struct sockaddr_storage`.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut storage = [0; size_of::<bindings::__kernel_sockaddr_storage>()];
        if bytes.len() < size_of::<bindings::sa_family_t>() {
            return Err(EINVAL);
        }
        let used = storage.get_mut(..bytes.len()).ok_or(EINVAL)?;
        used.copy_from_slice(bytes);
        // INVARIANT: `get_mut` has compared the lengths. The bytes behind are still zero.
        Ok(Self {
            storage,
            len: bytes.len(),
        })
    }

    /// Makes a socket address of the first bytes of `storage`, as many as its family has. For a
    /// family other than IPv4 and IPv6, it has the family only.
    pub(crate) fn from_storage(storage: Storage) -> Self {
        let [a, b, ..] = storage;
        let len = match u32::from(u16::from_ne_bytes([a, b])) {
            bindings::AF_INET => size_of::<raw::sockaddr_in>(),
            bindings::AF_INET6 => size_of::<bindings::sockaddr_in6>(),
            _ => size_of::<bindings::sa_family_t>(),
        };
        // INVARIANT: All of these lengths are less than that of the storage. The bytes behind are
        // set to zero below.
        let mut this = Self { storage, len };
        for byte in this.storage.iter_mut().skip(len) {
            *byte = 0;
        }
        this
    }

    /// Makes a socket address of an IP address and a port in host byte order, without a scope.
    pub(crate) fn new(ip: impl Into<IpAddr>, port: u16) -> Self {
        let (family, at, octets): (_, _, &[u8]) = match &ip.into() {
            IpAddr::V4(v4) => (bindings::AF_INET, 4, &v4.octets()),
            IpAddr::V6(v6) => (bindings::AF_INET6, 8, &v6.octets()),
        };
        let mut storage = [0; size_of::<Storage>()];
        // CAST: the families fit the field of `struct sockaddr`.
        let head = [(family as u16).to_ne_bytes(), port.to_be_bytes()];
        let copy = |(to, from): (&mut u8, &u8)| *to = *from;
        storage.iter_mut().zip(head.as_flattened()).for_each(copy);
        storage.iter_mut().skip(at).zip(octets).for_each(copy);
        Self::from_storage(storage)
    }

    /// Returns the address family (`AF_INET`, `AF_INET6`).
    pub(crate) fn family(&self) -> u16 {
        let [a, b, ..] = self.storage;
        u16::from_ne_bytes([a, b])
    }

    /// Returns the port of an IPv4 or IPv6 address, in host byte order; 0 for other families.
    pub(crate) fn port(&self) -> u16 {
        match u32::from(self.family()) {
            bindings::AF_INET | bindings::AF_INET6 => {
                let [_, _, high, low, ..] = self.storage;
                u16::from_be_bytes([high, low])
            }
            _ => 0,
        }
    }

    /// Returns the address without its port: an IPv4 address as mapped into IPv6; the unspecified
    /// address for other families.
    pub(crate) fn ip(&self) -> [u8; 16] {
        const NONE: [u8; 16] = [0; 16];
        const MAPPED: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0];
        // An IPv4 address follows family and port; an IPv6 address also follows the flow label.
        let (mut ip, at, skipped) = match u32::from(self.family()) {
            bindings::AF_INET => (MAPPED, 4, 12),
            bindings::AF_INET6 => (NONE, 8, 0),
            _ => return NONE,
        };
        let bytes = self.storage.iter().skip(at);
        for (to, from) in ip.iter_mut().skip(skipped).zip(bytes) {
            *to = *from;
        }
        ip
    }

    /// Returns the IPv4 or IPv6 address with port 0; an address of another family as it is.
    pub(crate) fn without_port(&self) -> Self {
        let mut this = *self;
        if matches!(
            u32::from(self.family()),
            bindings::AF_INET | bindings::AF_INET6
        ) {
            for byte in this.storage.iter_mut().skip(2).take(2) {
                *byte = 0;
            }
        }
        this
    }

    /// Returns the bytes of the address, as in `struct sockaddr`.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.storage.get(..self.len).unwrap_or(&self.storage)
    }

    /// Returns the address for C functions that take a `struct sockaddr *` and read as many bytes
    /// as the family has. The pointer is aligned for that, and points to a whole
    /// `sockaddr_storage`.
    pub(crate) fn as_ptr(&self) -> *const bindings::sockaddr {
        self.storage.as_ptr().cast()
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_mem_net)]
mod tests {
    use super::*;

    /// Makes a storage with `family`, all other bytes of which are 7.
    fn storage(family: u32) -> Storage {
        let mut storage = [7; size_of::<Storage>()];
        // CAST: the families used here fit.
        for (to, from) in storage.iter_mut().zip((family as u16).to_ne_bytes()) {
            *to = from;
        }
        storage
    }

    #[test]
    fn ipv4_addresses_are_mapped_into_ipv6() {
        let v4 = SockAddr::new([192, 0, 2, 1], 20049);
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];
        assert_eq!(v4.ip(), mapped);
        assert_eq!(
            SockAddr::from_storage(storage(bindings::AF_INET6)).ip(),
            [7; 16]
        );
        assert_eq!(SockAddr::from_storage(storage(0)).ip(), [0; 16]);
    }

    #[test]
    fn length_of_an_address_depends_on_its_family() {
        let sizes = [(bindings::AF_INET, 16), (bindings::AF_INET6, 28), (0, 2)];
        for (family, len) in sizes {
            let addr = SockAddr::from_storage(storage(family));
            assert_eq!(
                (u32::from(addr.family()), addr.bytes().len()),
                (family, len)
            );
            assert!(addr.bytes().iter().skip(2).all(|b| *b == 7));
            assert!(addr.storage.iter().skip(len).all(|b| *b == 0));
        }
    }
}
