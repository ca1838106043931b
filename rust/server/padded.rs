// SPDX-License-Identifier: GPL-2.0

//! Calls of RFC 5666 with padding: RDMA_MSGP.
//!
//! The padding is taken out into a copy, which is an RDMA_MSG. That costs more than an ordinary
//! call, and only calls with padding pay for it.

use kernel::prelude::*;

use super::config::PADDED;
use super::flights::lane;
use super::responder::QueuePair;
use crate::proto::legacy::padded::{Padded, Unfit};
use crate::wire::Message;

/// Why a call with padding is not received.
pub(super) enum Failed {
    /// The padding cannot be taken out.
    Unfit(Unfit),
    /// There is no memory.
    NoMemory,
}

impl From<Unfit> for Failed {
    fn from(unfit: Unfit) -> Self {
        Self::Unfit(unfit)
    }
}

/// Returns the same call without padding, for a message of these `bytes`. May sleep.
///
/// # Errors
///
/// See [`Failed`].
#[cold]
pub(super) fn without_padding(
    qp: &QueuePair,
    bytes: &[u8],
    message: &Message<'_>,
) -> Result<KVec<u8>, Failed> {
    let padded = Padded::new(bytes, message)?;
    // The copy is no longer than the message.
    let mut copy = KVec::with_capacity(bytes.len(), GFP_KERNEL).map_err(|_| Failed::NoMemory)?;
    let mut copied = Ok(());
    padded.pieces(|piece| {
        copied = copied.and_then(|()| copy.extend_from_slice(piece, GFP_KERNEL));
    })?;
    copied.map_err(|_| Failed::NoMemory)?;
    PADDED.add(lane(qp), 1);
    Ok(copy)
}
