// SPDX-License-Identifier: GPL-2.0

//! Buffers from which messages are sent.

use core::mem::ManuallyDrop;

use kernel::alloc::Flags;
use kernel::dma::DataDirection;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::buffer::Buffer;
use super::pd::Pd;
use super::progress::release;
use crate::mem::CachedBox;

/// Memory from which messages are sent: kmalloc memory that stays mapped for one device.
///
/// It may be dropped at any time. If the device may still be reading it, it is freed when the queue
/// pair has been drained.
///
/// # Context
///
/// Dropping the last object of a [`Pd`] sleeps. A caller that drops buffers in atomic context must
/// therefore keep the `Pd` alive meanwhile, as queue pairs and region pools do.
pub(crate) struct SendBuf(ManuallyDrop<CachedBox<Buffer>>);

impl SendBuf {
    /// Allocates `len` zeroed bytes, and maps them for the device of `pd`. May sleep if `gfp`
    /// permits.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `len` is 0 or does not fit a `u32`; `ENOMEM`.
    pub(crate) fn new(pd: &Arc<Pd>, len: usize, gfp: Flags) -> Result<Self> {
        let buffer = Buffer::new(pd, len, DataDirection::ToDevice, gfp)?;
        Ok(Self(ManuallyDrop::new(buffer)))
    }

    /// Returns whether a work request that uses the buffer may still be outstanding.
    pub(crate) fn in_flight(&self) -> bool {
        self.0.last_use.in_flight()
    }

    pub(super) fn buffer(&mut self) -> &mut Buffer {
        &mut self.0
    }

    /// Returns the length of the buffer in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.0.len()
    }

    /// Returns the memory, in which the caller assembles a message.
    ///
    /// Until the Send has completed ([`Self::in_flight`]) the device may read the memory again, to
    /// retransmit a packet. The caller should therefore write only if the Send has completed, or if
    /// the peer has answered the message and so has all of it. Writing earlier is no memory error,
    /// but may corrupt the message.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

impl Drop for SendBuf {
    fn drop(&mut self) {
        // SAFETY: This is the destructor, so `self.0` is not used after this.
        let buffer = unsafe { ManuallyDrop::take(&mut self.0) };
        release(
            buffer,
            |buffer: &mut Buffer| &mut buffer.last_use,
            |deferred| &mut deferred.buffers,
        );
    }
}
