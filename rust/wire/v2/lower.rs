// SPDX-License-Identifier: GPL-2.0

//! A message of version two, written in version one.
//!
//! A responder that has no version two answers the first call with ERR_VERS. The requester then
//! sends the same call again in version one (version two, section 5.2). Both versions write chunk
//! lists alike, and the segments are still valid, so only the header's first words change.

use super::super::message::Proc;
use super::super::{EncodeError, Prefix, Version};
use super::len;

/// Writes `message`, which is RDMA2_MSG or RDMA2_NOMSG, to `out` as RDMA_MSG or RDMA_NOMSG. Returns
/// the length.
///
/// # Errors
///
/// [`EncodeError`] if `out` is too short, or if `message` is not of these types and version.
//= V2-5.2-6 requester picks a version of the range
pub fn to_version_one(message: &[u8], out: &mut [u8]) -> Result<usize, EncodeError> {
    let (prefix, rest) = message.split_first_chunk().ok_or(EncodeError::NoRoom)?;
    let prefix = Prefix::from_bytes(prefix);
    // CAST: the discriminants of a `repr(u32)` enum.
    let has_lists = [Proc::Msg as u32, Proc::Nomsg as u32].contains(&prefix.proc);
    if prefix.version != Version::Two.number() || !has_lists {
        return Err(EncodeError::NoRoom);
    }
    let lists = rest.get(len::DIRECTION..).ok_or(EncodeError::NoRoom)?;
    let version = Version::One.number();
    let (head, tail) = out.split_first_chunk_mut().ok_or(EncodeError::NoRoom)?;
    *head = Prefix { version, ..prefix }.to_bytes();
    tail.get_mut(..lists.len())
        .ok_or(EncodeError::NoRoom)?
        .copy_from_slice(lists);
    Ok(message.len().saturating_sub(len::DIRECTION))
}
