// SPDX-License-Identifier: GPL-2.0

//! What a listener asks of the connection manager.

use core::ptr::NonNull;

use kernel::error::to_result;
use kernel::prelude::*;

use crate::mem::{NetRef, SockAddr};
use crate::raw as bindings;
use crate::rdma::cm::OwnedId;

/// Returns the namespace of an identifier.
pub(super) fn net(id: &OwnedId) -> Option<NetRef<'_>> {
    // SAFETY: By the invariant of `OwnedId` the identifier is valid. The field does not change.
    let net = unsafe { (*id.as_ptr()).route.addr.dev_addr.net };
    // SAFETY: The identifier holds a reference to its namespace.
    Some(unsafe { NetRef::new(NonNull::new(net)?) })
}

/// Binds an identifier to `addr`, and begins to listen. May sleep.
///
/// # Errors
///
/// Those of [`Listener::new`](super::Listener::new). The identifier may be bound then.
pub(super) fn listen(id: &OwnedId, addr: &SockAddr, backlog: i32) -> Result {
    if u32::from(addr.family()) == bindings::AF_INET6 {
        // SAFETY: By the invariant of `OwnedId` the identifier is valid.
        to_result(unsafe { bindings::rdma_set_afonly(id.as_ptr(), 1) })?;
    }
    // SAFETY: By the invariant of `OwnedId` the identifier is valid. The address is valid, and is
    // copied.
    to_result(unsafe { bindings::rdma_bind_addr(id.as_ptr(), addr.as_ptr().cast_mut()) })?;
    // SAFETY: By the invariant of `OwnedId` the identifier is valid.
    to_result(unsafe { bindings::rdma_listen(id.as_ptr(), backlog) })
}
