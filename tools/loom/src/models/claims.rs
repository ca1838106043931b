// SPDX-License-Identifier: GPL-2.0

//! A protection domain and a cm_id belong to one queue pair at a time.

use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Full, Release};

use super::{parts, spawn, Memory, Shared};
use crate::Model;

//< rdma/pd.rs
//<   impl Pd { attach detach }
//< rdma/cm/ident.rs
//<   impl Ident { attach detach }
parts!("claims");

pub(crate) const MODEL: Model = Model {
    name: "claims",
    runs: &[
        ("two queue pairs for a protection domain", domain),
        ("two queue pairs for a cm_id", identifier),
    ],
    spare: &[],
};

/// The protection domain, as far as it is accessed here.
struct Pd {
    taken: AtomicFlag,
    memory: Memory,
}

/// The cm_id, as far as it is accessed here.
struct Ident {
    has_queue_pair: AtomicFlag,
    memory: Memory,
}

/// Two contexts make a queue pair for a protection domain, and fail.
fn domain() {
    let pd = Shared::new(Pd {
        taken: AtomicFlag::new(false),
        memory: Memory::new(),
    });
    pd.taken.settle();
    let attempt = move || {
        if pd.attach().is_ok() {
            pd.memory.write();
            pd.detach();
        }
    };
    let other = spawn(attempt);
    attempt();
    other.join().unwrap();
}

/// Two contexts make a queue pair for a cm_id, and fail.
fn identifier() {
    let ident = Shared::new(Ident {
        has_queue_pair: AtomicFlag::new(false),
        memory: Memory::new(),
    });
    ident.has_queue_pair.settle();
    let attempt = move || {
        if ident.attach().is_ok() {
            ident.memory.write();
            ident.detach();
        }
    };
    let other = spawn(attempt);
    attempt();
    other.join().unwrap();
}
