// SPDX-License-Identifier: GPL-2.0

//! The locks of `kernel::sync`.

use std::ops::{Deref, DerefMut};

use loom::cell::{MutPtr, UnsafeCell};

use crate::order::{holds, What};

/// A lock. loom reports an access to its data that no lock orders. Only a run that leaves out a
/// call of [`Self::lock`] has such accesses.
pub struct SpinLock<T> {
    lock: loom::sync::Mutex<()>,
    data: UnsafeCell<T>,
}

/// A lock that sleeps. The models do not distinguish it.
pub type Mutex<T> = SpinLock<T>;

// SAFETY: loom checks the accesses to the data.
unsafe impl<T> Send for SpinLock<T> {}
// SAFETY: loom checks the accesses to the data.
unsafe impl<T> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// Makes a lock.
    pub fn new(data: T) -> Self {
        Self {
            lock: loom::sync::Mutex::new(()),
            data: UnsafeCell::new(data),
        }
    }

    /// Takes the lock.
    #[track_caller]
    pub fn lock(&self) -> SpinLockGuard<'_, T> {
        let lock = holds(What::Order).then(|| self.lock.lock().unwrap());
        SpinLockGuard {
            data: self.data.get_mut(),
            _lock: lock,
        }
    }

    /// Returns the data for a model whose threads have ended.
    pub fn inspect(&self) -> SpinLockGuard<'_, T> {
        SpinLockGuard {
            data: self.data.get_mut(),
            _lock: None,
        }
    }
}

/// A lock that is held. The access to the data ends before the lock is released.
pub struct SpinLockGuard<'a, T> {
    data: MutPtr<T>,
    _lock: Option<loom::sync::MutexGuard<'a, ()>>,
}

impl<T> Deref for SpinLockGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: loom has checked that there is no other access.
        unsafe { self.data.deref() }
    }
}

impl<T> DerefMut for SpinLockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: loom has checked that there is no other access.
        unsafe { self.data.deref() }
    }
}
