// SPDX-License-Identifier: GPL-2.0

//! Events of the connection manager.

use core::ptr::NonNull;

use kernel::ffi::c_int;
use kernel::sync::ArcBorrow;

use super::ident::Context;
use crate::raw as bindings;

/// An event of the connection manager. Statuses are negative errnos.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "for the sample rdma_ping")]
pub(crate) enum CmEvent<'a> {
    /// The address was resolved, and a device was found.
    AddrResolved,
    /// The address was not resolved.
    AddrError(i32),
    /// The route was resolved, so a connection can be requested.
    RouteResolved,
    /// The route was not resolved.
    RouteError(i32),
    /// The connection is established.
    Established {
        /// Private data of the peer, padded with zeroes by the transport.
        private_data: &'a [u8],
    },
    /// The connection could not be established.
    ConnectError(i32),
    /// The peer did not answer. For an established connection: the Ethernet address of the
    /// neighbour has changed.
    Unreachable(i32),
    /// The peer has rejected the connection.
    Rejected {
        /// Whether the peer mistook the request for one of an earlier connection. Another attempt
        /// may succeed.
        stale: bool,
    },
    /// The connection has ended.
    Disconnected,
    /// The device is being removed.
    DeviceRemoval,
    /// The address has moved to another network device.
    AddrChange,
    /// Any other event.
    Other,
}

/// The handler of the events of a cm_id.
///
/// # Examples
///
/// A handler that follows a connection attempt, and wakes the task that waits for it:
///
/// ```
/// impl CmHandler for Events {
///     fn event(&self, event: CmEvent<'_>) {
///         let now = match event {
///             CmEvent::AddrResolved => Progress::AddrResolved,
///             CmEvent::RouteResolved => Progress::RouteResolved,
///             CmEvent::Established { .. } => Progress::Established,
///             CmEvent::Rejected { .. } => Progress::Rejected,
///             CmEvent::Disconnected | CmEvent::DeviceRemoval => Progress::Over,
///             CmEvent::AddrError(status)
///             | CmEvent::RouteError(status)
///             | CmEvent::ConnectError(status)
///             | CmEvent::Unreachable(status) => Progress::Failed(status),
///             _ => return,
///         };
///         self.progress.change(|p| *p = now);
///     }
/// }
/// ```
pub(crate) trait CmHandler: Send + Sync + 'static {
    /// Handles an event. Process context, may sleep. Events of a cm_id arrive one at a time.
    ///
    /// The cm_id is locked meanwhile, so the handler must not call methods of the
    /// [`CmId`](super::CmId) or drop it: such a call would wait for the handler.
    fn event(&self, event: CmEvent<'_>);
}

impl<H: CmHandler> Context for H {
    /// Passes the event to the handler.
    ///
    /// # Safety
    ///
    /// As for [`Context::on_event`].
    unsafe fn on_event(
        this: ArcBorrow<'_, Self>,
        _id: NonNull<bindings::rdma_cm_id>,
        event: &bindings::rdma_cm_event,
    ) -> c_int {
        // SAFETY: The caller promises that the event comes from the connection manager.
        this.event(unsafe { translate(event) });
        // With any other result the connection manager would destroy the cm_id, which `OwnedId`
        // owns.
        0
    }
}

/// Translates an event.
///
/// # Safety
///
/// `event` comes from the connection manager, so its parameters fit its type.
unsafe fn translate(event: &bindings::rdma_cm_event) -> CmEvent<'_> {
    use bindings as b;
    match event.event {
        b::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_RESOLVED => CmEvent::AddrResolved,
        b::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_ERROR => CmEvent::AddrError(event.status),
        b::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_RESOLVED => CmEvent::RouteResolved,
        b::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_ERROR => CmEvent::RouteError(event.status),
        b::rdma_cm_event_type_RDMA_CM_EVENT_ESTABLISHED => {
            // SAFETY: This type of event has the parameters of a connection.
            let (private_data, _) = unsafe { connection(event) };
            CmEvent::Established { private_data }
        }
        b::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_ERROR => CmEvent::ConnectError(event.status),
        b::rdma_cm_event_type_RDMA_CM_EVENT_UNREACHABLE => CmEvent::Unreachable(event.status),
        b::rdma_cm_event_type_RDMA_CM_EVENT_REJECTED => CmEvent::Rejected {
            stale: u32::try_from(event.status) == Ok(b::ib_cm_rej_reason_IB_CM_REJ_STALE_CONN),
        },
        b::rdma_cm_event_type_RDMA_CM_EVENT_DISCONNECTED => CmEvent::Disconnected,
        b::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => CmEvent::DeviceRemoval,
        b::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE => CmEvent::AddrChange,
        _ => CmEvent::Other,
    }
}

/// Returns the private data and the parameters of a connection event.
///
/// # Safety
///
/// `event` comes from the connection manager, and its type is one that has the parameters of a
/// connection.
pub(in super::super) unsafe fn connection(
    event: &bindings::rdma_cm_event,
) -> (&[u8], &bindings::rdma_conn_param) {
    // SAFETY: The caller promises that this member of the union is in use.
    let conn = unsafe { &event.param.conn };
    if conn.private_data.is_null() {
        return (&[], conn);
    }
    // SAFETY: The connection manager passes a pointer to this number of bytes, which is valid as
    // long as the event.
    let data = unsafe {
        core::slice::from_raw_parts(conn.private_data.cast(), conn.private_data_len.into())
    };
    (data, conn)
}
