// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over `ib_core` and `rdma_cm`. This room does not depend on RPC.
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/rdma_cm.h`](srctree/include/rdma/rdma_cm.h).
//!
//! | module | what it has |
//! | --- | --- |
//! | [`device`] | registration with `ib_core`, limits of a device, leases, removal |
//! | [`pd`], [`cq`] | protection domains and completion queues |
//! | [`cm`], [`listen`] | cm_ids, events, connecting; listening and accepting |
//! | [`qp`] | queue pairs: posting, completions, draining |
//! | [`buffer`], [`recv`] | buffers of the send queue; received messages |
//! | [`scatter`] | page lists, with the RDMA Reads and Writes that move them |
//! | [`mr`] | memory regions (FRWR): memory that a peer may read or write |
//!
//! They share private modules: `progress` (which work requests have completed) and `stack`.
//!
//! # Lifetimes
//!
//! Every object keeps a reference to the objects that it is made from, so nothing can be destroyed
//! in the wrong order:
//!
//! ```text
//!   Lease ◄── Pd ◄── Cq ◄── Qp ──► CmId's cm_id
//!              ▲             │ progress
//!              ├── SendBuf ──┤
//!              ├── Source ───┤
//!              ├── Sink ─────┤
//!              └── Mr ───────┘
//! ```
//!
//! The progress of a queue pair ([`progress`]) is shared with the buffers, page lists and regions
//! posted on it. An object of these that is dropped while the device may still use it is kept
//! there, and freed when the queue pair has been drained. Draining proves that a peer cannot reach
//! a region only because a protection domain has a single queue pair throughout its lifetime
//! ([`Pd`](pd::Pd)).
//!
//! # Context
//!
//! Completion queues are polled from a workqueue, so nothing here runs in softirq context, and
//! spinlocks need not disable it. Creating and destroying objects may sleep. Posting does not.
//!
//! # Examples
//!
//! `samples/rdma_ping` is a module with both ends of a connection that uses only this room. Its
//! client maps memory, and posts the registrations with the Send that has R_keys and addresses:
//!
//! ```
//! let mut read = self.map(true, n)?;
//! let mut write = self.map(false, n)?;
//!
//! let offer = Offer::new(&read, &write, n);
//! let client = &mut self.client;
//! client.out.as_mut_slice().copy_from_slice(&offer.encode());
//! let regions = [&mut read, &mut write];
//! let out = &mut client.out;
//! client.qp.post_send(TAG, regions, out, wire::LEN, false)?;
//! ```

use kernel::str::CStrExt;

pub(crate) mod buffer;
pub(crate) mod cm;
pub(crate) mod cq;
pub(crate) mod device;
pub(crate) mod listen;
pub(crate) mod mr;
pub(crate) mod pd;
pub(crate) mod qp;
pub(crate) mod recv;
pub(crate) mod scatter;

mod progress;
mod stack;

/// Returns the module's name, which resource tracking shows (`rdma resource show`).
fn caller() -> *const kernel::ffi::c_char {
    <crate::LocalModule as kernel::ModuleMetadata>::NAME.as_char_ptr()
}
