// SPDX-License-Identifier: GPL-2.0

//! Servers of RFC 5666: what is different with them.
//!
//! Such a server sends no private data (RFC 8797 is younger). What RFC 8166 has withdrawn is only
//! done towards a server that has sent none, or that has asked for it by the Connection
//! Configuration Protocol.

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, AtomicFlag, Relaxed};

use super::asked::Conf;
use super::config;
use super::pulls::Pulls;
use crate::proto::legacy::conf::Configuration;
use crate::proto::legacy::padding::Padding;
use crate::work::Once;

/// What a connection knows of a server that may be one of RFC 5666.
#[pin_data]
pub(super) struct Legacy {
    /// The server has sent no private data.
    may_be_old: AtomicFlag,
    /// The server has said that there can be no RDMA Reads.
    no_reads: Atomic<bool>,
    /// The alignment that the server wants for the data of a call; zero for none.
    align: Atomic<u32>,
    #[pin]
    pub(super) conf: Conf,
    #[pin]
    pub(super) pulls: Pulls,
}

impl Legacy {
    /// Knows nothing yet.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            may_be_old: AtomicFlag::new(false),
            no_reads: Atomic::new(false),
            align: Atomic::new(0),
            conf <- Conf::new(),
            pulls <- Pulls::new(),
        })
    }

    /// Returns whether the server may be one of RFC 5666: it has sent no private data.
    pub(super) fn may_be_old(&self) -> bool {
        self.may_be_old.load(Relaxed)
    }

    /// Notes whether the server has sent private data.
    pub(super) fn note_private_data(&self, any: bool) {
        self.may_be_old.store(!any, Relaxed);
    }

    /// Takes over what the server has answered, apart from the thresholds.
    pub(super) fn configure(&self, agreed: &Configuration) {
        self.no_reads
            .store(!agreed.may_offer_read_chunks(), Relaxed);
        let padding = agreed.padding.filter(|padding| {
            // The administrator bounds the padding.
            padding.align() <= config::padding()
        });
        self.align
            .store(padding.map_or(0, |padding| padding.align()), Relaxed);
    }

    /// Returns whether calls may have read chunks.
    #[inline]
    pub(super) fn may_offer_read_chunks(&self) -> bool {
        !self.no_reads.read_once()
    }

    /// Returns the padding that the server has asked for, if any.
    pub(super) fn padding(&self) -> Option<Padding> {
        let align = self.align.load(Relaxed);
        Padding::new(align, align).ok()
    }
}
