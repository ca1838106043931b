// SPDX-License-Identifier: GPL-2.0

//! Connection Configuration Protocol: RFC 5666 section 6.
//!
//! A separate RPC program with one procedure, CONF_RDMA. RFC 8166 has dropped it in favour of
//! private data ([`super::cm_private`]). This module encodes and decodes the arguments and the
//! results. The RPC layer handles the RPC call and reply around them.

use super::cursor::Cursor;
use super::DecodeError;

/// RPC program number, CONFIG_RDMA_PROG.
//= 5666-6-2 may use Connection Configuration Protocol
pub const PROGRAM: u32 = 100_417;

/// Version of the program.
pub const VERSION: u32 = 1;

/// Procedure CONF_RDMA.
pub const CONF_RDMA: u32 = 1;

/// Bytes of the arguments and of the results.
pub const LEN: usize = 12;

/// Arguments: `struct config_rdma_req`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Longest inline call in bytes that the client asks to send.
    pub maxcall_sendsize: u32,
    /// Longest inline reply in bytes that the client accepts.
    pub maxreply_sendsize: u32,
    /// Maximum number of RDMA Reads that may be active at the client.
    pub maxrdmaread: u32,
}

/// Results: `struct config_rdma_reply`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Longest inline call in bytes that the server accepts.
    pub maxcall_sendsize: u32,
    /// Alignment in bytes that the server recommends for opaque data.
    pub align: u32,
    /// Maximum number of RDMA Reads that may be active at the server.
    pub maxrdmaread: u32,
}

impl Request {
    /// Decodes the arguments.
    ///
    /// # Errors
    ///
    /// [`super::What::Truncated`], or [`super::What::Trailing`] if bytes follow.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let [maxcall_sendsize, maxreply_sendsize, maxrdmaread] = words(bytes)?;
        Ok(Self {
            maxcall_sendsize,
            maxreply_sendsize,
            maxrdmaread,
        })
    }

    /// Encodes the arguments.
    pub const fn encode(&self) -> [u8; LEN] {
        let [a0, a1, a2, a3] = self.maxcall_sendsize.to_be_bytes();
        let [b0, b1, b2, b3] = self.maxreply_sendsize.to_be_bytes();
        let [c0, c1, c2, c3] = self.maxrdmaread.to_be_bytes();
        [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3]
    }
}

impl Reply {
    /// Decodes the results.
    ///
    /// # Errors
    ///
    /// [`super::What::Truncated`], or [`super::What::Trailing`] if bytes follow.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let [maxcall_sendsize, align, maxrdmaread] = words(bytes)?;
        Ok(Self {
            maxcall_sendsize,
            align,
            maxrdmaread,
        })
    }
}

fn words(bytes: &[u8]) -> Result<[u32; 3], DecodeError> {
    let mut c = Cursor::new(bytes);
    let words = [c.word()?, c.word()?, c.word()?];
    c.end()?;
    Ok(words)
}
