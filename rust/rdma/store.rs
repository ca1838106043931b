// SPDX-License-Identifier: GPL-2.0

//! Memory that outlives the objects that were made in it.
//!
//! A connection has some hundred buffers, memory regions and queues, and a transport that
//! reconnects needs the same again, at a time when memory may be short: writeback waits for the
//! connection. The owner of the transport therefore keeps a [`Store`] for the protection domains
//! of its connections. An object that is dropped leaves its memory there, and an object of the same
//! type and length is made in it later.
//!
//! Only memory is kept. What an object has made of it for the device, its DMA mapping or its
//! verbs object, ends in the destructor of the object, which has run before the store gets the
//! memory.

use core::alloc::Layout;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use kernel::alloc::allocator::{KVmalloc, Kmalloc};
use kernel::alloc::{Allocator, NumaNode, Vec};
use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

/// The most layouts of which memory is kept. The objects of a connection have eleven.
const LAYOUTS: usize = 16;

/// An allocator whose memory a store keeps.
pub(crate) trait Source: Allocator {
    /// Whether the memory is physically contiguous.
    const CONTIGUOUS: bool;
}

impl Source for Kmalloc {
    const CONTIGUOUS: bool = true;
}

impl Source for KVmalloc {
    const CONTIGUOUS: bool = false;
}

/// Memory that is kept for the next connection of a transport.
#[pin_data]
pub(crate) struct Store {
    #[pin]
    lists: SpinLock<Lists>,
}

/// The memory in a store, by its layout.
struct Lists {
    /// Whether memory is kept.
    open: bool,
    /// The node on which the memory was allocated.
    node: NumaNode,
    lists: [FreeList; LAYOUTS],
}

/// Pieces of memory with the same layout.
///
/// # Invariants
///
/// - `head` is null, or a piece of memory that nothing else uses. It was allocated with `layout`,
///   by [`Kmalloc`] if `contiguous` is set and by [`KVmalloc`] otherwise. Its first bytes are a
///   pointer to the next piece, of which the same is true.
/// - The size of `layout` is at least that of a pointer, unless `head` is null.
#[derive(Clone, Copy)]
struct FreeList {
    layout: Layout,
    contiguous: bool,
    head: *mut u8,
}

// SAFETY: A list owns its memory, which any task may use and free.
unsafe impl Send for FreeList {}

impl Store {
    /// Makes an empty store. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let lists = Lists {
            open: false,
            node: NumaNode::NO_NODE,
            lists: [FreeList::EMPTY; LAYOUTS],
        };
        Arc::pin_init(
            pin_init!(Self {
                lists <- new_spinlock!(lists, "rdma::Store::lists"),
            }),
            GFP_KERNEL,
        )
    }

    /// Begins to keep the memory of objects that are dropped, for a device on `node`. Memory that
    /// was allocated for another node is freed.
    pub(super) fn open(&self, node: NumaNode) {
        let mut lists = self.lists.lock();
        lists.open = true;
        if lists.node != node {
            lists.node = node;
            let kept = lists.take_all();
            drop(lists);
            free_all(kept);
        }
    }

    /// Frees the memory that is in the store.
    pub(crate) fn clear(&self) {
        let kept = self.lists.lock().take_all();
        free_all(kept);
    }

    /// Frees the memory that is in the store, and keeps none until the next protection domain is
    /// made.
    pub(crate) fn close(&self) {
        let kept = {
            let mut lists = self.lists.lock();
            lists.open = false;
            lists.take_all()
        };
        free_all(kept);
    }

    /// Returns the number of bytes that are in the store.
    #[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
    pub(crate) fn bytes(&self) -> usize {
        let lists = self.lists.lock();
        lists.lists.iter().map(FreeList::bytes).sum()
    }

    /// Takes memory of this layout out of the store, if there is some. It was allocated by `A`.
    pub(super) fn take<A: Source>(&self, layout: Layout) -> Option<NonNull<u8>> {
        let mut lists = self.lists.lock();
        lists.find(layout, A::CONTIGUOUS)?.pop()
    }

    /// Puts memory into the store, or frees it if the store keeps none.
    ///
    /// # Safety
    ///
    /// `memory` was allocated by `A` with `layout`. Nothing uses it any more.
    unsafe fn put<A: Source>(&self, memory: NonNull<u8>, layout: Layout) {
        let mut lists = self.lists.lock();
        if lists.open && layout.size() >= size_of::<*mut u8>() {
            if let Some(list) = lists.list(layout, A::CONTIGUOUS) {
                // SAFETY: The caller promises that the memory has this layout, which is that of the
                // list, as is the allocator. It has room for a pointer.
                return unsafe { list.push(memory) };
            }
        }
        drop(lists);
        // SAFETY: The caller promises that `A` has allocated the memory with this layout, and that
        // nothing uses it.
        unsafe { A::free(memory, layout) };
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        free_all(self.take_all());
    }
}

impl Lists {
    /// Returns the list for memory of this layout, if there is one with such memory.
    fn find(&mut self, layout: Layout, contiguous: bool) -> Option<&mut FreeList> {
        let mut lists = self.lists.iter_mut();
        lists.find(|s| s.layout == layout && s.contiguous == contiguous && !s.head.is_null())
    }

    /// Returns the list for memory of this layout: the one with such memory, or an empty one.
    /// `None` if there are too many layouts.
    fn list(&mut self, layout: Layout, contiguous: bool) -> Option<&mut FreeList> {
        let fits = |s: &FreeList| s.layout == layout && s.contiguous == contiguous;
        let found = self.lists.iter().position(fits);
        let index = found.or_else(|| self.lists.iter().position(|s| s.head.is_null()))?;
        let list = self.lists.get_mut(index)?;
        if list.head.is_null() {
            // INVARIANT: An empty list may have any layout.
            (list.layout, list.contiguous) = (layout, contiguous);
        }
        Some(list)
    }

    /// Takes all memory out.
    fn take_all(&mut self) -> [FreeList; LAYOUTS] {
        core::mem::replace(&mut self.lists, [FreeList::EMPTY; LAYOUTS])
    }
}

impl FreeList {
    const EMPTY: Self = Self {
        layout: Layout::new::<()>(),
        contiguous: false,
        head: core::ptr::null_mut(),
    };

    /// Adds memory.
    ///
    /// # Safety
    ///
    /// `memory` was allocated with the layout, and by the allocator, of the list. It has room for
    /// a pointer, and nothing uses it any more.
    unsafe fn push(&mut self, memory: NonNull<u8>) {
        let next: *mut *mut u8 = memory.as_ptr().cast();
        // SAFETY: The caller promises that nothing else uses the memory, and that it has room for a
        // pointer.
        unsafe { next.write_unaligned(self.head) };
        // INVARIANT: The caller promises it, and the memory begins with the pointer to the next.
        self.head = memory.as_ptr();
    }

    /// Takes memory, if there is some.
    fn pop(&mut self) -> Option<NonNull<u8>> {
        let memory = NonNull::new(self.head)?;
        // SAFETY: By the type invariant the memory begins with a pointer.
        self.head = unsafe { memory.as_ptr().cast::<*mut u8>().read_unaligned() };
        Some(memory)
    }

    /// Returns the number of bytes.
    #[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
    fn bytes(&self) -> usize {
        let (mut copy, mut count) = (*self, 0);
        while copy.pop().is_some() {
            count += 1;
        }
        count * self.layout.size()
    }
}

/// Frees memory that was taken out of a store.
fn free_all(kept: [FreeList; LAYOUTS]) {
    for mut list in kept {
        while let Some(memory) = list.pop() {
            // SAFETY: By the type invariant this allocator has allocated the memory with this
            // layout, and nothing else uses it.
            unsafe {
                match list.contiguous {
                    true => Kmalloc::free(memory, list.layout),
                    false => KVmalloc::free(memory, list.layout),
                }
            }
        }
    }
}

/// An object that refers to the store from which its box comes.
pub(super) trait Stored {
    /// Returns the store, if there is one.
    fn store(&self) -> Option<&Arc<Store>>;
}

/// A box whose memory goes to a store when the value is dropped.
pub(super) struct StoredBox<T: Stored>(ManuallyDrop<KBox<T>>);

impl<T: Stored> From<KBox<T>> for StoredBox<T> {
    fn from(value: KBox<T>) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<T: Stored> Deref for StoredBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Stored> DerefMut for StoredBox<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Stored> Drop for StoredBox<T> {
    fn drop(&mut self) {
        // SAFETY: This is the destructor, so `self.0` is not used after this.
        let value = unsafe { ManuallyDrop::take(&mut self.0) };
        let Some(store) = value.store().cloned() else {
            return drop(value);
        };
        let room = KBox::into_raw(KBox::drop_contents(value));
        // SAFETY: The pointer of a box is not null. `Kmalloc` has allocated it for a value of this
        // type, which was dropped, and the box was given up.
        unsafe { store.put::<Kmalloc>(NonNull::new_unchecked(room).cast(), Layout::new::<T>()) };
    }
}

/// A vector whose memory goes to a store when the vector is dropped.
pub(crate) struct StoredVec<T, A: Source> {
    values: ManuallyDrop<Vec<T, A>>,
    store: Option<Arc<Store>>,
}

impl<T, A: Source> StoredVec<T, A> {
    /// Makes a vector whose memory goes to `store`, if there is one.
    pub(super) fn new(values: Vec<T, A>, store: Option<&Arc<Store>>) -> Self {
        Self {
            values: ManuallyDrop::new(values),
            store: store.cloned(),
        }
    }
}

impl<T, A: Source> Stored for StoredVec<T, A> {
    fn store(&self) -> Option<&Arc<Store>> {
        self.store.as_ref()
    }
}

impl<T, A: Source> Deref for StoredVec<T, A> {
    type Target = Vec<T, A>;

    #[inline]
    fn deref(&self) -> &Vec<T, A> {
        &self.values
    }
}

impl<T, A: Source> DerefMut for StoredVec<T, A> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<T, A> {
        &mut self.values
    }
}

impl<T, A: Source> Drop for StoredVec<T, A> {
    fn drop(&mut self) {
        // SAFETY: This is the destructor, so `self.values` is not used after this.
        let mut values = unsafe { ManuallyDrop::take(&mut self.values) };
        let (Some(store), Some(layout)) = (self.store.take(), layout::<T>(values.capacity()))
        else {
            return;
        };
        values.clear();
        let (memory, _, _) = values.into_raw_parts();
        // SAFETY: The pointer of a vector is not null. `A` has allocated it for as many values as
        // the capacity says, which is not zero. They were dropped, and the vector was given up.
        unsafe { store.put::<A>(NonNull::new_unchecked(memory).cast(), layout) };
    }
}

/// Returns the layout of the memory of a vector with this capacity; `None` if it has no memory.
fn layout<T>(capacity: usize) -> Option<Layout> {
    let layout = Layout::array::<T>(capacity).ok()?;
    (layout.size() != 0).then_some(layout)
}
