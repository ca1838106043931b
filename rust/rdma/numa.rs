// SPDX-License-Identifier: GPL-2.0

//! Memory near a device: on its NUMA node, if it has one and there is memory left.
//!
//! The kernel crate's vectors and boxes take memory from anywhere; its allocators can be told where.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use kernel::alloc::allocator::Kmalloc;
use kernel::alloc::{AllocError, Allocator, Flags, NumaNode, Vec};
use kernel::prelude::*;
use pin_init::Zeroable;

use super::device::Device;

/// The node of a device; none if it does not say.
pub(super) fn node(device: &Device<'_>) -> NumaNode {
    NumaNode::new(device.node()).unwrap_or(NumaNode::NO_NODE)
}

/// Memory for `n` values, of which none is there yet. May sleep if `gfp` says so.
///
/// # Errors
///
/// [`AllocError`]: out of memory, or `n` values are more than there can be.
fn array<T, A: Allocator>(n: usize, gfp: Flags, node: NumaNode) -> Result<NonNull<T>, AllocError> {
    const { assert!(size_of::<T>() != 0) };
    let layout = Layout::array::<T>(n).map_err(|_| AllocError)?;
    Ok(A::alloc(layout, gfp, node)?.cast())
}

/// An empty vector with room for `n` values on `node`. May sleep if `gfp` says so.
///
/// # Errors
///
/// [`AllocError`], also for `n` of 0.
pub(super) fn with_capacity<T, A: Allocator>(
    n: usize,
    gfp: Flags,
    node: NumaNode,
) -> Result<Vec<T, A>, AllocError> {
    if n == 0 {
        return Err(AllocError);
    }
    let memory = array::<T, A>(n, gfp, node)?;
    // SAFETY: Just allocated with `A` for `n` values, which `Layout` has seen to be less than
    // `isize::MAX` bytes; none of them counts as initialised.
    Ok(unsafe { Vec::from_raw_parts(memory.as_ptr(), 0, n) })
}

/// A vector of `n` zeroed values on `node`. May sleep if `gfp` says so.
///
/// # Errors
///
/// As [`with_capacity`].
pub(super) fn zeroed<T: Zeroable, A: Allocator>(
    n: usize,
    gfp: Flags,
    node: NumaNode,
) -> Result<Vec<T, A>, AllocError> {
    if n == 0 {
        return Err(AllocError);
    }
    let memory = array::<T, A>(n, gfp | __GFP_ZERO, node)?;
    // SAFETY: As in `with_capacity`; all values are zeroed, which they may be as `T` is `Zeroable`.
    Ok(unsafe { Vec::from_raw_parts(memory.as_ptr(), n, n) })
}

/// A box on `node`, to be written. May sleep if `gfp` says so.
///
/// # Errors
///
/// [`AllocError`].
pub(super) fn boxed<T>(gfp: Flags, node: NumaNode) -> Result<KBox<MaybeUninit<T>>, AllocError> {
    let memory = array::<MaybeUninit<T>, Kmalloc>(1, gfp, node)?;
    // SAFETY: Just allocated with the box's allocator for one value, which may be uninitialised.
    Ok(unsafe { KBox::from_raw(memory.as_ptr()) })
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_rdma_local)]
mod tests {
    use super::*;
    use kernel::alloc::allocator::KVmalloc;

    #[test]
    fn zeroed_is_zeroed_and_full() -> Result {
        let bytes: KVec<u8> = zeroed(4096, GFP_KERNEL, NumaNode::NO_NODE)?;
        assert_eq!(bytes.len(), 4096);
        assert!(bytes.iter().all(|byte| *byte == 0));
        Ok(())
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() -> Result {
        let mut room = with_capacity::<u64, KVmalloc>(3, GFP_KERNEL, NumaNode::NO_NODE)?;
        for n in 0..3 {
            room.push_within_capacity(n).map_err(|_| ENOSPC)?;
        }
        assert!(room.push_within_capacity(3).is_err());
        assert_eq!(&room[..], [0, 1, 2]);
        Ok(())
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        let none = NumaNode::NO_NODE;
        assert!(with_capacity::<u64, Kmalloc>(0, GFP_KERNEL, none).is_err());
        assert!(zeroed::<u64, Kmalloc>(0, GFP_KERNEL, none).is_err());
        assert!(with_capacity::<u64, Kmalloc>(usize::MAX, GFP_KERNEL, none).is_err());
    }
}
