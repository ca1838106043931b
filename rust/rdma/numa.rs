// SPDX-License-Identifier: GPL-2.0

//! Memory near a device: on the NUMA node of the device, if it has one and the node has memory
//! left.
//!
//! The constructors of the kernel crate's vectors and boxes take no node, but its allocators do.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use kernel::alloc::allocator::Kmalloc;
use kernel::alloc::{AllocError, Allocator, Flags, NumaNode, Vec};
use kernel::prelude::*;
use pin_init::Zeroable;

use super::device::Device;

/// Returns the NUMA node of a device, or `NO_NODE` if the device reports none.
pub(super) fn node(device: &Device<'_>) -> NumaNode {
    NumaNode::new(device.node()).unwrap_or(NumaNode::NO_NODE)
}

/// Allocates memory for `n` values, none of which is initialised. May sleep if `gfp` allows it.
///
/// # Errors
///
/// [`AllocError`]: there is no memory, or the size of `n` values overflows.
fn array<T, A: Allocator>(n: usize, gfp: Flags, node: NumaNode) -> Result<NonNull<T>, AllocError> {
    const { assert!(size_of::<T>() != 0) };
    let layout = Layout::array::<T>(n).map_err(|_| AllocError)?;
    Ok(A::alloc(layout, gfp, node)?.cast())
}

/// Makes an empty vector with capacity for `n` values on `node`. May sleep if `gfp` allows it.
///
/// # Errors
///
/// [`AllocError`]: there is no memory, the size of `n` values overflows, or `n` is 0.
pub(super) fn with_capacity<T, A: Allocator>(
    n: usize,
    gfp: Flags,
    node: NumaNode,
) -> Result<Vec<T, A>, AllocError> {
    if n == 0 {
        return Err(AllocError);
    }
    let memory = array::<T, A>(n, gfp, node)?;
    // SAFETY: `array` has allocated the memory with `A` for `n` values, and `Layout::array` has
    // checked that they are at most `isize::MAX` bytes. The length is 0, so no value has to be
    // initialised.
    Ok(unsafe { Vec::from_raw_parts(memory.as_ptr(), 0, n) })
}

/// Makes a vector of `n` zeroed values on `node`. May sleep if `gfp` allows it.
///
/// # Errors
///
/// [`AllocError`]: there is no memory, the size of `n` values overflows, or `n` is 0.
pub(super) fn zeroed<T: Zeroable, A: Allocator>(
    n: usize,
    gfp: Flags,
    node: NumaNode,
) -> Result<Vec<T, A>, AllocError> {
    if n == 0 {
        return Err(AllocError);
    }
    let memory = array::<T, A>(n, gfp | __GFP_ZERO, node)?;
    // SAFETY: `array` has allocated the memory with `A` for `n` values, and `Layout::array` has
    // checked that they are at most `isize::MAX` bytes. All `n` values are initialised: the memory
    // is zeroed, and zeroes are a valid value of a `Zeroable` type.
    Ok(unsafe { Vec::from_raw_parts(memory.as_ptr(), n, n) })
}

/// Allocates a box on `node` whose value the caller writes. May sleep if `gfp` allows it.
///
/// # Errors
///
/// [`AllocError`]: there is no memory.
pub(super) fn boxed<T>(gfp: Flags, node: NumaNode) -> Result<KBox<MaybeUninit<T>>, AllocError> {
    let memory = array::<MaybeUninit<T>, Kmalloc>(1, gfp, node)?;
    // SAFETY: `array` has allocated the memory for one value with `Kmalloc`, the allocator of
    // `KBox`. A `MaybeUninit` may be uninitialised.
    Ok(unsafe { KBox::from_raw(memory.as_ptr()) })
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_rdma_numa)]
mod tests {
    use super::*;
    use kernel::alloc::allocator::KVmalloc;

    #[test]
    fn zeroed_vector_is_full_of_zeroes() -> Result {
        let bytes: KVec<u8> = zeroed(4096, GFP_KERNEL, NumaNode::NO_NODE)?;
        assert_eq!(bytes.len(), 4096);
        assert!(bytes.iter().all(|byte| *byte == 0));
        Ok(())
    }

    #[test]
    fn capacity_is_what_was_asked_for() -> Result {
        let mut room = with_capacity::<u64, KVmalloc>(3, GFP_KERNEL, NumaNode::NO_NODE)?;
        for n in 0..3 {
            room.push_within_capacity(n).map_err(|_| ENOSPC)?;
        }
        assert!(room.push_within_capacity(3).is_err());
        assert_eq!(&room[..], [0, 1, 2]);
        Ok(())
    }

    #[test]
    fn impossible_sizes_are_errors() {
        let none = NumaNode::NO_NODE;
        assert!(with_capacity::<u64, Kmalloc>(0, GFP_KERNEL, none).is_err());
        assert!(zeroed::<u64, Kmalloc>(0, GFP_KERNEL, none).is_err());
        assert!(with_capacity::<u64, Kmalloc>(usize::MAX, GFP_KERNEL, none).is_err());
    }
}
