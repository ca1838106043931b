// SPDX-License-Identifier: GPL-2.0

//! Messages to be sent.

use crate::rdma::scatter::Source;
use crate::rdma::send::SendBuf;

/// A message to be sent, behind RDMA Writes if it has a source.
pub(crate) struct Outgoing {
    pub(crate) buf: SendBuf,
    pub(crate) len: usize,
    pub(crate) source: Option<Source>,
    /// Whether the RDMA Writes go to a reply chunk.
    pub(crate) long: bool,
    /// The R_key to be invalidated.
    pub(crate) rkey: Option<u32>,
}

impl Outgoing {
    /// Makes a message without RDMA Writes, which invalidates nothing.
    pub(crate) fn inline(buf: SendBuf, len: usize) -> Self {
        Self {
            buf,
            len,
            source: None,
            long: false,
            rkey: None,
        }
    }
}
