// SPDX-License-Identifier: GPL-2.0

//! The removal of a device.
//!
//! `ib_core` reports the removal to each lease, and then waits until all leases of the device are
//! dropped. A connection holds its lease through its protection domain, so the
//! removal ends when the transport has closed the connection.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::lifecycle::Lifecycle;
use super::role::XprtRef;
use crate::proto::conn::Event;
use crate::rdma::device::{Device, Lease, Registration};

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
    let (name, lifecycle) = (device.name(), lifecycle.clone());
    let removed = move || {
        owner.trace_removal(&name);
        // The connection manager learns of the removal after `ib_core`'s other clients. That is too
        // late for an attempt that waits for the peer's answer. A connection that is being closed
        // drops its lease by itself, and the transport may have the next one, on another device.
        lifecycle.end(Event::DeviceRemoval);
        owner.device_removed();
    };
    devices.lease(device, Arc::new(removed, GFP_KERNEL)?)
}
