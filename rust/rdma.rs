// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over `ib_core` and `rdma_cm`. Knows nothing of RPC.
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/rdma_cm.h`](srctree/include/rdma/rdma_cm.h).
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`device`] | to be told when a device comes and goes; what a device can do |
//! | [`pd`], [`cq`] | protection domain and completion queue |
//! | [`cm`], [`listen`] | connection identifiers, events, connecting; listening and accepting |
//! | [`qp`] | queue pair: posting, completions, draining |
//! | [`send`], [`recv`] | buffers that a device reads from and writes into |
//! | [`mr`] | memory regions (FRWR): what a peer may read or write |
//!
//! # Who outlives whom
//!
//! Every object keeps what it is made of, by reference count, so nothing can be torn down in the
//! wrong order:
//!
//! ```text
//!   Lease ◄── Pd ◄── Cq ◄── Qp ──► CmId's identifier
//!              ▲             │ gate
//!              ├── SendBuf ──┤
//!              └── Mr ───────┘
//! ```
//!
//! The gate ([`gate`]) is what a queue pair shares with the buffers and regions posted on it. A
//! buffer or region that is dropped while the device may still use it moves there, and is freed
//! when the queue pair has been drained. What drained means for regions, out of the peer's reach,
//! rests on a protection domain's having a single queue pair, ever ([`Pd`](pd::Pd)).
//!
//! # Context
//!
//! Completion queues are polled from a workqueue, so nothing here runs in softirq context, and
//! plain spinlocks do. Making and destroying objects may sleep. Posting does not.

#![allow(
    dead_code,
    unused_imports,
    reason = "a requester alone does not need all of it; samples and a responder do"
)]

use kernel::str::CStrExt;

pub(crate) mod cm;
pub(crate) mod cq;
pub(crate) mod device;
pub(crate) mod listen;
pub(crate) mod mr;
pub(crate) mod pd;
pub(crate) mod qp;
pub(crate) mod recv;
pub(crate) mod send;

mod buffer;
mod gate;
mod local;
mod noio;
mod pack;
mod region;
mod sq;
mod stack;

/// The module's name, for resource tracking (`rdma resource show`); static.
fn caller() -> *const kernel::ffi::c_char {
    <crate::LocalModule as kernel::ModuleMetadata>::NAME.as_char_ptr()
}
