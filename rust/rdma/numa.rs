// SPDX-License-Identifier: GPL-2.0

//! Memory near a device: on the NUMA node of the device, if it has one and the node has memory
//! left. Memory that an earlier object has left in a [`Store`] is used first.
//!
//! The constructors of the kernel crate's vectors and boxes take no node, but its allocators do.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use kernel::alloc::allocator::Kmalloc;
use kernel::alloc::{AllocError, Flags, NumaNode, Vec};
use kernel::prelude::*;
use kernel::sync::Arc;
use pin_init::Zeroable;

use super::device::Device;
use super::store::{Source, Store, Stored, StoredVec};

/// Where the memory of an object comes from: from a store, if it has some, or else from the NUMA
/// node of a device.
#[derive(Clone, Copy)]
pub(crate) struct Near<'a> {
    node: NumaNode,
    store: Option<&'a Arc<Store>>,
}

impl<'a> Near<'a> {
    /// Memory on any node, and not from a store.
    #[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
    pub(super) const ANYWHERE: Self = Self {
        node: NumaNode::NO_NODE,
        store: None,
    };

    /// Returns memory near a device, and first that of `store`, to which it goes back.
    pub(super) fn new(device: &Device, store: Option<&'a Arc<Store>>) -> Self {
        Self {
            node: node(device),
            store,
        }
    }

    /// Takes memory for `n` values, none of which is initialised. May sleep if `gfp` allows it.
    ///
    /// # Errors
    ///
    /// [`AllocError`]: there is no memory, the size of `n` values overflows, or `n` is 0.
    fn array<T, A: Source>(&self, n: usize, gfp: Flags) -> Result<NonNull<T>, AllocError> {
        const { assert!(size_of::<T>() != 0) };
        let layout = Layout::array::<T>(n).map_err(|_| AllocError)?;
        if n == 0 {
            return Err(AllocError);
        }
        if let Some(kept) = self.store.and_then(|store| store.take::<A>(layout)) {
            return Ok(kept.cast());
        }
        Ok(A::alloc(layout, gfp, self.node)?.cast())
    }

    /// Makes an empty vector with capacity for `n` values. May sleep if `gfp` allows it.
    ///
    /// # Errors
    ///
    /// [`AllocError`]: there is no memory, the size of `n` values overflows, or `n` is 0.
    pub(crate) fn with_capacity<T, A: Source>(
        &self,
        n: usize,
        gfp: Flags,
    ) -> Result<StoredVec<T, A>, AllocError> {
        let memory = self.array::<T, A>(n, gfp)?;
        // SAFETY: `array` has taken memory that `A` has allocated for `n` values, and
        // `Layout::array` has checked that they are at most `isize::MAX` bytes. The length is 0, so
        // no value has to be initialised.
        let values = unsafe { Vec::from_raw_parts(memory.as_ptr(), 0, n) };
        Ok(StoredVec::new(values, self.store))
    }

    /// Makes a vector of `n` zeroed values. May sleep if `gfp` allows it.
    ///
    /// # Errors
    ///
    /// [`AllocError`]: there is no memory, the size of `n` values overflows, or `n` is 0.
    pub(super) fn zeroed<T: Zeroable, A: Source>(
        &self,
        n: usize,
        gfp: Flags,
    ) -> Result<StoredVec<T, A>, AllocError> {
        let memory = self.array::<T, A>(n, gfp)?;
        // SAFETY: The memory is for `n` values, and nothing else uses it.
        unsafe { memory.as_ptr().write_bytes(0, n) };
        // SAFETY: `array` has taken memory that `A` has allocated for `n` values, and
        // `Layout::array` has checked that they are at most `isize::MAX` bytes. All `n` values are
        // initialised: the memory was zeroed, and zeroes are a valid value of a `Zeroable` type.
        let values = unsafe { Vec::from_raw_parts(memory.as_ptr(), n, n) };
        Ok(StoredVec::new(values, self.store))
    }

    /// Makes a box whose value the caller writes. The value refers to the same store, if there is
    /// one. May sleep if `gfp` allows it.
    ///
    /// # Errors
    ///
    /// [`AllocError`]: there is no memory.
    pub(super) fn boxed<T: Stored>(&self, gfp: Flags) -> Result<KBox<MaybeUninit<T>>, AllocError> {
        let memory = self.array::<MaybeUninit<T>, Kmalloc>(1, gfp)?;
        // SAFETY: `array` has taken memory for one value that `Kmalloc` has allocated, the
        // allocator of `KBox`. A `MaybeUninit` may be uninitialised.
        Ok(unsafe { KBox::from_raw(memory.as_ptr()) })
    }
}

/// Returns the NUMA node of a device, or `NO_NODE` if the device reports none.
pub(super) fn node(device: &Device) -> NumaNode {
    NumaNode::new(device.node()).unwrap_or(NumaNode::NO_NODE)
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_rdma_numa)]
mod tests {
    use super::super::store::StoredBox;
    use super::*;
    use kernel::alloc::allocator::KVmalloc;

    /// A value of 128 bytes in a store.
    struct Value {
        store: Option<Arc<Store>>,
        bytes: [u8; 120],
    }

    impl Stored for Value {
        fn store(&self) -> Option<&Arc<Store>> {
            self.store.as_ref()
        }
    }

    fn near(store: &Arc<Store>) -> Near<'_> {
        Near {
            node: NumaNode::NO_NODE,
            store: Some(store),
        }
    }

    fn open() -> Result<Arc<Store>> {
        let store = Store::new()?;
        store.open(NumaNode::NO_NODE);
        Ok(store)
    }

    #[test]
    fn zeroed_vector_is_full_of_zeroes() -> Result {
        let bytes = Near::ANYWHERE.zeroed::<u8, Kmalloc>(4096, GFP_KERNEL)?;
        assert_eq!(bytes.len(), 4096);
        assert!(bytes.iter().all(|byte| *byte == 0));
        Ok(())
    }

    #[test]
    fn capacity_is_what_was_asked_for() -> Result {
        let mut room = Near::ANYWHERE.with_capacity::<u64, KVmalloc>(3, GFP_KERNEL)?;
        for n in 0..3 {
            room.push_within_capacity(n).map_err(|_| ENOSPC)?;
        }
        assert!(room.push_within_capacity(3).is_err());
        assert_eq!(&room[..], [0, 1, 2]);
        Ok(())
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(Near::ANYWHERE
            .with_capacity::<u64, Kmalloc>(0, GFP_KERNEL)
            .is_err());
        assert!(Near::ANYWHERE
            .zeroed::<u64, Kmalloc>(0, GFP_KERNEL)
            .is_err());
        assert!(Near::ANYWHERE
            .with_capacity::<u64, Kmalloc>(usize::MAX, GFP_KERNEL)
            .is_err());
    }

    #[test]
    fn memory_of_a_vector_is_used_again_and_zeroed() -> Result {
        let store = open()?;
        let mut bytes = near(&store).zeroed::<u8, Kmalloc>(4096, GFP_KERNEL)?;
        bytes.iter_mut().for_each(|byte| *byte = 7);
        let first = bytes.as_ptr();
        drop(bytes);
        assert_eq!(store.bytes(), 4096);
        // Another length, and another allocator.
        let longer = near(&store).zeroed::<u8, Kmalloc>(8192, GFP_KERNEL)?;
        let virt = near(&store).zeroed::<u8, KVmalloc>(4096, GFP_KERNEL)?;
        assert!(virt.as_ptr() != first && longer.len() == 8192);
        assert_eq!(store.bytes(), 4096);
        let again = near(&store).zeroed::<u8, Kmalloc>(4096, GFP_KERNEL)?;
        assert!(again.as_ptr() == first && again.iter().all(|byte| *byte == 0));
        assert_eq!(store.bytes(), 0);
        Ok(())
    }

    #[test]
    fn memory_of_a_box_is_used_again() -> Result {
        let store = open()?;
        let make = || -> Result<StoredBox<Value>> {
            let value = Value {
                store: Some(store.clone()),
                bytes: [1; 120],
            };
            Ok(near(&store).boxed(GFP_KERNEL)?.write(value).into())
        };
        let (first, second) = (make()?, make()?);
        assert!(first.bytes[7] == 1 && second.bytes[7] == 1);
        drop(first);
        drop(second);
        assert_eq!(store.bytes(), 2 * size_of::<Value>());
        let third = make()?;
        assert_eq!(store.bytes(), size_of::<Value>());
        drop(third);
        Ok(())
    }

    #[test]
    fn values_of_a_vector_are_dropped() -> Result {
        let (store, counted) = (open()?, Arc::new(5, GFP_KERNEL)?);
        let mut values = near(&store).with_capacity::<Arc<u32>, KVmalloc>(4, GFP_KERNEL)?;
        values
            .push_within_capacity(counted.clone())
            .map_err(|_| ENOSPC)?;
        drop(values);
        assert_eq!(store.bytes(), 4 * size_of::<Arc<u32>>());
        assert!(Arc::into_unique_or_drop(counted).is_some());
        Ok(())
    }

    #[test]
    fn closed_or_cleared_store_has_nothing() -> Result {
        let store = open()?;
        let (one, two) = (
            near(&store).zeroed::<u8, Kmalloc>(64, GFP_KERNEL)?,
            near(&store).zeroed::<u8, Kmalloc>(64, GFP_KERNEL)?,
        );
        drop(one);
        assert_eq!(store.bytes(), 64);
        store.close();
        drop(two);
        assert_eq!(store.bytes(), 0);
        store.open(NumaNode::NO_NODE);
        drop(near(&store).zeroed::<u8, Kmalloc>(64, GFP_KERNEL)?);
        store.clear();
        assert_eq!(store.bytes(), 0);
        drop(near(&store).zeroed::<u8, Kmalloc>(64, GFP_KERNEL)?);
        assert_eq!(store.bytes(), 64);
        Ok(())
    }

    #[test]
    fn memory_of_too_many_layouts_is_freed() -> Result {
        let store = open()?;
        for n in 1..40 {
            drop(near(&store).zeroed::<u64, Kmalloc>(n, GFP_KERNEL)?);
        }
        // The first sixteen.
        assert_eq!(store.bytes(), 8 * (1..=16).sum::<usize>());
        Ok(())
    }

    #[test]
    fn memory_for_another_node_is_freed() -> Result {
        let store = open()?;
        drop(near(&store).zeroed::<u8, Kmalloc>(64, GFP_KERNEL)?);
        store.open(NumaNode::NO_NODE);
        assert_eq!(store.bytes(), 64);
        store.open(NumaNode::new(0)?);
        assert_eq!(store.bytes(), 0);
        Ok(())
    }
}
