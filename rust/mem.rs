// SPDX-License-Identifier: GPL-2.0

//! Memory, addresses and namespaces, as the rooms `rdma` and `sunrpc` speak of them to each other.
//!
//! Neutral ground: nothing here knows verbs or RPC. `sunrpc` says where the memory of a message
//! lies ([`Piece`]), which address a transport has ([`SockAddr`]) and which network namespace it
//! belongs to ([`NetRef`]); `rdma` maps, resolves and connects.

use core::marker::PhantomData;
use core::mem::size_of;
use core::ptr::NonNull;

use kernel::bindings;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

// CAST: a page is far smaller than 4 GiB.
const PAGE: u32 = PAGE_SIZE as u32;

/// A physically contiguous run of bytes, known by the page it starts in.
///
/// # Invariants
///
/// - `offset` is less than [`PAGE_SIZE`], and `offset + len` does not overflow.
/// - The bytes from `offset` of `page` on, `len` of them, are physically contiguous lowmem, and
///   the `struct page`s of the pages they span are contiguous too.
/// - They stay valid and in place until whoever maps them says that they are fenced; see
///   [`Piece::new`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    page: NonNull<bindings::page>,
    offset: u32,
    len: u32,
}

impl Piece {
    /// Describes `len` bytes from byte `offset` of `page` on. `offset` may exceed a page; it is
    /// brought into the page that it falls into.
    ///
    /// # Safety
    ///
    /// - The bytes are physically contiguous, not in high memory, and inside one allocation or
    ///   folio, so that their `struct page`s are contiguous; `offset + len` fits a `u32`.
    /// - They stay allocated and are not moved until the memory region that maps them (if one
    ///   does) is no longer live, or the caller has been promised that nobody uses the piece by
    ///   then: the transport of an RPC promises it, for memory of the RPC.
    /// - Whoever owns them accepts that a device, and through it a peer, reads them, or writes
    ///   them if they are mapped for that.
    #[inline]
    pub(crate) unsafe fn new(page: NonNull<bindings::page>, offset: u32, len: u32) -> Self {
        // CAST: `usize` has at least 32 bits.
        let pages = (offset / PAGE) as usize;
        // INVARIANT: the rest is what the caller promises.
        Self {
            // SAFETY: The caller promises that the `struct page`s up to where the bytes end are
            // contiguous, so this one exists.
            page: unsafe { page.add(pages) },
            offset: offset % PAGE,
            len,
        }
    }

    /// Page of the first byte.
    #[inline]
    pub(crate) fn page(&self) -> NonNull<bindings::page> {
        self.page
    }

    /// Offset of the first byte in that page, less than [`PAGE_SIZE`].
    #[inline]
    pub(crate) fn offset(&self) -> u32 {
        self.offset
    }

    /// Length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Takes the first `n` bytes off, all of them if there are fewer, and returns them.
    #[inline]
    pub(crate) fn split_front(&mut self, n: u32) -> Self {
        let n = n.min(self.len);
        let front = Self { len: n, ..*self };
        // A piece that is used up stays where it is: there need not be a page behind it.
        if n < self.len {
            // SAFETY: A part of the same bytes, for which the invariants promise what `new` asks.
            *self = unsafe { Self::new(self.page, self.offset + n, self.len - n) };
        } else {
            self.len = 0;
        }
        front
    }
}

/// A network namespace that somebody keeps for at least `'a`.
///
/// # Invariants
///
/// The namespace is referenced during `'a`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetRef<'a> {
    net: NonNull<bindings::net>,
    keeper: PhantomData<&'a ()>,
}

// SAFETY: A `struct net` may be used from any task; this is no more than a pointer to it.
unsafe impl Send for NetRef<'_> {}
// SAFETY: As above; nothing is changed through a shared reference.
unsafe impl Sync for NetRef<'_> {}

impl NetRef<'_> {
    /// Wraps a namespace.
    ///
    /// # Safety
    ///
    /// As the type invariant says: a transport holds a reference during `'a`, for example.
    #[inline]
    pub(crate) unsafe fn new(net: NonNull<bindings::net>) -> Self {
        // INVARIANT: the caller promises it.
        Self {
            net,
            keeper: PhantomData,
        }
    }

    /// The initial namespace.
    #[allow(dead_code, reason = "for samples")]
    pub(crate) fn init() -> Self {
        // SAFETY: The address of a static is not null; the namespace is never freed.
        unsafe { Self::new(NonNull::new_unchecked(&raw mut bindings::init_net)) }
    }

    /// The namespace itself; referenced by the type invariant.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::net {
        self.net.as_ptr()
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
    /// Copies the socket address in `bytes`, which starts with the family in host byte order as
    /// `struct sockaddr` does.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is too short for a family, or longer than `struct sockaddr_storage`.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut storage = [0; size_of::<bindings::__kernel_sockaddr_storage>()];
        if bytes.len() < size_of::<bindings::sa_family_t>() {
            return Err(EINVAL);
        }
        storage
            .get_mut(..bytes.len())
            .ok_or(EINVAL)?
            .copy_from_slice(bytes);
        // INVARIANT: `get_mut` has compared the lengths; the rest is zero from the start.
        Ok(Self {
            storage,
            len: bytes.len(),
        })
    }

    /// The socket address in `storage`, as long as its family says; of another family than IPv4 and
    /// IPv6, the family alone.
    pub(crate) fn from_storage(storage: Storage) -> Self {
        let [a, b, ..] = storage;
        let len = match u32::from(u16::from_ne_bytes([a, b])) {
            bindings::AF_INET => size_of::<bindings::sockaddr_in>(),
            bindings::AF_INET6 => size_of::<bindings::sockaddr_in6>(),
            _ => size_of::<bindings::sa_family_t>(),
        };
        // INVARIANT: all of these are shorter than the storage, the rest of which becomes zero.
        let mut this = Self { storage, len };
        for byte in this.storage.iter_mut().skip(len) {
            *byte = 0;
        }
        this
    }

    /// An IPv4 address and a port in host byte order.
    #[allow(dead_code, reason = "for samples")]
    pub(crate) fn v4(addr: [u8; 4], port: u16) -> Self {
        let mut storage = [0; size_of::<bindings::__kernel_sockaddr_storage>()];
        // CAST: the family fits its field in `struct sockaddr`.
        let family = (bindings::AF_INET as u16).to_ne_bytes();
        let port = port.to_be_bytes();
        for (to, from) in storage.chunks_mut(2).zip([family, port]) {
            to.copy_from_slice(&from);
        }
        for (to, from) in storage.iter_mut().skip(4).zip(addr) {
            *to = from;
        }
        // INVARIANT: `sockaddr_in` is shorter than `sockaddr_storage`.
        Self {
            storage,
            len: size_of::<bindings::sockaddr_in>(),
        }
    }

    /// The address family (`AF_INET`, `AF_INET6`).
    #[inline]
    pub(crate) fn family(&self) -> u16 {
        let [a, b, ..] = self.storage;
        u16::from_ne_bytes([a, b])
    }

    /// The port of an IPv4 or IPv6 address, in host byte order; 0 for other families.
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

    /// The address as `struct sockaddr` has it.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.storage.get(..self.len).unwrap_or(&self.storage)
    }

    /// For C functions that take a `struct sockaddr *` and read as much as its family says. It is
    /// aligned for that, and as long as a `sockaddr_storage`.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *const bindings::sockaddr {
        self.storage.as_ptr().cast()
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_mem)]
mod tests {
    use super::*;

    /// An address of `family`, all other bytes of which are 7.
    fn storage(family: u32) -> Storage {
        let mut storage = [7; size_of::<Storage>()];
        // CAST: families are small.
        for (to, from) in storage.iter_mut().zip((family as u16).to_ne_bytes()) {
            *to = from;
        }
        storage
    }

    #[test]
    fn an_address_is_as_long_as_its_family_says() {
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
