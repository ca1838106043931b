// SPDX-License-Identifier: GPL-2.0

//! Workqueues, delayed work, wake-ups with a timeout, and single-instruction atomics: what
//! `kernel::workqueue` and `kernel::sync` lack in Linux 7.3. This room depends neither on verbs nor
//! on RPC.
//!
//! `Documentation/upstream.rst` names the module of the kernel crate that each item belongs to.
//!
//! C headers: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h),
//! [`include/linux/completion.h`](srctree/include/linux/completion.h)

use core::ptr::NonNull;

use kernel::bindings;
use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::sync::atomic::{Atomic, AtomicType};
use kernel::sync::Arc;
use kernel::time::Jiffies;
use kernel::types::Opaque;
use kernel::workqueue::{
    self, new_delayed_work, DelayedWork, HasDelayedWork, HasWork, Work, WorkItem,
};

use crate::compat::this_module;

/// An unbound workqueue with normal priority. It shares its workers with other unbound workqueues,
/// such as SUNRPC's `rpciod`.
///
/// Dropping the value waits until all queued work has finished. Drop it in process context, and not
/// from work of the queue.
///
/// # Invariants
///
/// [`Self::with_flags`] allocated the workqueue, and it is destroyed with this value.
pub(crate) struct Queue(NonNull<bindings::workqueue_struct>);

// SAFETY: Any task may use and destroy a workqueue.
unsafe impl Send for Queue {}
// SAFETY: Several tasks may use a workqueue at once.
unsafe impl Sync for Queue {}

impl Queue {
    /// Allocates a workqueue with the name `owner_purpose`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(owner: &CStr, purpose: &CStr) -> Result<Self> {
        Self::with_flags(owner, purpose, 0)
    }

    /// Allocates a workqueue that memory reclaim may wait for: it has a rescuer (`WQ_MEM_RECLAIM`).
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn reliable(owner: &CStr, purpose: &CStr) -> Result<Self> {
        Self::with_flags(owner, purpose, bindings::wq_flags_WQ_MEM_RECLAIM)
    }

    /// Allocates a workqueue that memory reclaim may wait for, and whose CPUs and priority an
    /// administrator can set in `/sys/devices/virtual/workqueue`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn tunable(owner: &CStr, purpose: &CStr) -> Result<Self> {
        let flags = bindings::wq_flags_WQ_MEM_RECLAIM | bindings::wq_flags_WQ_SYSFS;
        Self::with_flags(owner, purpose, flags)
    }

    fn with_flags(owner: &CStr, purpose: &CStr, flags: u32) -> Result<Self> {
        // SAFETY: The format takes two strings, which are passed. The context may sleep.
        let queue = unsafe {
            bindings::alloc_workqueue_noprof(
                c"%s_%s".as_char_ptr(),
                flags | bindings::wq_flags_WQ_UNBOUND,
                0,
                owner.as_char_ptr(),
                purpose.as_char_ptr(),
            )
        };
        // INVARIANT: The workqueue was allocated above.
        NonNull::new(queue).map(Self).ok_or(ENOMEM)
    }

    /// Returns the workqueue for C functions. It exists while `self` does.
    pub(crate) fn as_ptr(&self) -> *mut bindings::workqueue_struct {
        self.0.as_ptr()
    }

    /// Returns the workqueue as a type of the kernel crate.
    pub(crate) fn kernel(&self) -> &workqueue::Queue {
        // SAFETY: By the type invariant the workqueue exists while `self` does.
        unsafe { workqueue::Queue::from_raw(self.as_ptr()) }
    }

    /// Waits until all work that is queued now has finished. May sleep; not from work of the queue.
    pub(crate) fn flush(&self) {
        // SAFETY: By the type invariant the workqueue exists.
        unsafe { bindings::__flush_workqueue(self.as_ptr()) };
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the workqueue is valid, and this is its last use.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}

/// Returns the system's unbound workqueue (`system_dfl_wq`), which has no rescuer. The kernel crate
/// has only the deprecated `system_unbound()`, for whose first use the kernel warns.
pub(crate) fn system() -> &'static workqueue::Queue {
    // SAFETY: The workqueue exists while the kernel runs.
    unsafe { workqueue::Queue::from_raw(bindings::system_dfl_wq) }
}

/// Returns the work item of a value as the C functions take it.
fn raw_work<T, const ID: u64>(value: &Arc<T>) -> *mut bindings::work_struct
where
    T: HasWork<T, ID>,
{
    // SAFETY: The pointer is that of a value that exists, so it and its field are valid.
    unsafe { Work::raw_get(T::raw_get_work(Arc::as_ptr(value).cast_mut())) }
}

/// Waits until the work item of `value` is neither queued nor running (`flush_work()`). The caller
/// ensures that the item is not queued again meanwhile. Process context, may sleep; not from the
/// item.
pub(crate) fn flush<T, const ID: u64>(value: &Arc<T>)
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasWork<T, ID>,
{
    // SAFETY: The constructor of `Work` initialised the item, and `value` keeps it.
    unsafe { bindings::flush_work(raw_work::<T, ID>(value)) };
}

/// Cancels the delayed work item of `value`, and waits while it runs; an item that requeues itself
/// is cancelled as well (`cancel_delayed_work_sync()`). Returns the reference that the workqueue
/// had, if the item was queued. Process context, may sleep; not from the item.
pub(crate) fn cancel_delayed<T, const ID: u64>(value: &Arc<T>) -> Option<Arc<T>>
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasDelayedWork<T, ID>,
{
    let work = raw_work::<T, ID>(value);
    // SAFETY: `HasDelayedWork` promises that the item is that of a `delayed_work`. Its constructor
    // initialised both, and `value` keeps them. If the item was queued, nothing else releases the
    // reference that the workqueue had, because the item no longer runs.
    unsafe {
        let delayed = kernel::container_of!(work, bindings::delayed_work, work);
        let queued = bindings::cancel_delayed_work_sync(delayed);
        queued.then(|| Arc::from_raw(Arc::as_ptr(value)))
    }
}

/// A reference to this module, which is not unloaded before the value is dropped. Code that drops
/// the last one ends before the module is unloaded: the owner of a work item flushes it then.
pub(crate) struct ModuleRef(());

impl ModuleRef {
    /// Takes a reference. Any context that ends before the module is unloaded.
    pub(crate) fn new() -> Self {
        // SAFETY: The module exists while its code runs.
        unsafe { bindings::__module_get(this_module()) };
        Self(())
    }
}

impl Drop for ModuleRef {
    fn drop(&mut self) {
        // SAFETY: `new` took the reference, so the module exists.
        unsafe { bindings::module_put(this_module()) };
    }
}

/// A function that a worker of the system calls periodically, in process context. Dropping the
/// value waits for a running call; process context, and not from the function.
pub(crate) struct Ticker(Arc<Ticking>);

/// The function and the work item that calls it.
#[pin_data]
struct Ticking {
    #[pin]
    work: DelayedWork<Ticking>,
    interval: Jiffies,
    tick: KBox<dyn Fn() + Send + Sync>,
}

kernel::impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Ticking { self.work }
}

impl Ticker {
    /// Calls `tick` every `interval` jiffies. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(interval: Jiffies, tick: impl Fn() + Send + Sync + 'static) -> Result<Self> {
        let tick = KBox::new(tick, GFP_KERNEL)? as KBox<dyn Fn() + Send + Sync>;
        let ticking = Arc::pin_init(
            pin_init!(Ticking {
                work <- new_delayed_work!("rpcrdma::Ticker"),
                interval,
                tick,
            }),
            GFP_KERNEL,
        )?;
        ticking.clone().queue();
        Ok(Self(ticking))
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(cancel_delayed(&self.0));
    }
}

impl Ticking {
    /// Queues the next call. Timers that are not urgent expire together, so that the CPU wakes up
    /// once for all of them.
    fn queue(self: Arc<Self>) {
        // SAFETY: The function computes a number of jiffies from another.
        let delay = unsafe { bindings::round_jiffies_relative(self.interval) };
        let _ = system().enqueue_delayed(self, delay);
    }
}

impl WorkItem for Ticking {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        (this.tick)();
        this.queue();
    }
}

/// A wake-up of one task, which waits for it uninterruptibly and with a timeout.
///
/// An announcement that finds no task waiting ends the next wait at once. The task therefore checks
/// its condition first, and waits after that. Several announcements before a wait count as one.
///
/// `kernel::sync::Completion` has neither `complete()` nor `wait_for_completion_timeout()`.
///
/// # Invariants
///
/// `completion` is initialised.
#[pin_data]
pub(crate) struct WakeEvent {
    #[pin]
    completion: Opaque<bindings::completion>,
}

// SAFETY: Any task may use a completion.
unsafe impl Send for WakeEvent {}
// SAFETY: Several tasks may use a completion at once.
unsafe impl Sync for WakeEvent {}

impl WakeEvent {
    /// Creates an event that was not announced.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            completion <- Opaque::ffi_init(|completion| {
                // SAFETY: `completion` points to the field's memory, which is pinned and not
                // shared.
                unsafe { bindings::init_completion(completion) }
            }),
        })
    }

    /// Wakes the task. Any context.
    ///
    /// The caller has changed the condition under a lock under which the waiting task reads it.
    /// Otherwise the task may read the old condition after this function has found an announcement
    /// that the task has yet to consume.
    pub(crate) fn announce(&self) {
        let completion = self.completion.get();
        // SAFETY: By the type invariant the completion is initialised. Two tasks that announce at
        // the same time may both complete it; the waiting task then checks its condition once more
        // than necessary.
        unsafe {
            if !bindings::completion_done(completion) {
                bindings::complete(completion);
            }
        }
    }

    /// Waits for an announcement for at most `limit` jiffies. Returns the number of jiffies that
    /// are left, 0 if there was no announcement. Process context; sleeps, and no signal ends the
    /// sleep.
    pub(crate) fn wait(&self, limit: Jiffies) -> Jiffies {
        // SAFETY: By the type invariant the completion is initialised.
        unsafe { bindings::wait_for_completion_timeout(self.completion.get(), limit) }
    }
}

/// Loads an atomic value with relaxed ordering and without a function call (`READ_ONCE()`).
///
/// `kernel::sync::atomic` calls a C function for each access unless the kernel is built with
/// `CONFIG_RUST_INLINE_HELPERS`. The path of an RPC has a dozen of such accesses.
#[inline(always)]
pub(crate) fn read_once<T: AtomicType>(atomic: &Atomic<T>) -> T {
    const { assert!(size_of::<T>() <= size_of::<usize>()) };
    // SAFETY: The pointer is that of an atomic value, so it is valid and aligned. In the kernel's
    // memory model, a volatile access to a value of the size of a machine word or less is atomic,
    // and does not race with the accesses of `Atomic`.
    unsafe { atomic.as_ptr().read_volatile() }
}

/// Stores an atomic value with relaxed ordering and without a function call (`WRITE_ONCE()`).
#[inline(always)]
pub(crate) fn write_once<T: AtomicType>(atomic: &Atomic<T>, value: T) {
    const { assert!(size_of::<T>() <= size_of::<usize>()) };
    // SAFETY: The pointer is that of an atomic value, so it is valid and aligned. In the kernel's
    // memory model, a volatile access to a value of the size of a machine word or less is atomic,
    // and does not race with the accesses of `Atomic`.
    unsafe { atomic.as_ptr().write_volatile(value) }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_work)]
mod tests {
    use super::*;

    #[test]
    fn wait_ends_at_the_limit() -> Result {
        let event = KBox::pin_init(WakeEvent::new(), GFP_KERNEL)?;
        assert_eq!(event.wait(1), 0);
        Ok(())
    }

    /// Jiffies within which a busy guest runs a worker: more than half a minute.
    const PATIENCE: Jiffies = 32_000;

    #[test]
    fn ticker_calls_until_it_is_dropped() -> Result {
        let event = Arc::pin_init(WakeEvent::new(), GFP_KERNEL)?;
        let ticked = event.clone();
        let ticker = Ticker::new(1, move || ticked.announce())?;
        let ticks = [event.wait(PATIENCE), event.wait(PATIENCE)];
        let ticking = ticker.0.clone();
        // A test that fails ends at once, and must leave no ticker behind.
        drop(ticker);
        assert!(ticks.iter().all(|left| *left > 0));
        // The workqueue keeps no reference.
        assert!(Arc::into_unique_or_drop(ticking).is_some());
        // The last call may have announced between the wait and the drop.
        event.wait(1);
        assert_eq!(event.wait(300), 0);
        Ok(())
    }

    #[test]
    fn several_announcements_end_one_wait() -> Result {
        let event = KBox::pin_init(WakeEvent::new(), GFP_KERNEL)?;
        event.announce();
        event.announce();
        assert!(event.wait(100) > 0);
        assert_eq!(event.wait(1), 0);
        Ok(())
    }
}
