// SPDX-License-Identifier: GPL-2.0

//! A requester's connection: the objects of `conn`, the memory regions, and the state that
//! completion worker and watch share.

use core::ops::Deref;

use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;
use kernel::workqueue::Work;

use super::quirks::Quirks;
use crate::conn::connection::{Connection, Parts};
use crate::conn::credits::CallCredits;
use crate::conn::role::{self, ConnOf, QpOf};
use crate::proto::backward::CREDITS;
use crate::rdma::send::SendBuf;
use regions::Regions;
use silence::Silence;

pub(super) mod regions;
pub(super) mod silence;

/// The requester's part of a connection, which completions reach.
#[pin_data]
pub(super) struct Requester {
    /// The server's credits.
    #[pin]
    pub(super) credits: CallCredits,
    /// The server's silence.
    pub(super) silence: Silence,
    /// The sizes that the session has applied. Only the transport's watch changes them.
    pub(super) sizes: AppliedSizes,
    /// The forms of messages that only some servers use.
    #[pin]
    pub(super) quirks: Quirks,
}

/// The sizes that are in effect on a connection, in bytes.
pub(super) struct AppliedSizes {
    /// The longest message that we send inline.
    pub(super) send: Atomic<u32>,
    /// The size of our Receives.
    pub(super) receive: Atomic<u32>,
}

/// The state of a requester's connection that completions reach.
pub(super) type Conn = ConnOf<Requester>;
/// The queue pair of a requester's connection.
pub(super) type QueuePair = QpOf<Requester>;
/// A message from the server.
pub(super) type Incoming<'a> = role::Incoming<'a, Requester>;

impl Requester {
    /// Makes the requester's part of a connection whose calls ask for this number of credits.
    pub(super) fn new(credits: u32) -> impl PinInit<Self> {
        pin_init!(Self {
            credits <- CallCredits::new(credits),
            silence: Silence::new(),
            sizes: AppliedSizes {
                send: Atomic::new(0),
                receive: Atomic::new(0),
            },
            quirks <- Quirks::new(),
        })
    }
}

/// A requester's connection.
///
/// Field order is teardown order: when the connection is gone, no device refers to a memory region
/// any more.
#[pin_data]
pub(super) struct Endpoint {
    #[pin]
    conn: Connection<Requester>,
    pub(super) regions: Regions,
    /// The last attempt to make more memory regions has failed.
    no_more_regions: Atomic<bool>,
    #[pin]
    replenish: Work<Endpoint, REPLENISH>,
    #[pin]
    grow: Work<Endpoint, GROW>,
    #[pin]
    close: Work<Endpoint, CLOSE>,
}

/// The work item that makes more memory regions; see [`regions`].
pub(super) const REPLENISH: u64 = 0;
/// The work item that closes the connection; see `call/fence.rs`.
pub(super) const CLOSE: u64 = 1;
/// The work item that makes larger Receives; see `conn/session.rs`.
pub(super) const GROW: u64 = 2;

kernel::impl_has_work! {
    impl HasWork<Self, REPLENISH> for Endpoint { self.replenish }
    impl HasWork<Self, GROW> for Endpoint { self.grow }
    impl HasWork<Self, CLOSE> for Endpoint { self.close }
}

impl Deref for Endpoint {
    type Target = Connection<Requester>;

    fn deref(&self) -> &Connection<Requester> {
        &self.conn
    }
}

impl Endpoint {
    /// Makes an endpoint of the parts of a connection. The caller makes it the current one. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(parts: Parts<Requester>, regions: Regions) -> Result<Arc<Self>> {
        Arc::try_pin_init(
            try_pin_init!(Self {
                conn <- Connection::new(parts),
                regions,
                no_more_regions: Atomic::new(false),
                replenish <- kernel::new_work!("rpcrdma::Endpoint::replenish"),
                grow <- kernel::new_work!("rpcrdma::Endpoint::grow"),
                close <- kernel::new_work!("rpcrdma::Endpoint::close"),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Returns the requester's part of the connection.
    pub(super) fn requester(&self) -> &Requester {
        self.shared().role()
    }

    /// Returns whether the last attempt to make more memory regions has failed.
    pub(super) fn has_no_more_regions(&self) -> bool {
        self.no_more_regions.load(Relaxed)
    }

    /// Notes whether an attempt to make more memory regions has failed.
    pub(super) fn set_no_more_regions(&self, failed: bool) {
        self.no_more_regions.store(failed, Relaxed);
    }

    /// Allocates the buffers for replies to the server's calls. A second call changes nothing. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EIO`.
    pub(super) fn serve_backward(&self) -> Result {
        // CAST: `usize` has at least 32 bits.
        self.replies().fill(self.pd(), CREDITS as usize, PAGE_SIZE)
    }

    /// Takes a send buffer that the device may still be reading, and returns another buffer. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EIO`.
    pub(super) fn exchange(&self, old: SendBuf) -> Result<SendBuf> {
        self.calls().exchange(self.pd(), old)
    }
}

/// Tags: the numbers by which a completion finds its call.
pub(super) mod tags {
    use crate::rdma::qp::Tag;

    /// The tag of all replies to the server's calls. No task waits for these Sends.
    pub(in crate::client) const BACKWARD_TAG: Tag = Tag::new(0);
    /// The tag of the probes of [`super::silence`].
    pub(in crate::client) const PROBE_TAG: Tag = Tag::new(1);
    /// The tag of the session's messages.
    pub(in crate::client) const CONTROL_TAG: Tag = Tag::new(2);
    /// The first tag of a slot.
    const FIRST: u32 = 3;
    /// The number of tags of a slot: of its Send, and of its chain of LOCAL_INV. A signalled
    /// Send may complete after the chain was posted.
    const KINDS: u32 = 2;

    /// Returns the number of tags that a connection with `slots` slots uses.
    pub(in crate::client) const fn count(slots: u32) -> u32 {
        FIRST + slots * KINDS
    }

    /// Returns the tag of the Send of slot number `index`.
    pub(in crate::client) const fn send(index: u32) -> Tag {
        Tag::new(FIRST.wrapping_add(index.wrapping_mul(KINDS)))
    }

    /// Returns the tag of the LOCAL_INV chain of slot number `index`.
    pub(in crate::client) const fn invalidation(index: u32) -> Tag {
        Tag::new(FIRST + index * KINDS + 1)
    }

    /// Returns the number of the slot that `tag` belongs to; `None` for the tag of no slot.
    pub(in crate::client) fn slot_of(tag: Tag) -> Option<u32> {
        tag.get().checked_sub(FIRST).map(|n| n / KINDS)
    }

    /// Returns the number of the slot whose LOCAL_INV chain has this tag; `None` for other tags.
    pub(in crate::client) fn invalidated_by(tag: Tag) -> Option<u32> {
        let n = tag.get().checked_sub(FIRST)?;
        (n % KINDS == 1).then_some(n / KINDS)
    }
}
