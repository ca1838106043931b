// SPDX-License-Identifier: GPL-2.0

//! The message of the ping: R_keys and addresses of the client's memory.

use kernel::prelude::*;

use crate::rdma::mr::Mr;
use crate::rdma::qp::Remote;

/// Length of a message in bytes.
pub(crate) const LEN: usize = 32;

/// Memory of the client for the server to read and write.
#[derive(Clone, Copy)]
pub(crate) struct Offer {
    /// Memory for the server to read.
    pub(crate) read: Remote,
    /// Memory for the server to write.
    pub(crate) write: Remote,
    /// Length in bytes of each of the two.
    pub(crate) len: u32,
    /// Seed of the memory's contents.
    pub(crate) seed: u32,
}

impl Offer {
    /// Makes an offer of the memory that two regions map.
    pub(crate) fn new(read: &Mr, write: &Mr, seed: u32) -> Self {
        let remote = |mr: &Mr| Remote {
            addr: mr.iova(),
            rkey: mr.rkey(),
        };
        Self {
            read: remote(read),
            write: remote(write),
            len: read.len(),
            seed,
        }
    }

    /// Encodes the message.
    pub(crate) fn encode(&self) -> [u8; LEN] {
        let mut out = [0; LEN];
        let fields = [
            (self.read.addr >> 32) as u32,
            self.read.addr as u32,
            self.read.rkey,
            (self.write.addr >> 32) as u32,
            self.write.addr as u32,
            self.write.rkey,
            self.len,
            self.seed,
        ];
        for (to, field) in out.chunks_exact_mut(4).zip(fields) {
            to.copy_from_slice(&field.to_be_bytes());
        }
        out
    }

    /// Decodes a message.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let field = |n: usize| {
            let word = bytes.get(4 * n..4 * n + 4)?;
            Some(u32::from_be_bytes(word.try_into().ok()?))
        };
        let wide = |n: usize| Some(u64::from(field(n)?) << 32 | u64::from(field(n + 1)?));
        Some(Self {
            read: Remote {
                addr: wide(0)?,
                rkey: field(2)?,
            },
            write: Remote {
                addr: wide(3)?,
                rkey: field(5)?,
            },
            len: field(6)?,
            seed: field(7)?,
        })
    }
}
