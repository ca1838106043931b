// SPDX-License-Identifier: GPL-2.0

//! Allocation on the NUMA node of a device, and reuse of the memory of dropped objects.
//!
//! A connection has some hundred buffers, memory regions and queues. A transport that reconnects
//! needs the same again when memory may be short, because writeback waits for the connection. The
//! owner of the transport therefore has a [`MemCache`]. A dropped object leaves its memory there,
//! and a later object of the same layout is made in that memory.
//!
//! The cache holds nothing but memory. The DMA mapping and the verbs object of a value end in its
//! destructor, which runs before the cache gets the memory.
//!
//! The constructors of `kernel::alloc`'s vectors and boxes take no node in Linux 7.3, but its
//! allocators do.

use core::alloc::Layout;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use kernel::alloc::allocator::{KVmalloc, Kmalloc};
use kernel::alloc::{AllocError, Allocator, Flags, NumaNode, Vec};
use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};
use pin_init::Zeroable;

/// The maximum number of layouts in a cache. The objects of a connection have eleven.
const LAYOUTS: usize = 16;

/// An allocator whose memory a cache may have.
pub(crate) trait CacheAllocator: Allocator {
    /// Whether the memory is physically contiguous.
    const CONTIGUOUS: bool;
}

impl CacheAllocator for Kmalloc {
    const CONTIGUOUS: bool = true;
}

impl CacheAllocator for KVmalloc {
    const CONTIGUOUS: bool = false;
}

/// Allocates memory from a cache, or, if the cache has none, on a node if possible.
#[derive(Clone, Copy)]
pub(crate) struct NumaAlloc<'a> {
    node: NumaNode,
    cache: Option<&'a Arc<MemCache>>,
}

impl<'a> NumaAlloc<'a> {
    /// Allocates memory on any node, without a cache.
    #[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
    pub(crate) const ANYWHERE: Self = Self::new(NumaNode::NO_NODE, None);

    /// Allocates the memory of `cache` first, and then memory on `node`. All of it returns to
    /// `cache`.
    pub(crate) const fn new(node: NumaNode, cache: Option<&'a Arc<MemCache>>) -> Self {
        Self { node, cache }
    }

    /// Allocates memory for `n` values, none of which is initialised. May sleep if `gfp` permits.
    ///
    /// # Errors
    ///
    /// [`AllocError`]: there is no memory, the size of `n` values overflows, or `n` is 0.
    fn array<T, A: CacheAllocator>(&self, n: usize, gfp: Flags) -> Result<NonNull<T>, AllocError> {
        const { assert!(size_of::<T>() != 0) };
        let layout = Layout::array::<T>(n).map_err(|_| AllocError)?;
        if n == 0 {
            return Err(AllocError);
        }
        if let Some(kept) = self.cache.and_then(|cache| cache.take::<A>(layout)) {
            return Ok(kept.cast());
        }
        Ok(A::alloc(layout, gfp, self.node)?.cast())
    }

    /// Creates an empty vector with capacity for `n` values. May sleep if `gfp` permits.
    ///
    /// # Errors
    ///
    /// [`AllocError`]: there is no memory, the size of `n` values overflows, or `n` is 0.
    pub(crate) fn with_capacity<T, A: CacheAllocator>(
        &self,
        n: usize,
        gfp: Flags,
    ) -> Result<CachedVec<T, A>, AllocError> {
        let memory = self.array::<T, A>(n, gfp)?;
        // SAFETY: `A` allocated the memory for `n` values, and `Layout::array` checked that they
        // are at most `isize::MAX` bytes. The length is 0, so no value has to be initialised.
        let values = unsafe { Vec::from_raw_parts(memory.as_ptr(), 0, n) };
        Ok(CachedVec {
            values: ManuallyDrop::new(values),
            cache: self.cache.cloned(),
        })
    }

    /// Creates a vector of `n` zeroed values. May sleep if `gfp` permits.
    ///
    /// # Errors
    ///
    /// [`AllocError`]: there is no memory, the size of `n` values overflows, or `n` is 0.
    pub(crate) fn zeroed<T: Zeroable, A: CacheAllocator>(
        &self,
        n: usize,
        gfp: Flags,
    ) -> Result<CachedVec<T, A>, AllocError> {
        let mut vec = self.with_capacity::<T, A>(n, gfp)?;
        // SAFETY: The vector has room for `n` values. Zeroes are a valid value of a `Zeroable`
        // type, so all `n` values are initialised.
        unsafe {
            vec.as_mut_ptr().write_bytes(0, n);
            vec.inc_len(n);
        }
        Ok(vec)
    }

    /// Creates a box whose value the caller writes. The value refers to the same cache, if there is
    /// one. May sleep if `gfp` permits.
    ///
    /// # Errors
    ///
    /// [`AllocError`]: there is no memory.
    pub(crate) fn boxed<T: Cached>(&self, gfp: Flags) -> Result<KBox<MaybeUninit<T>>, AllocError> {
        let memory = self.array::<MaybeUninit<T>, Kmalloc>(1, gfp)?;
        // SAFETY: `Kmalloc`, the allocator of `KBox`, allocated the memory for one value. A
        // `MaybeUninit` may be uninitialised.
        Ok(unsafe { KBox::from_raw(memory.as_ptr()) })
    }
}

/// Memory of dropped objects, for objects of the same layouts.
#[pin_data]
pub(crate) struct MemCache {
    #[pin]
    lists: SpinLock<Lists>,
}

/// The memory of a cache, by its layout.
struct Lists {
    /// Whether the cache accepts memory.
    open: bool,
    /// The node on which the memory was allocated.
    node: NumaNode,
    lists: [FreeList; LAYOUTS],
}

/// Blocks of memory with the same layout.
///
/// # Invariants
///
/// - `head` is null, or a block that nothing else uses. It was allocated with `layout`, by
///   [`Kmalloc`] if `contiguous` is set and by [`KVmalloc`] otherwise. Its first bytes are a
///   pointer to the next block, of which the same is true.
/// - The size of `layout` is at least that of a pointer, unless `head` is null.
struct FreeList {
    layout: Layout,
    contiguous: bool,
    head: *mut u8,
}

// SAFETY: A list owns its memory, which any task may use and free.
unsafe impl Send for FreeList {}

impl MemCache {
    /// Creates an empty cache, which accepts no memory before [`Self::open`]. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                lists <- new_spinlock!(Lists::new(), "mem::MemCache::lists"),
            }),
            GFP_KERNEL,
        )
    }

    /// Lets the cache accept the memory of dropped objects. Frees memory that was allocated on
    /// another node than `node`.
    pub(crate) fn open(&self, node: NumaNode) {
        let mut lists = self.lists.lock();
        lists.open = true;
        let moved = core::mem::replace(&mut lists.node, node) != node;
        drop(lists);
        if moved {
            self.clear();
        }
    }

    /// Frees the memory in the cache.
    pub(crate) fn clear(&self) {
        // One list at a time, because a stack has no room for all of them.
        for index in 0..LAYOUTS {
            let _list = self.lists.lock().take(index);
        }
    }

    /// Frees the memory in the cache, which accepts no more before [`Self::open`] is called again.
    pub(crate) fn close(&self) {
        self.lists.lock().open = false;
        self.clear();
    }

    /// Removes and returns a block with this layout, which `A` allocated.
    fn take<A: CacheAllocator>(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.lists.lock().list::<A>(layout)?.pop()
    }

    /// Puts a block into the cache, or frees it if the cache does not accept it.
    ///
    /// # Safety
    ///
    /// `A` allocated `memory` with `layout`. Nothing uses it after this call.
    unsafe fn put<A: CacheAllocator>(&self, memory: NonNull<u8>, layout: Layout) {
        let mut lists = self.lists.lock();
        if lists.open && layout.size() >= size_of::<*mut u8>() {
            if let Some(list) = lists.list::<A>(layout) {
                // SAFETY: The caller promises that `A` allocated the memory with this layout, which
                // are those of the list, and that nothing uses it. It has room for a pointer.
                return unsafe { list.push(memory) };
            }
        }
        drop(lists);
        // SAFETY: The caller promises that `A` allocated the memory with this layout, and that
        // nothing uses it.
        unsafe { A::free(memory, layout) };
    }
}

impl Lists {
    /// Makes empty lists, in place because a stack has no room for them.
    fn new() -> impl Init<Self> {
        init!(Self {
            open: false,
            node: NumaNode::NO_NODE,
            lists <- pin_init::init_array_from_fn(|_| FreeList::EMPTY),
        })
    }

    /// Returns the list of this layout and allocator: the one with such blocks, or an empty one.
    /// `None` if there are too many layouts.
    fn list<A: CacheAllocator>(&mut self, layout: Layout) -> Option<&mut FreeList> {
        let fits = |s: &FreeList| s.layout == layout && s.contiguous == A::CONTIGUOUS;
        let found = self.lists.iter().position(fits);
        let index = found.or_else(|| self.lists.iter().position(|s| s.head.is_null()))?;
        let list = self.lists.get_mut(index)?;
        if list.head.is_null() {
            // INVARIANT: An empty list may have any layout.
            (list.layout, list.contiguous) = (layout, A::CONTIGUOUS);
        }
        Some(list)
    }

    /// Removes and returns the blocks of a list. Dropping the result frees them.
    fn take(&mut self, index: usize) -> Option<FreeList> {
        let list = self.lists.get_mut(index)?;
        Some(core::mem::replace(list, FreeList::EMPTY))
    }
}

impl FreeList {
    const EMPTY: Self = Self {
        layout: Layout::new::<()>(),
        contiguous: false,
        head: core::ptr::null_mut(),
    };

    /// Adds a block.
    ///
    /// # Safety
    ///
    /// `memory` was allocated with the layout, and by the allocator, of the list. It has room for a
    /// pointer, and nothing uses it after this call.
    unsafe fn push(&mut self, memory: NonNull<u8>) {
        let next: *mut *mut u8 = memory.as_ptr().cast();
        // SAFETY: The caller promises that nothing else uses the memory, and that it has room for a
        // pointer.
        unsafe { next.write_unaligned(self.head) };
        // INVARIANT: The caller promises the layout, the allocator and that nothing uses the block,
        // which begins with the pointer to the next.
        self.head = memory.as_ptr();
    }

    /// Removes a block, if there is one.
    fn pop(&mut self) -> Option<NonNull<u8>> {
        let memory = NonNull::new(self.head)?;
        // SAFETY: By the type invariant the block begins with a pointer.
        self.head = unsafe { memory.as_ptr().cast::<*mut u8>().read_unaligned() };
        Some(memory)
    }
}

impl Drop for FreeList {
    fn drop(&mut self) {
        while let Some(memory) = self.pop() {
            // SAFETY: By the type invariant this allocator allocated the block with this layout,
            // and nothing else uses it.
            unsafe {
                if self.contiguous {
                    Kmalloc::free(memory, self.layout);
                } else {
                    KVmalloc::free(memory, self.layout);
                }
            }
        }
    }
}

/// A value that refers to the cache from which its box comes.
pub(crate) trait Cached {
    /// Returns the cache, if there is one.
    fn cache(&self) -> Option<&Arc<MemCache>>;
}

/// A box whose memory goes to the cache of its value when the box is dropped.
pub(crate) struct CachedBox<T: Cached>(ManuallyDrop<KBox<T>>);

impl<T: Cached> From<KBox<T>> for CachedBox<T> {
    fn from(value: KBox<T>) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<T: Cached> Deref for CachedBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Cached> DerefMut for CachedBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Cached> Drop for CachedBox<T> {
    fn drop(&mut self) {
        // SAFETY: This is the destructor, so `self.0` is not used after this.
        let value = unsafe { ManuallyDrop::take(&mut self.0) };
        let Some(cache) = value.cache().cloned() else {
            return drop(value);
        };
        let memory = KBox::into_raw(KBox::drop_contents(value));
        // SAFETY: The pointer of a box is not null. `Kmalloc` allocated it for a value of this
        // type, which was dropped, and the box no longer owns it.
        unsafe { cache.put::<Kmalloc>(NonNull::new_unchecked(memory).cast(), Layout::new::<T>()) };
    }
}

/// A vector whose memory goes to a cache when the vector is dropped.
pub(crate) struct CachedVec<T, A: CacheAllocator> {
    values: ManuallyDrop<Vec<T, A>>,
    cache: Option<Arc<MemCache>>,
}

impl<T, A: CacheAllocator> Cached for CachedVec<T, A> {
    fn cache(&self) -> Option<&Arc<MemCache>> {
        self.cache.as_ref()
    }
}

impl<T, A: CacheAllocator> Deref for CachedVec<T, A> {
    type Target = Vec<T, A>;

    fn deref(&self) -> &Vec<T, A> {
        &self.values
    }
}

impl<T, A: CacheAllocator> DerefMut for CachedVec<T, A> {
    fn deref_mut(&mut self) -> &mut Vec<T, A> {
        &mut self.values
    }
}

impl<T, A: CacheAllocator> Drop for CachedVec<T, A> {
    fn drop(&mut self) {
        // SAFETY: This is the destructor, so `self.values` is not used after this.
        let mut values = unsafe { ManuallyDrop::take(&mut self.values) };
        let (Some(cache), Some(layout)) = (self.cache.take(), layout::<T>(values.capacity()))
        else {
            return;
        };
        values.clear();
        let (memory, _, _) = values.into_raw_parts();
        // SAFETY: The pointer of a vector is not null. `A` allocated it for as many values as the
        // capacity says, which is not zero. They were dropped, and the vector no longer owns it.
        unsafe { cache.put::<A>(NonNull::new_unchecked(memory).cast(), layout) };
    }
}

/// Returns the layout of the memory of a vector with this capacity; `None` if it has no memory.
fn layout<T>(capacity: usize) -> Option<Layout> {
    let layout = Layout::array::<T>(capacity).ok()?;
    (layout.size() != 0).then_some(layout)
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_mem_cache)]
mod tests {
    use super::*;

    /// A value of 128 bytes in a cache.
    struct Value {
        cache: Option<Arc<MemCache>>,
        bytes: [u8; 120],
    }

    impl Cached for Value {
        fn cache(&self) -> Option<&Arc<MemCache>> {
            self.cache.as_ref()
        }
    }

    fn near(cache: &Arc<MemCache>) -> NumaAlloc<'_> {
        NumaAlloc::new(NumaNode::NO_NODE, Some(cache))
    }

    fn open() -> Result<Arc<MemCache>> {
        let cache = MemCache::new()?;
        cache.open(NumaNode::NO_NODE);
        Ok(cache)
    }

    /// Returns the number of bytes in a cache.
    fn kept(cache: &MemCache) -> usize {
        let lists = cache.lists.lock();
        let sizes = lists
            .lists
            .iter()
            .map(|list| blocks(list) * list.layout.size());
        sizes.sum()
    }

    /// Returns the number of blocks in a list.
    fn blocks(list: &FreeList) -> usize {
        let (mut count, mut next) = (0, list.head);
        while !next.is_null() {
            // SAFETY: By the type invariant a block begins with a pointer to the next one.
            next = unsafe { next.cast::<*mut u8>().read_unaligned() };
            count += 1;
        }
        count
    }

    #[test]
    fn zeroed_vector_is_full_of_zeroes() -> Result {
        let bytes = NumaAlloc::ANYWHERE.zeroed::<u8, Kmalloc>(4096, GFP_KERNEL)?;
        assert_eq!(bytes.len(), 4096);
        assert!(bytes.iter().all(|byte| *byte == 0));
        Ok(())
    }

    #[test]
    fn capacity_is_what_was_asked_for() -> Result {
        let mut room = NumaAlloc::ANYWHERE.with_capacity::<u64, KVmalloc>(3, GFP_KERNEL)?;
        for n in 0..3 {
            room.push_within_capacity(n).map_err(|_| ENOSPC)?;
        }
        assert!(room.push_within_capacity(3).is_err());
        assert_eq!(&room[..], [0, 1, 2]);
        Ok(())
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(NumaAlloc::ANYWHERE
            .with_capacity::<u64, Kmalloc>(0, GFP_KERNEL)
            .is_err());
        assert!(NumaAlloc::ANYWHERE
            .zeroed::<u64, Kmalloc>(0, GFP_KERNEL)
            .is_err());
        assert!(NumaAlloc::ANYWHERE
            .with_capacity::<u64, Kmalloc>(usize::MAX, GFP_KERNEL)
            .is_err());
    }

    #[test]
    fn memory_of_a_vector_is_used_again_and_zeroed() -> Result {
        let cache = open()?;
        let mut bytes = near(&cache).zeroed::<u8, Kmalloc>(4096, GFP_KERNEL)?;
        bytes.iter_mut().for_each(|byte| *byte = 7);
        let first = bytes.as_ptr();
        drop(bytes);
        assert_eq!(kept(&cache), 4096);
        // Another length, and another allocator.
        let longer = near(&cache).zeroed::<u8, Kmalloc>(8192, GFP_KERNEL)?;
        let virt = near(&cache).zeroed::<u8, KVmalloc>(4096, GFP_KERNEL)?;
        assert!(virt.as_ptr() != first && longer.len() == 8192);
        assert_eq!(kept(&cache), 4096);
        let again = near(&cache).zeroed::<u8, Kmalloc>(4096, GFP_KERNEL)?;
        assert!(again.as_ptr() == first && again.iter().all(|byte| *byte == 0));
        assert_eq!(kept(&cache), 0);
        Ok(())
    }

    #[test]
    fn memory_of_a_box_is_used_again() -> Result {
        let cache = open()?;
        let make = || -> Result<CachedBox<Value>> {
            let value = Value {
                cache: Some(cache.clone()),
                bytes: [1; 120],
            };
            Ok(near(&cache).boxed(GFP_KERNEL)?.write(value).into())
        };
        let (first, second) = (make()?, make()?);
        assert!(first.bytes[7] == 1 && second.bytes[7] == 1);
        drop(first);
        drop(second);
        assert_eq!(kept(&cache), 2 * size_of::<Value>());
        let third = make()?;
        assert_eq!(kept(&cache), size_of::<Value>());
        drop(third);
        Ok(())
    }

    #[test]
    fn values_of_a_vector_are_dropped() -> Result {
        let (cache, counted) = (open()?, Arc::new(5, GFP_KERNEL)?);
        let mut values = near(&cache).with_capacity::<Arc<u32>, KVmalloc>(4, GFP_KERNEL)?;
        values
            .push_within_capacity(counted.clone())
            .map_err(|_| ENOSPC)?;
        drop(values);
        assert_eq!(kept(&cache), 4 * size_of::<Arc<u32>>());
        assert!(Arc::into_unique_or_drop(counted).is_some());
        Ok(())
    }

    #[test]
    fn closed_or_cleared_cache_has_nothing() -> Result {
        let cache = open()?;
        let (one, two) = (
            near(&cache).zeroed::<u8, Kmalloc>(64, GFP_KERNEL)?,
            near(&cache).zeroed::<u8, Kmalloc>(64, GFP_KERNEL)?,
        );
        drop(one);
        assert_eq!(kept(&cache), 64);
        cache.close();
        drop(two);
        assert_eq!(kept(&cache), 0);
        cache.open(NumaNode::NO_NODE);
        drop(near(&cache).zeroed::<u8, Kmalloc>(64, GFP_KERNEL)?);
        cache.clear();
        assert_eq!(kept(&cache), 0);
        drop(near(&cache).zeroed::<u8, Kmalloc>(64, GFP_KERNEL)?);
        assert_eq!(kept(&cache), 64);
        Ok(())
    }

    #[test]
    fn memory_of_too_many_layouts_is_freed() -> Result {
        let cache = open()?;
        for n in 1..40 {
            drop(near(&cache).zeroed::<u64, Kmalloc>(n, GFP_KERNEL)?);
        }
        // The first sixteen.
        assert_eq!(kept(&cache), 8 * (1..=16).sum::<usize>());
        Ok(())
    }

    #[test]
    fn memory_for_another_node_is_freed() -> Result {
        let cache = open()?;
        drop(near(&cache).zeroed::<u8, Kmalloc>(64, GFP_KERNEL)?);
        cache.open(NumaNode::NO_NODE);
        assert_eq!(kept(&cache), 64);
        cache.open(NumaNode::new(0)?);
        assert_eq!(kept(&cache), 0);
        Ok(())
    }
}
