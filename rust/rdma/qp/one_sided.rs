// SPDX-License-Identifier: GPL-2.0

//! Posting RDMA Reads and Writes: operations on memory of the peer that consume none of its
//! Receives.

use kernel::prelude::*;

use super::chain::Chain;
use super::{Completions, PostError, Qp, Tag};
use crate::raw as bindings;
use crate::rdma::buffer::Buffer;
use crate::rdma::send::{ReadBuf, SendBuf};

/// Memory of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    /// Address of the first byte, as the peer sent it.
    pub(crate) addr: u64,
    /// R_key, as the peer sent it.
    pub(crate) rkey: u32,
}

impl<C: Completions> Qp<C> {
    /// Posts an RDMA Read of `len` bytes from the peer's memory to the start of `buf`, and returns
    /// its position. [`Completions::sent`] reports it.
    ///
    /// # Errors
    ///
    /// See [`PostError`].
    #[allow(dead_code, reason = "for the sample rdma_ping")]
    pub(crate) fn post_read(
        &self,
        tag: Tag,
        buf: &mut ReadBuf,
        len: usize,
        from: Remote,
    ) -> Result<u64, PostError> {
        let opcode = bindings::ib_wr_opcode_IB_WR_RDMA_READ;
        self.post_rdma(tag, opcode, buf.buffer(), len, from, true)
    }

    /// Posts an RDMA Write of the first `len` bytes of `buf` to the peer's memory, and returns its
    /// position. With `signal`, [`Completions::sent`] reports it.
    ///
    /// # Errors
    ///
    /// See [`PostError`].
    #[allow(dead_code, reason = "for the sample rdma_ping")]
    pub(crate) fn post_write(
        &self,
        tag: Tag,
        buf: &mut SendBuf,
        len: usize,
        to: Remote,
        signal: bool,
    ) -> Result<u64, PostError> {
        let opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
        self.post_rdma(tag, opcode, buf.buffer(), len, to, signal)
    }

    fn post_rdma(
        &self,
        tag: Tag,
        opcode: bindings::ib_wr_opcode,
        buffer: &mut Buffer,
        len: usize,
        remote: Remote,
        signal: bool,
    ) -> Result<u64, PostError> {
        let mut wr = bindings::ib_rdma_wr {
            remote_addr: remote.addr,
            rkey: remote.rkey,
            ..pin_init::zeroed()
        };
        wr.wr.opcode = opcode;
        self.post_one(tag, &mut wr, buffer, len, signal)
    }

    /// Posts an RDMA Write of no bytes, signalled, and returns its position.
    ///
    /// Over InfiniBand and RoCE it completes only if the peer's end of the connection acknowledges
    /// it. It needs no memory of the peer, because R_key and address of a Write of no bytes are not
    /// checked (InfiniBand Architecture, C9-88), and consumes none of its Receives. Over iWARP,
    /// where peers may start a connection with such a Write (RFC 6581), its completion only says
    /// that it was sent.
    ///
    /// # Errors
    ///
    /// See [`PostError`].
    pub(crate) fn post_probe(&self, tag: Tag) -> Result<u64, PostError> {
        let mut wr = bindings::ib_rdma_wr {
            ..pin_init::zeroed()
        };
        wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
        wr.wr.__bindgen_anon_1.wr_cqe = self.inner().tags.entry(tag)?;
        let mut chain = Chain::new();
        chain.add(&raw mut wr.wr);
        // SAFETY: The work request is on the stack during the call, and refers to no memory.
        unsafe { self.submit(&chain, tag, true) }
    }
}
