// SPDX-License-Identifier: GPL-2.0

//! The removal of a device.
//!
//! `ib_core` calls [`Removal::device_removed`] for each lease, and then waits until all leases of
//! the device are dropped. A connection holds its lease through its protection domain, so the
//! removal ends when the transport has closed the connection.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::lifecycle::Lifecycle;
use super::role::XprtRef;
use crate::proto::conn::Event;
use crate::rdma::device::{Device, Lease, Name, Registration, Removal};

/// Closes a connection whose device is going away.
struct CloseOnRemoval<O: XprtRef> {
    owner: O,
    device: Name,
    /// An attempt to connect waits here, and the removal has to wait for its end.
    lifecycle: Arc<Lifecycle<O>>,
}

/// Leases `device` for a connection of `owner`. May sleep.
///
/// # Errors
///
/// `ENETUNREACH` if the device is going away already; `ENOMEM`.
pub(crate) fn lease<O: XprtRef>(
    devices: &Registration,
    device: &Device,
    owner: O,
    lifecycle: &Arc<Lifecycle<O>>,
) -> Result<Lease> {
    let closer = CloseOnRemoval {
        owner,
        device: device.name(),
        lifecycle: lifecycle.clone(),
    };
    devices.lease(device, Arc::new(closer, GFP_KERNEL)?)
}

impl<O: XprtRef> Removal for CloseOnRemoval<O> {
    fn device_removed(&self) {
        self.owner.trace_removal(&self.device);
        // The connection manager learns of the removal after `ib_core`'s other clients. That is too
        // late for an attempt that waits for the peer's answer. A connection that is being closed
        // drops its lease by itself, and the transport may have the next one, on another device.
        self.lifecycle.end(Event::DeviceRemoval);
        self.owner.device_removed();
    }
}
