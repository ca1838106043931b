// SPDX-License-Identifier: GPL-2.0

//! A request slot: its flag `in_use`, which the task of an RPC reads without the slot's lock, and
//! the wake-up of the task that aborts the call.

use kernel::sync::atomic::Atomic;
use kernel::sync::{Completion, SpinLock, SpinLockGuard};
use kernel::work::{read_once, write_once};

use super::{parts, spawn, Memory, Shared};
use crate::Model;

//< client/call/slot.rs
//<   impl Slot { is_in_use begin_use end_use wait_while wake }
//< work.rs
//<   impl WakeEvent { announce wait }
parts!("slot");

pub(crate) const MODEL: Model = Model {
    name: "slot",
    runs: &[
        ("the task uses a slot whose call is complete", completed),
        ("a task waits for the slot", waited_for),
    ],
    spare: &[],
};

type Jiffies = usize;

/// The slot, as far as it is accessed here.
struct Slot {
    in_use: Atomic<bool>,
    locked: SpinLock<Locked>,
    progress: WakeEvent,
    contents: Memory,
}

/// The data under the lock: whether a call is in progress.
struct Locked {
    sent: bool,
    contents: Option<Shared<Slot>>,
}

impl Slot {
    #[track_caller]
    fn lock(&self) -> SpinLockGuard<'_, Locked> {
        self.locked.lock()
    }
}

impl Locked {
    fn reset(&mut self) {
        self.sent = false;
        if let Some(slot) = self.contents {
            slot.contents.write();
        }
    }
}

struct WakeEvent {
    completion: Opaque,
}

/// A completion, where C functions find it.
struct Opaque(Completion);

impl Opaque {
    fn get(&self) -> &Completion {
        &self.0
    }
}

mod bindings {
    use kernel::sync::Completion;

    pub(super) unsafe fn completion_done(completion: &Completion) -> bool {
        completion.is_done()
    }

    pub(super) unsafe fn complete(completion: &Completion) {
        completion.complete();
    }

    /// Waits without end: loom reports a wake-up that is lost.
    pub(super) unsafe fn wait_for_completion_timeout(
        completion: &Completion,
        limit: usize,
    ) -> usize {
        completion.wait_for_completion();
        limit
    }
}

/// Makes a slot whose call is sent.
fn slot() -> Shared<Slot> {
    let slot = Shared::new(Slot {
        in_use: Atomic::new(false),
        locked: SpinLock::new(Locked {
            sent: true,
            contents: None,
        }),
        progress: WakeEvent {
            completion: Opaque(Completion::new()),
        },
        contents: Memory::new(),
    });
    slot.locked.inspect().contents = Some(slot);
    slot.begin_use();
    slot
}

/// The reply has arrived: the slot becomes idle.
fn complete(slot: &Slot) {
    let mut locked = slot.lock();
    slot.end_use(&mut locked);
}

/// The completion worker completes an RPC under SUNRPC's `queue_lock`. The task finds the request
/// out of all queues, and uses the slot for its next call.
fn completed() {
    let slot = slot();
    let queued = Shared::new(SpinLock::new(true));
    let worker = spawn(move || {
        complete(&slot);
        *queued.lock() = false;
    });
    let done = !*queued.lock();
    if done {
        assert!(
            !slot.is_in_use(),
            "the task waits for a call that is complete"
        );
        slot.contents.write();
    }
    worker.join().unwrap();
}

/// Two contexts wake the task that waits until the call is no longer in progress.
fn waited_for() {
    let slot = slot();
    let first = spawn(move || slot.wake());
    let second = spawn(move || {
        complete(&slot);
        slot.wake();
    });
    assert!(slot.wait_while(1, |locked| locked.sent));
    slot.contents.write();
    first.join().unwrap();
    second.join().unwrap();
}
