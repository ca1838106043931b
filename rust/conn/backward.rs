// SPDX-License-Identifier: GPL-2.0

//! Messages in the backward direction, which the server of a connection calls and its client
//! answers (RFC 8167).
//!
//! Such a message is sent inline as a whole, from a buffer that the connection has for this
//! purpose. The caller writes it, because only the caller knows the form of an RPC message.

use kernel::prelude::*;

use super::connection::Connection;
use super::role::Role;
use crate::rdma::qp::{PostError, Tag};
use crate::rdma::send::SendBuf;
use crate::wire::EncodeError;

/// Why a message was not posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unposted {
    /// The device may still be reading from every buffer.
    NoBuffer,
    /// The message could not be written.
    Unwritten,
    /// The queue pair has not taken it.
    Refused(PostError),
}

impl<R: Role> Connection<R> {
    /// Calls `write` with a buffer that the device is not reading, and posts the message that it
    /// has written, whose length it returns. Does not sleep; `write` must not sleep either.
    ///
    /// # Errors
    ///
    /// See [`Unposted`].
    pub(crate) fn post_backward(
        &self,
        tag: Tag,
        write: impl FnOnce(&mut [u8]) -> Result<usize>,
    ) -> Result<(), Unposted> {
        self.replies()
            .with_free(|out, signalled| self.post_from((tag, signalled), write, out))
            .unwrap_or(Err(Unposted::NoBuffer))
    }

    fn post_from(
        &self,
        (tag, signalled): (Tag, bool),
        write: impl FnOnce(&mut [u8]) -> Result<usize>,
        out: &mut SendBuf,
    ) -> Result<(), Unposted> {
        let len = write(out.as_mut_slice()).map_err(|_| Unposted::Unwritten)?;
        let no_regions = core::iter::empty();
        let posted = self.qp().post_send(tag, no_regions, out, len, signalled);
        posted.map(|_| ()).map_err(Unposted::Refused)
    }
}

/// Writes a header and, behind it, an RPC message of `len` bytes. Returns the length of both.
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
