// SPDX-License-Identifier: GPL-2.0

//! Messages in the backward direction: the server of a connection calls, and its client answers
//! (RFC 8167).
//!
//! Such a message is entirely inline, in a buffer that the connection keeps for this purpose. The
//! caller writes the message, because only the caller knows the form of an RPC message.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::connection::Connection;
use super::role::Role;
use crate::rdma::buffer::SendBuf;
use crate::rdma::pd::Pd;
use crate::rdma::qp::{PostError, Tag};
use crate::wire::EncodeError;

/// The number of Sends from [`ReplyBuffers`] that share a completion.
const SHARED: usize = 4;

/// Send buffers for replies to the peer's calls. There are none until [`Self::fill`] is called.
#[pin_data]
pub(crate) struct ReplyBuffers {
    #[pin]
    ring: SpinLock<Ring>,
}

/// Buffers that are used in turn. Work requests of one queue pair complete in order, so if any
/// buffer is free, the next one is.
#[derive(Default)]
struct Ring {
    buffers: KVec<SendBuf>,
    /// The index of the buffer that is used next.
    next: usize,
}

impl ReplyBuffers {
    /// Makes an empty set.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            ring <- new_spinlock!(Ring::default(), "rpcrdma::ReplyBuffers::ring"),
        })
    }

    /// Allocates `count` buffers of `len` bytes, unless there are buffers already. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn fill(&self, pd: &Arc<Pd>, count: usize, len: usize) -> Result {
        if !self.ring.lock().buffers.is_empty() {
            return Ok(());
        }
        let mut fresh = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            fresh.push(SendBuf::new(pd, len, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        let mut ring = self.ring.lock();
        // Another task may have filled the set meanwhile.
        if ring.buffers.is_empty() {
            core::mem::swap(&mut ring.buffers, &mut fresh);
        }
        drop(ring);
        // Buffers that are not needed are unmapped here, outside the lock.
        drop(fresh);
        Ok(())
    }

    /// Calls `post` with a buffer that the device is not reading; returns `None` if there is none.
    /// `post` posts the buffer, and must not sleep. `post` signals the Send if its second argument
    /// is set: one Send among all buffers is signalled, so that the buffers become free even if the
    /// connection sends nothing else.
    pub(crate) fn with_free<E>(
        &self,
        post: impl FnOnce(&mut SendBuf, bool) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let mut ring = self.ring.lock();
        let Ring { buffers, next } = &mut *ring;
        let (n, end) = (*next, buffers.len().wrapping_sub(1));
        let free = buffers.get_mut(n).filter(|buf| !buf.in_flight())?;
        let posted = post(free, n % SHARED == SHARED - 1 || n == end);
        if posted.is_ok() {
            *next = if n == end { 0 } else { n + 1 };
        }
        Some(posted)
    }

    /// Waits until no message is being written or posted. Does not sleep.
    pub(crate) fn wait_for_posts(&self) {
        drop(self.ring.lock());
    }
}

/// Why a message was not posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unposted {
    /// The device may still be reading from every buffer.
    NoBuffer,
    /// `write` failed.
    Unwritten,
    /// The queue pair refused the message.
    Refused(PostError),
}

impl<R: Role> Connection<R> {
    /// Calls `write` with a buffer that the device is not reading, and posts the message. `write`
    /// returns the length of the message. Does not sleep; `write` must not sleep either.
    ///
    /// # Errors
    ///
    /// See [`Unposted`].
    pub(crate) fn post_backward(
        &self,
        tag: Tag,
        write: impl FnOnce(&mut [u8]) -> Result<usize>,
    ) -> Result<(), Unposted> {
        let post = |out: &mut SendBuf, signalled| {
            let len = write(out.as_mut_slice()).map_err(|_| Unposted::Unwritten)?;
            let no_regions = core::iter::empty();
            let posted = self.qp().post_send(tag, no_regions, out, len, signalled);
            posted.map(drop).map_err(Unposted::Refused)
        };
        let posted = self.replies().with_free(post);
        posted.unwrap_or(Err(Unposted::NoBuffer))
    }
}

/// Writes a header followed by an RPC message of `len` bytes. Returns the total length.
///
/// # Errors
///
/// `EMSGSIZE` if `out` is too short, and those of `copy`.
pub(crate) fn write(
    out: &mut [u8],
    header: impl FnOnce(&mut [u8]) -> Result<usize, EncodeError>,
    len: usize,
    copy: impl FnOnce(&mut [u8]) -> Result,
) -> Result<usize> {
    let start = header(out).map_err(|_| EMSGSIZE)?;
    let end = start.checked_add(len).ok_or(EMSGSIZE)?;
    copy(out.get_mut(start..end).ok_or(EMSGSIZE)?)?;
    Ok(end)
}
