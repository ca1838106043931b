// SPDX-License-Identifier: GPL-2.0

//! Buffers to send from and to read into.

use core::mem::ManuallyDrop;

use kernel::alloc::Flags;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::buffer::{Buffer, Way};
use super::pd::Pd;

macro_rules! owned_buffer {
    ($name:ident, $way:expr) => {
        impl $name {
            /// Allocates `len` bytes, zeroed, and maps them for the device of `pd`. May sleep if
            /// `gfp` says so.
            ///
            /// # Errors
            ///
            /// `EINVAL` if `len` is 0 or does not fit a `u32`; `ENOMEM`; `EIO` if the device cannot
            /// map them.
            pub(crate) fn new(pd: &Arc<Pd>, len: usize, gfp: Flags) -> Result<Self> {
                Ok(Self(ManuallyDrop::new(Buffer::new(pd, len, $way, gfp)?)))
            }

            /// Length of the buffer in bytes.
            #[inline]
            pub(crate) fn capacity(&self) -> usize {
                self.0.len()
            }

            /// Whether a work request that uses the buffer may not have completed yet.
            #[inline]
            pub(crate) fn in_flight(&self) -> bool {
                self.0.in_flight()
            }

            #[inline]
            pub(super) fn buffer(&mut self) -> &mut Buffer {
                &mut self.0
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: `self.0` is not used again.
                Buffer::release(unsafe { ManuallyDrop::take(&mut self.0) });
            }
        }
    };
}

/// Memory for messages to send: kmalloc memory, mapped for one device once and for all.
///
/// It may be dropped at any time. If the device may still be reading it, it is freed when the queue
/// pair has been drained.
///
/// # Context
///
/// Dropping the last object of a [`Pd`] sleeps. Keep the `Pd` (a queue pair or region pool does)
/// where buffers are dropped in atomic context.
pub(crate) struct SendBuf(ManuallyDrop<KBox<Buffer>>);

owned_buffer!(SendBuf, Way::Out);

impl SendBuf {
    /// The memory, to assemble a message in.
    ///
    /// Until the Send has completed ([`Self::in_flight`]) the device may read it once more, to
    /// repeat a packet: write only when that cannot matter, which is so when the peer has answered
    /// the message. (It is the message that would suffer; the memory is there in any case.)
    #[inline]
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

/// Memory that RDMA Reads place the peer's bytes in.
pub(crate) struct ReadBuf(ManuallyDrop<KBox<Buffer>>);

owned_buffer!(ReadBuf, Way::In);

impl ReadBuf {
    /// What was read, once no RDMA Read into the buffer is outstanding.
    #[inline]
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        if self.in_flight() {
            return None;
        }
        self.0.take(self.0.len());
        Some(self.0.bytes())
    }
}
