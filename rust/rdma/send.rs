// SPDX-License-Identifier: GPL-2.0

//! Buffers of send queue work requests: [`SendBuf`] is the source of Sends and RDMA Writes,
//! [`ReadBuf`] the sink of RDMA Reads.

use core::mem::ManuallyDrop;

use kernel::alloc::Flags;
use kernel::dma::DataDirection;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::buffer::Buffer;
use super::pd::Pd;
use super::store::StoredBox;

macro_rules! owned_buffer {
    ($(#[$attr:meta])* $name:ident, $direction:expr) => {
        $(#[$attr])*
        impl $name {
            /// Allocates `len` zeroed bytes, and maps them for the device of `pd`. May sleep if
            /// `gfp` allows it.
            ///
            /// # Errors
            ///
            /// `EINVAL` if `len` is 0 or does not fit a `u32`; `ENOMEM`; `EIO` if the device cannot
            /// map the memory.
            pub(crate) fn new(pd: &Arc<Pd>, len: usize, gfp: Flags) -> Result<Self> {
                let buffer = Buffer::new(pd, len, $direction, gfp)?;
                Ok(Self(ManuallyDrop::new(buffer)))
            }

            /// Returns whether a work request that uses the buffer may still be outstanding.
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
                // SAFETY: This is the destructor, so `self.0` is not used after this.
                Buffer::release(unsafe { ManuallyDrop::take(&mut self.0) });
            }
        }
    };
}

/// Memory from which messages are sent: kmalloc memory that stays mapped for one device.
///
/// It may be dropped at any time. If the device may still be reading it, it is freed when the queue
/// pair has been drained.
///
/// # Context
///
/// Dropping the last object of a [`Pd`] sleeps. A caller that drops buffers in atomic context must
/// therefore keep the `Pd` alive meanwhile, as queue pairs and region pools do.
pub(crate) struct SendBuf(ManuallyDrop<StoredBox<Buffer>>);

owned_buffer!(SendBuf, DataDirection::ToDevice);

impl SendBuf {
    /// Returns the length of the buffer in bytes.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.0.len()
    }

    /// Returns the memory, in which the caller assembles a message.
    ///
    /// Until the Send has completed ([`Self::in_flight`]) the device may read the memory again, to
    /// retransmit a packet. The caller should therefore write only if the Send has completed, or if
    /// the peer has answered the message and so has all of it. Writing earlier is no memory error,
    /// but may corrupt the message.
    #[inline]
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

/// Memory into which RDMA Reads place the bytes of the peer.
#[allow(dead_code, reason = "for the sample rdma_ping")]
pub(crate) struct ReadBuf(ManuallyDrop<StoredBox<Buffer>>);

owned_buffer!(
    #[allow(dead_code, reason = "for the sample rdma_ping")]
    ReadBuf,
    DataDirection::FromDevice
);

#[allow(dead_code, reason = "for the sample rdma_ping")]
impl ReadBuf {
    /// Returns the bytes that were read, or `None` while an RDMA Read into the buffer may be
    /// outstanding.
    #[inline]
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        if self.in_flight() {
            return None;
        }
        self.0.sync_for_cpu(self.0.len());
        Some(self.0.bytes())
    }
}
