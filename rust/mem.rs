// SPDX-License-Identifier: GPL-2.0

//! Memory, pages, addresses and network namespaces, in types that the rooms `rdma` and `sunrpc`
//! share.
//!
//! This room knows neither verbs nor RPC. `sunrpc` describes the memory of a message ([`Piece`]),
//! the address of a transport ([`SockAddr`]) and its network namespace ([`NetRef`]), and moves the
//! pages of calls and replies ([`Page`], [`PageRef`]); `rdma` maps the memory, resolves the
//! address, and connects.

use core::marker::PhantomData;
use core::mem::size_of;
use core::ptr::NonNull;

use kernel::bindings;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};

use crate::raw;

mod pages;
mod payload;
mod pool;
mod scope;
mod sections;

pub(crate) use pages::{is_shared, Page, PageRef};
pub(crate) use payload::Payload;
pub(crate) use pool::PagePool;
pub(crate) use scope::MemallocScope;
pub(crate) use sections::Sections;

// CAST: a page is far smaller than 4 GiB.
const PAGE: u32 = PAGE_SIZE as u32;

/// A physically contiguous run of bytes, described by the page in which it starts.
///
/// # Invariants
///
/// - `offset` is less than [`PAGE_SIZE`], and `offset + len` does not overflow.
/// - `len` bytes from `offset` of `page` on are physically contiguous lowmem, and the `struct
///   page`s of their pages are contiguous, too.
/// - The bytes stay valid and are not moved while a memory region that maps them is live;
///   [`Piece::new`] has the details.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    page: NonNull<bindings::page>,
    offset: u32,
    len: u32,
}

impl Piece {
    /// Describes `len` bytes from byte `offset` of `page` on. `offset` may be larger than a page;
    /// the piece then starts in a later page.
    ///
    /// # Safety
    ///
    /// - The bytes are physically contiguous, not in high memory, and inside one allocation or
    ///   folio, so that their `struct page`s are contiguous; `offset + len` fits a `u32`.
    /// - The bytes stay allocated and are not moved as long as a memory region that maps them is
    ///   live. Alternatively, the user of the piece promises to use it no longer than they are: the
    ///   transport of an RPC promises this for the memory of the RPC.
    /// - The owner of the bytes accepts that a device, and through it a peer, reads them, or writes
    ///   them if they are mapped for writing.
    #[inline]
    pub(crate) unsafe fn new(page: NonNull<bindings::page>, offset: u32, len: u32) -> Self {
        // CAST: `usize` has at least 32 bits.
        let pages = (offset / PAGE) as usize;
        // INVARIANT: `offset` is reduced to less than a page; the caller promises the rest.
        Self {
            // SAFETY: The caller promises that the `struct page`s of all the bytes are contiguous,
            // so this one exists.
            page: unsafe { page.add(pages) },
            offset: offset % PAGE,
            len,
        }
    }

    /// Returns the page of the first byte.
    #[inline]
    pub(crate) fn page(&self) -> NonNull<bindings::page> {
        self.page
    }

    /// Returns the offset of the first byte in its page, which is less than [`PAGE_SIZE`].
    #[inline]
    pub(crate) fn offset(&self) -> u32 {
        self.offset
    }

    /// Returns the length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Removes the first `n` bytes, or all if there are fewer, and returns them.
    #[inline]
    pub(crate) fn split_front(&mut self, n: u32) -> Self {
        let n = n.min(self.len);
        let front = Self { len: n, ..*self };
        // An empty rest keeps its page: there may be no page behind the last byte.
        if n < self.len {
            // SAFETY: The rest is a part of the same bytes, for which the invariants guarantee what
            // `new` demands.
            *self = unsafe { Self::new(self.page, self.offset + n, self.len - n) };
        } else {
            self.len = 0;
        }
        front
    }
}

/// Returns the number of pages of memory that this host has.
pub(crate) fn total_pages() -> usize {
    // SAFETY: The counter is a static of the kernel, and is accessed by atomic operations only.
    let counter = unsafe { Atomic::from_ptr(&raw mut bindings::_totalram_pages.counter) };
    usize::try_from(counter.load(Relaxed)).unwrap_or_default()
}

/// A reference to a network namespace that exists for at least `'a`.
///
/// # Invariants
///
/// The namespace is referenced during `'a`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetRef<'a> {
    net: NonNull<bindings::net>,
    lifetime: PhantomData<&'a ()>,
}

// SAFETY: Any task may use a `struct net`; this value is a pointer to it.
unsafe impl Send for NetRef<'_> {}
// SAFETY: Several tasks may use a `struct net` at once; through a shared reference, only the
// pointer is read.
unsafe impl Sync for NetRef<'_> {}

impl NetRef<'_> {
    /// Wraps a namespace.
    ///
    /// # Safety
    ///
    /// The namespace is referenced during `'a`, by a transport for example.
    #[inline]
    pub(crate) unsafe fn new(net: NonNull<bindings::net>) -> Self {
        // INVARIANT: The caller promises it.
        Self {
            net,
            lifetime: PhantomData,
        }
    }

    /// Returns the initial namespace.
    #[allow(dead_code, reason = "for the sample rdma_ping")]
    pub(crate) fn init() -> Self {
        // SAFETY: The address of a static is not null, and this namespace is never freed.
        unsafe { Self::new(NonNull::new_unchecked(&raw mut bindings::init_net)) }
    }

    /// Returns the number of the namespace, which no other one has or will have.
    pub(crate) fn cookie(&self) -> u64 {
        // SAFETY: By the type invariant the namespace is referenced. The number does not change.
        unsafe { raw::rr_net_cookie(self.as_ptr()) }
    }

    /// Returns the namespace, which by the type invariant is referenced during `'a`.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::net {
        self.net.as_ptr()
    }
}

/// A network namespace that exists as long as this value.
///
/// # Invariants
///
/// The value has a reference to the namespace.
pub(crate) struct Net(NonNull<bindings::net>);

impl Net {
    /// Takes a reference to a namespace. Any context.
    pub(crate) fn get(net: NetRef<'_>) -> Self {
        // SAFETY: By the type invariant of `NetRef` the namespace is referenced.
        unsafe { raw::rr_get_net(net.as_ptr()) };
        // INVARIANT: The reference was taken above.
        Self(net.net)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this reference can be put.
        unsafe { raw::rr_put_net(self.0.as_ptr()) };
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
        storage
            .get_mut(..bytes.len())
            .ok_or(EINVAL)?
            .copy_from_slice(bytes);
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
            bindings::AF_INET => size_of::<bindings::sockaddr_in>(),
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

    /// Makes a socket address of an IPv4 address and a port in host byte order.
    #[allow(dead_code, reason = "for the sample rdma_ping")]
    pub(crate) fn v4(addr: [u8; 4], port: u16) -> Self {
        let mut storage = [0; size_of::<bindings::__kernel_sockaddr_storage>()];
        // CAST: `AF_INET` fits the field of `struct sockaddr`.
        let family = (bindings::AF_INET as u16).to_ne_bytes();
        let port = port.to_be_bytes();
        for (to, from) in storage.chunks_mut(2).zip([family, port]) {
            to.copy_from_slice(&from);
        }
        for (to, from) in storage.iter_mut().skip(4).zip(addr) {
            *to = from;
        }
        // INVARIANT: `sockaddr_in` is shorter than `sockaddr_storage`, and the bytes behind are
        // zero.
        Self {
            storage,
            len: size_of::<bindings::sockaddr_in>(),
        }
    }

    /// Returns the address family (`AF_INET`, `AF_INET6`).
    #[inline]
    pub(crate) fn family(&self) -> u16 {
        let [a, b, ..] = self.storage;
        u16::from_ne_bytes([a, b])
    }

    /// Returns the port of an IPv4 or IPv6 address, in host byte order; 0 for other families.
    #[inline]
    pub(crate) fn port(&self) -> u16 {
        match u32::from(self.family()) {
            bindings::AF_INET | bindings::AF_INET6 => {
                let [_, _, high, low, ..] = self.storage;
                u16::from_be_bytes([high, low])
            }
            _ => 0,
        }
    }

    /// Returns the address without its port: an IPv4 address as it is mapped into IPv6; the
    /// unspecified address for other families.
    pub(crate) fn ip(&self) -> [u8; 16] {
        const NONE: [u8; 16] = [0; 16];
        const MAPPED: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0];
        // An IPv4 address is behind family and port; in front of an IPv6 address is the flow label,
        // too.
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
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.storage.get(..self.len).unwrap_or(&self.storage)
    }

    /// Returns the address for C functions that take a `struct sockaddr *` and read as many bytes
    /// as the family has. The pointer is aligned for that, and points to a whole
    /// `sockaddr_storage`.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *const bindings::sockaddr {
        self.storage.as_ptr().cast()
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_mem)]
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
        let v4 = SockAddr::v4([192, 0, 2, 1], 20049);
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
