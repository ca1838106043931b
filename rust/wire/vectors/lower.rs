// SPDX-License-Identifier: GPL-2.0

//! A call of version two that is sent again in version one.

use super::super::v2::to_version_one;
use super::super::{EncodeError, Limits, Message, Version};
use super::{ensure, v1, v2};

type Check = Result<(), &'static str>;

/// Writes vectors of version two in version one, and compares what a peer decodes.
///
/// # Errors
///
/// The name of the first vector that fails.
//~ V2-5.2-6 requester picks a version of the range
pub fn check() -> Check {
    same(&v2::MSG_INLINE)?;
    same(&v2::NOMSG_REPLY)?;
    let mut out = [0xee; 64];
    for other in [
        &v2::ERR_VERS[..],
        &v2::OPTIONAL,
        &v1::MSG_INLINE,
        &[],
        &[0; 16],
    ] {
        ensure!(
            to_version_one(other, &mut out) == Err(EncodeError::NoRoom),
            "not a message with lists"
        );
    }
    let short = to_version_one(&v2::MSG_INLINE, &mut [0; 35]);
    ensure!(short == Err(EncodeError::NoRoom), "no room");
    Ok(())
}

fn same(bytes: &[u8]) -> Check {
    let mut out = [0xee; 64];
    let len = to_version_one(bytes, &mut out).map_err(|_| "not written")?;
    let written = out.get(..len).ok_or("length")?;
    let two = Message::decode_as(Version::Two, bytes, &Limits::NONE).map_err(|_| "two")?;
    let one = Message::decode_as(Version::One, written, &Limits::NONE).map_err(|_| "one")?;
    ensure!(one.xid() == two.xid(), "XID");
    ensure!(one.credits() == two.credits(), "credits");
    ensure!(one.body() == two.body(), "lists and RPC message");
    Ok(())
}
