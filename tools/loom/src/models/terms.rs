// SPDX-License-Identifier: GPL-2.0

//! The terms of a connection: after they have changed, and the lock of each slot was taken, no call
//! that was prepared for former terms is posted.

use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{SpinLock, SpinLockGuard};
use kernel::work::read_once;

use super::{parts, spawn, Memory, Shared};
use crate::Model;

//< conn/terms.rs
//<   const SIZE
//<   const SIZE_MAX
//<   const TWO
//<   const INVALIDATION
//<   const WATCH
//<   const BACKWARD
//<   struct TermsWord
//<   struct TermsSnapshot
//<   impl TermsWord { publish read }
//<   fn word
//<   fn size
//<   fn flag
//< client/call/slot.rs
//<   impl Locked { drop_void }
//< client/call.rs
//<   impl<'a> SlotTable<'a> { wait_for_posts }
parts!("terms");

pub(crate) const MODEL: Model = Model {
    name: "terms",
    runs: &[("a call is posted while the terms change", changed)],
    spare: &[],
};

/// The version of the protocol.
enum Version {
    Two,
}

/// The sizes that both peers have agreed on.
struct Thresholds {
    client_to_server: u32,
    server_to_client: u32,
    version: Version,
    remote_invalidation: bool,
}

/// The terms of a session: the maximum length of a call.
struct Terms {
    longest: u32,
    watch: bool,
}

impl Terms {
    fn thresholds(&self) -> Thresholds {
        Thresholds {
            client_to_server: self.longest,
            server_to_client: 4096,
            version: Version::Two,
            remote_invalidation: true,
        }
    }

    fn permits_backward(&self) -> bool {
        true
    }
}

/// A slot's part under the lock: its connection, and the terms for which the call is prepared.
struct Locked {
    ep: Option<Shared<TermsWord>>,
    contents: Contents,
    phase: Phase,
}

struct Contents {
    terms: TermsSnapshot,
}

#[derive(PartialEq)]
enum Phase {
    Idle,
    Prepared,
}

impl Shared<TermsWord> {
    fn shared(&self) -> &Self {
        self
    }

    fn terms(&self) -> TermsSnapshot {
        self.read()
    }
}

impl Locked {
    fn take_back(&mut self) {
        self.phase = Phase::Idle;
    }
}

struct Slot(SpinLock<Locked>);

impl Slot {
    #[track_caller]
    fn lock(&self) -> SpinLockGuard<'_, Locked> {
        self.0.lock()
    }
}

struct SlotTable<'a>(&'a Slot);

impl<'a> SlotTable<'a> {
    fn slots(self) -> [&'a Slot; 1] {
        [self.0]
    }
}

/// A call of 4,096 bytes is posted while the session lowers its limit to half of that. The
/// peer is informed after the slots' locks were taken, and posts smaller Receives.
fn changed() {
    let word = Shared::new(TermsWord {
        terms: Atomic::new(0),
        capabilities: Atomic::new(0),
    });
    word.capabilities.settle();
    let terms = |longest| Terms {
        longest,
        watch: false,
    };
    assert!(word.publish(&terms(4096)));
    let slot = Shared::new(Slot(SpinLock::new(Locked {
        ep: Some(word),
        contents: Contents { terms: word.read() },
        phase: Phase::Prepared,
    })));
    let receives = Shared::new(Memory::new());
    let task = spawn(move || {
        let mut locked = slot.lock();
        locked.drop_void();
        if locked.phase == Phase::Prepared {
            receives.read();
        }
    });
    assert!(word.publish(&terms(2048)));
    SlotTable(&slot).wait_for_posts();
    receives.write();
    task.join().unwrap();
}
