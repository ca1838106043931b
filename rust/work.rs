// SPDX-License-Identifier: GPL-2.0

//! Workqueues of the module, waiting for an event for a limited time, and flags that contexts
//! share. This room knows neither verbs nor RPC.
//!
//! C headers: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h),
//! [`include/linux/completion.h`](srctree/include/linux/completion.h)

mod once;

pub(crate) use once::Once;

use core::ptr::NonNull;

use kernel::bindings;
use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::time::Jiffies;
use kernel::types::Opaque;

/// A workqueue whose work runs on any CPU, at normal priority. It shares its workers with other
/// unbound workqueues, such as SUNRPC's `rpciod`.
///
/// Dropping it waits until all queued work has finished. Drop it in process context, and not from
/// its own work.
///
/// # Invariants
///
/// [`Self::with_flags`] has allocated the workqueue, and it is destroyed with this value.
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

    /// Returns the workqueue for C functions. It exists as long as `self`.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::workqueue_struct {
        self.0.as_ptr()
    }

    /// Returns the workqueue as the kernel crate has it.
    #[inline]
    pub(crate) fn kernel(&self) -> &kernel::workqueue::Queue {
        // SAFETY: By the type invariant the workqueue exists as long as `self`.
        unsafe { kernel::workqueue::Queue::from_raw(self.as_ptr()) }
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

/// A function that is called periodically by a worker of the system, in process context. Dropping
/// the value waits for a call that is under way; process context, and not from the function.
pub(crate) struct Ticker(Pin<KBox<Ticking>>);

/// What the worker finds.
///
/// # Invariants
///
/// `work` is initialised with [`Ticking::run`], and does not move. It is queued only by
/// [`Ticker::new`] and by `run`.
#[pin_data]
struct Ticking {
    #[pin]
    work: Opaque<bindings::delayed_work>,
    interval: Jiffies,
    tick: KBox<dyn Fn() + Send + Sync>,
}

// SAFETY: Any thread may queue and cancel the work; the function is `Send` and `Sync`.
unsafe impl Send for Ticking {}
// SAFETY: Any thread may queue and cancel the work; the function is `Sync`.
unsafe impl Sync for Ticking {}

impl Ticker {
    /// Calls `tick` every `interval` jiffies. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(interval: Jiffies, tick: impl Fn() + Send + Sync + 'static) -> Result<Self> {
        let tick = KBox::new(tick, GFP_KERNEL)? as KBox<dyn Fn() + Send + Sync>;
        let ticking = pin_init!(Ticking {
            work <- Opaque::ffi_init(|work| {
                // SAFETY: `work` is part of the pinned memory that is being initialised.
                unsafe { Ticking::init(work) }
            }),
            interval,
            tick,
        });
        let ticking = KBox::pin_init(ticking, GFP_KERNEL)?;
        ticking.queue();
        Ok(Self(ticking))
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        // SAFETY: By the type invariant of `Ticking` the work is initialised. It cannot queue
        // itself again after this call.
        unsafe { bindings::cancel_delayed_work_sync(self.0.work.get()) };
    }
}

impl Ticking {
    /// Initialises the work.
    ///
    /// # Safety
    ///
    /// `work` is memory for a work item that no other code uses.
    unsafe fn init(work: *mut bindings::delayed_work) {
        // SAFETY: The caller promises the memory. The keys are static. The timer is embedded in a
        // delayed work, whose function it gets.
        unsafe {
            bindings::init_work_with_key(
                &raw mut (*work).work,
                Some(Self::run),
                false,
                c"rpcrdma::Ticker".as_char_ptr(),
                kernel::static_lock_class!().as_ptr(),
            );
            bindings::timer_init_key(
                &raw mut (*work).timer,
                Some(bindings::delayed_work_timer_fn),
                bindings::TIMER_IRQSAFE,
                c"rpcrdma::Ticker::timer".as_char_ptr(),
                kernel::static_lock_class!().as_ptr(),
            );
        }
    }

    /// Has the function called after an interval. Timers that are not urgent expire together, so
    /// that the processor wakes up once for all of them.
    fn queue(&self) {
        // SAFETY: By the type invariant the work is initialised. The workqueue of the system always
        // exists.
        unsafe {
            bindings::queue_delayed_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as i32,
                bindings::system_dfl_wq,
                self.work.get(),
                bindings::round_jiffies_relative(self.interval),
            )
        };
    }

    /// Calls the function.
    ///
    /// # Safety
    ///
    /// `work` is the work of a `Ticking` that exists.
    unsafe extern "C" fn run(work: *mut bindings::work_struct) {
        // SAFETY: The caller promises it. `Opaque` has the layout of what it contains.
        let this = unsafe {
            let offset = core::mem::offset_of!(bindings::delayed_work, work);
            let work = work
                .byte_sub(offset)
                .cast::<Opaque<bindings::delayed_work>>();
            &*kernel::container_of!(work, Self, work)
        };
        (this.tick)();
        this.queue();
    }
}

/// A notification for one task, which waits for it for a limited time and without regard to
/// signals. (The kernel crate's `CondVar` and `Completion` have no such wait.)
///
/// A change that is announced while the task does not wait ends its next wait at once. The task
/// therefore checks its condition first, and waits after that. Several announcements before a wait
/// count as one.
///
/// # Invariants
///
/// `completion` is initialised.
#[pin_data]
pub(crate) struct Change {
    #[pin]
    completion: Opaque<bindings::completion>,
}

// SAFETY: Any task may use a completion.
unsafe impl Send for Change {}
// SAFETY: Several tasks may use a completion at once.
unsafe impl Sync for Change {}

impl Change {
    /// Makes a notification that has not been announced.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            completion <- Opaque::ffi_init(|completion| {
                // SAFETY: `completion` points to the field's memory, which is pinned and not
                // shared.
                unsafe { bindings::init_completion(completion) }
            }),
        })
    }

    /// Announces a change. Any context.
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

    /// Waits for a change for at most `limit` jiffies. Returns the number of jiffies that are left,
    /// 0 if there was no change. Process context; sleeps, and no signal ends the sleep.
    pub(crate) fn wait(&self, limit: Jiffies) -> Jiffies {
        // SAFETY: By the type invariant the completion is initialised.
        unsafe { bindings::wait_for_completion_timeout(self.completion.get(), limit) }
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_work)]
mod tests {
    use super::*;
    use kernel::sync::Arc;

    #[test]
    fn wait_ends_at_the_limit() -> Result {
        let change = KBox::pin_init(Change::new(), GFP_KERNEL)?;
        assert_eq!(change.wait(1), 0);
        Ok(())
    }

    /// Jiffies in which a busy guest comes to run a worker: more than half a minute.
    const PATIENCE: Jiffies = 32_000;

    #[test]
    fn ticker_calls_until_it_is_dropped() -> Result {
        let change = Arc::pin_init(Change::new(), GFP_KERNEL)?;
        let ticked = change.clone();
        let ticker = Ticker::new(1, move || ticked.announce())?;
        let ticks = [change.wait(PATIENCE), change.wait(PATIENCE)];
        // A test that fails ends at once, and must leave no ticker behind.
        drop(ticker);
        assert!(ticks.iter().all(|left| *left > 0));
        // One announcement may have come between the wait and the drop.
        change.wait(1);
        assert_eq!(change.wait(300), 0);
        Ok(())
    }

    #[test]
    fn several_announcements_end_one_wait() -> Result {
        let change = KBox::pin_init(Change::new(), GFP_KERNEL)?;
        change.announce();
        change.announce();
        assert!(change.wait(100) > 0);
        assert_eq!(change.wait(1), 0);
        Ok(())
    }
}
