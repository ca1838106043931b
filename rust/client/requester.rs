// SPDX-License-Identifier: GPL-2.0

//! The requester's part of a connection.

use kernel::prelude::*;
use kernel::sync::atomic::Atomic;

use super::legacy::Legacy;
use super::liveness::Liveness;
use crate::conn::credits::CallCredits;
use crate::conn::role::{self, ConnOf, QpOf};

/// What the completion worker and the watch know of a requester's connection.
#[pin_data]
pub(super) struct Requester {
    /// The server's credits.
    #[pin]
    pub(super) credits: CallCredits,
    /// The server's silence.
    pub(super) liveness: Liveness,
    /// The settings that the session was told last. Only the transport's watch changes them.
    pub(super) told: Told,
    /// What is known of a server of RFC 5666.
    #[pin]
    pub(super) legacy: Legacy,
}

/// Settings that a living connection follows, in bytes.
pub(super) struct Told {
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
    /// Makes the requester's part of a connection whose calls ask for so many credits.
    pub(super) fn new(credits: u32) -> impl PinInit<Self> {
        pin_init!(Self {
            credits <- CallCredits::new(credits),
            liveness: Liveness::new(),
            told: Told {
                send: Atomic::new(0),
                receive: Atomic::new(0),
            },
            legacy <- Legacy::new(),
        })
    }
}
