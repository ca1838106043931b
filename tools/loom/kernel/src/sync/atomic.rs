// SPDX-License-Identifier: GPL-2.0

//! `kernel::sync::atomic`.

use std::cell::Cell;

use loom::sync::atomic::{fence, AtomicU64, Ordering as Loom};

use crate::order;

/// No order.
pub struct Relaxed;
/// Later accesses of this thread stay behind the load.
pub struct Acquire;
/// Earlier accesses of this thread stay before the store.
pub struct Release;
/// A full barrier before and after the operation.
pub struct Full;

/// An order of an operation.
pub trait Ordering {
    /// The order of the operation without barriers.
    const ORDER: Loom;
    /// Whether there are barriers around the operation.
    const FULL: bool = false;
    /// Whether there is any order.
    const ANY: bool = true;
}

impl Ordering for Relaxed {
    const ORDER: Loom = Loom::Relaxed;
    const ANY: bool = false;
}

impl Ordering for Acquire {
    const ORDER: Loom = Loom::Acquire;
}

impl Ordering for Release {
    const ORDER: Loom = Loom::Release;
}

impl Ordering for Full {
    const ORDER: Loom = Loom::AcqRel;
    const FULL: bool = true;
}

/// The orders of a load.
pub trait AcquireOrRelaxed: Ordering {}
impl AcquireOrRelaxed for Acquire {}
impl AcquireOrRelaxed for Relaxed {}

/// The orders of a store.
pub trait ReleaseOrRelaxed: Ordering {}
impl ReleaseOrRelaxed for Release {}
impl ReleaseOrRelaxed for Relaxed {}

/// Returns the order of an operation at the caller's place, and whether there are barriers.
#[track_caller]
fn order<O: Ordering>() -> (Loom, bool) {
    if O::ANY && order::holds() {
        (O::ORDER, O::FULL)
    } else {
        (Loom::Relaxed, false)
    }
}

/// A value that fits a word.
pub trait AtomicType: Copy {
    /// Returns the word.
    fn word(self) -> u64;
    /// Returns the value of a word.
    fn of(word: u64) -> Self;
}

macro_rules! impl_atomic_type {
    ($($int:ty),*) => {
        $(impl AtomicType for $int {
            fn word(self) -> u64 {
                self as u64
            }

            fn of(word: u64) -> Self {
                word as $int
            }
        })*
    };
}

impl_atomic_type!(i32, u32, u64, usize);

impl AtomicType for bool {
    fn word(self) -> u64 {
        self.into()
    }

    fn of(word: u64) -> Self {
        word != 0
    }
}

impl<T> AtomicType for *mut T {
    fn word(self) -> u64 {
        self.expose_provenance() as u64
    }

    fn of(word: u64) -> Self {
        std::ptr::with_exposed_provenance_mut(word as usize)
    }
}

impl<T> AtomicType for *const T {
    fn word(self) -> u64 {
        self.cast_mut().word()
    }

    fn of(word: u64) -> Self {
        <*mut T>::of(word)
    }
}

/// An atomic value.
///
/// `new` is a `const` function in the kernel, and not in loom. So loom learns of the value at its
/// first access, which has to precede all others: a model makes the access before it starts
/// threads, or loom reports the access of the second thread.
pub struct Atomic<T> {
    first: T,
    /// The value, and the number of the execution that it belongs to. A static value begins again
    /// with each execution.
    value: Cell<Option<(u64, &'static AtomicU64)>>,
}

// SAFETY: loom runs one thread of a model at a time.
unsafe impl<T> Send for Atomic<T> {}
// SAFETY: loom runs one thread of a model at a time.
unsafe impl<T> Sync for Atomic<T> {}

/// An atomic flag.
pub type AtomicFlag = Atomic<bool>;

impl<T> Atomic<T> {
    /// Makes a value.
    pub const fn new(first: T) -> Self {
        let value = Cell::new(None);
        Self { first, value }
    }

    /// Returns the value that is a field of a C structure.
    ///
    /// # Safety
    ///
    /// The value exists during `'a`.
    pub unsafe fn from_ptr<'a>(ptr: *mut Self) -> &'a Self {
        // SAFETY: By the safety requirements.
        unsafe { &*ptr }
    }
}

impl<T: AtomicType> Atomic<T> {
    fn value(&self) -> &AtomicU64 {
        let now = order::execution();
        match self.value.get() {
            Some((execution, value)) if execution == now => value,
            _ => {
                let value = Box::leak(Box::new(AtomicU64::new(self.first.word())));
                self.value.set(Some((now, value)));
                value
            }
        }
    }

    /// Tells loom of the value, before other threads use it.
    pub fn settle(&self) {
        self.value();
    }

    /// Loads the value.
    #[track_caller]
    pub fn load<O: AcquireOrRelaxed>(&self, _: O) -> T {
        T::of(self.value().load(order::<O>().0))
    }

    /// Stores a value.
    #[track_caller]
    pub fn store<O: ReleaseOrRelaxed>(&self, value: T, _: O) {
        self.value().store(value.word(), order::<O>().0);
    }

    /// Loads and stores at once.
    #[track_caller]
    fn change<O: Ordering>(&self, change: impl FnOnce(&AtomicU64, Loom) -> u64) -> T {
        let (order, full) = order::<O>();
        if full {
            fence(Loom::SeqCst);
        }
        let before = change(self.value(), order);
        if full {
            fence(Loom::SeqCst);
        }
        T::of(before)
    }

    /// Exchanges the value.
    #[track_caller]
    pub fn xchg<O: Ordering>(&self, value: T, _: O) -> T {
        self.change::<O>(|atomic, order| atomic.swap(value.word(), order))
    }

    /// Exchanges the value if it is `old`. A failure orders nothing.
    ///
    /// # Errors
    ///
    /// The value, if it is another.
    #[track_caller]
    pub fn cmpxchg<O: Ordering>(&self, old: T, new: T, _: O) -> Result<T, T> {
        let (order, full) = order::<O>();
        let (old, new) = (old.word(), new.word());
        let result = self
            .value()
            .compare_exchange(old, new, order, Loom::Relaxed);
        if result.is_ok() && full {
            fence(Loom::SeqCst);
        }
        result.map(T::of).map_err(T::of)
    }

    /// Adds to the value.
    pub fn add(&self, more: T, _: Relaxed) {
        self.value().fetch_add(more.word(), Loom::Relaxed);
    }

    /// Adds to the value. Returns the value before.
    #[track_caller]
    pub fn fetch_add<O: Ordering>(&self, more: T, _: O) -> T {
        self.change::<O>(|atomic, order| atomic.fetch_add(more.word(), order))
    }

    /// Subtracts from the value. Returns the value before.
    #[track_caller]
    pub fn fetch_sub<O: Ordering>(&self, less: T, _: O) -> T {
        self.change::<O>(|atomic, order| atomic.fetch_sub(less.word(), order))
    }
}

impl Atomic<usize> {
    /// Sets bits, in no order. Returns the bits before.
    pub fn fetch_or(&self, bits: usize) -> usize {
        self.value().fetch_or(bits.word(), Loom::Relaxed) as usize
    }

    /// Clears all other bits, in no order. Returns the bits before.
    pub fn fetch_and(&self, bits: usize) -> usize {
        self.value().fetch_and(bits.word(), Loom::Relaxed) as usize
    }
}
