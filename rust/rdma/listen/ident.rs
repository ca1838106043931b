// SPDX-License-Identifier: GPL-2.0

//! What a listener asks of the connection manager.

use kernel::error::to_result;
use kernel::prelude::*;

use crate::mem::{Net, SockAddr};
use crate::raw as bindings;
use crate::rdma::cm::OwnedId;

/// Returns the namespace of an identifier.
pub(super) fn net(id: &OwnedId) -> &Net {
    // SAFETY: By the invariant of `OwnedId` the identifier is valid. It was created for a
    // namespace, to which it has a reference; the field does not change.
    unsafe { Net::from_raw((*id.as_ptr()).route.addr.dev_addr.net) }
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
