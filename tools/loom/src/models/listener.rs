// SPDX-License-Identifier: GPL-2.0

//! A listener whose cm_id is lost gets a new one, also when the worker is just running.

use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::{Arc, SpinLock as Mutex};

use super::{parts, spawn, Shared};
use crate::workqueue::Work;
use crate::Model;

//< rdma/listen/state.rs
//<   impl ListenerState { lose renew replace }
parts!("listener");

pub(crate) const MODEL: Model = Model {
    name: "listener",
    runs: &[("a cm_id is lost while the worker looks", lost)],
    spare: &[
        (
            "self.pending.store(false, Release)",
            "the barrier behind the store is the one that is needed",
        ),
        (
            "this.listening.lock()",
            "the worker runs once at a time, and the model does not end the listener",
        ),
    ],
};

const AT_ONCE: u64 = 0;
const RETRY: u64 = 1;
const RETRY_MS: u32 = 1000;

struct ListenerState {
    listening: Mutex<Listening>,
    lost: AtomicFlag,
    handler: fn(ListenEvent),
    work: Shared<Work>,
}

struct Listening {
    net: Option<()>,
    id: Option<OwnedId>,
    up: bool,
}

impl Listening {
    fn bring_up(&mut self) -> Result {
        self.up = true;
        Ok(())
    }
}

enum ListenEvent {
    Lost(Lost),
    Restored,
}

#[derive(Clone, Copy)]
enum Lost {
    DeviceRemoved,
}

struct OwnedId;

impl OwnedId {
    fn new(_net: &(), _state: Arc<ListenerState>) -> Result<Self> {
        Ok(Self)
    }
}

fn msecs_to_jiffies(ms: u32) -> u32 {
    ms
}

mod work {
    use super::{Arc, ListenerState};

    pub(super) struct Queue;

    pub(super) fn system() -> Queue {
        Queue
    }

    impl Queue {
        pub(super) fn enqueue<T: Into<Arc<ListenerState>>, const ID: u64>(&self, state: T) {
            state.into().work.0.queue();
        }

        pub(super) fn enqueue_delayed<T: Into<Arc<ListenerState>>, const ID: u64>(
            &self,
            _state: T,
            _delay: u32,
        ) {
        }
    }
}

/// The cm_id is reported as lost while the worker runs for an earlier report: the worker sees the
/// report, or runs again.
fn lost() {
    let state = Arc::new(ListenerState {
        listening: Mutex::new(Listening {
            net: Some(()),
            id: Some(OwnedId),
            up: true,
        }),
        lost: AtomicFlag::new(false),
        handler: |_| (),
        work: Shared::new(Work::new()),
    });
    state.lost.settle();
    let work = state.work;
    let renewed = state.clone();
    work.set(move || ListenerState::renew(renewed.clone()));
    work.0.queue();
    let reporter = state.clone();
    spawn(move || ListenerState::lose(reporter, Lost::DeviceRemoved))
        .join()
        .unwrap();
    work.flush();
    assert!(!state.lost.load(Relaxed), "the report is forgotten");
}
