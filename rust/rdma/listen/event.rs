// SPDX-License-Identifier: GPL-2.0

//! The connection manager's callback for a listener.

use core::ptr::NonNull;

use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;
use kernel::sync::{Arc, ArcBorrow};

use super::queue::Refusal;
use super::request::Request;
use super::state::State;
use super::Lost;
use crate::mem::Net;
use crate::raw as bindings;
use crate::rdma::cm::OwnedId;

/// The result of a callback after which the connection manager keeps the identifier.
const KEEP: c_int = 0;
/// The result of a callback after which the connection manager destroys the identifier. If it came
/// with a request, that rejects the request.
const DESTROY: c_int = 1;

/// Makes an identifier whose events go to the listener with `state`. May sleep.
///
/// The caller stores the identifier in [`State::listening`].
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn ident(state: &Arc<State>, net: &Net) -> Result<OwnedId> {
    let context = Arc::as_ptr(state).cast_mut().cast::<c_void>();
    // SAFETY: The context is a `State` in an `Arc`, as `on_event` expects. `State::end` destroys
    // the identifier, and the listener keeps the state until then.
    unsafe { OwnedId::new(net, on_event, context) }
}

/// Queues a connection request, or notes that the listener is lost.
///
/// # Safety
///
/// Called by the connection manager, for a listening identifier whose context is a [`State`] in an
/// [`Arc`], or for one that came with a request to it.
unsafe extern "C" fn on_event(
    id: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    // SAFETY: The connection manager passes a valid identifier and a valid event.
    let (context, event) = unsafe { ((*id).context, &*event) };
    // SAFETY: The identifier of a request has the listener's context, so the caller promises that
    // the context points to the `State` in an `Arc`. That exists as long as the listener's
    // identifier, whose destruction waits for this callback.
    let state = unsafe { ArcBorrow::from_raw(context.cast_const().cast::<State>()) };
    match event.event {
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST => {
            let Some(id) = NonNull::new(id) else {
                return DESTROY;
            };
            // SAFETY: This is the handler of the request. `request` returns `KEEP` if it has taken
            // the identifier.
            unsafe { request(state, id, event) }
        }
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => {
            lose(state, Lost::DeviceRemoved)
        }
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE => lose(state, Lost::AddressMoved),
        _ => KEEP,
    }
}

/// Queues a connection request, or returns [`DESTROY`].
///
/// # Safety
///
/// Called from the handler of the identifier's connection request, `event`. The handler returns the
/// result of this function.
unsafe fn request(
    state: ArcBorrow<'_, State>,
    id: NonNull<bindings::rdma_cm_id>,
    event: &bindings::rdma_cm_event,
) -> c_int {
    let queued = state.requests.push(|| {
        // SAFETY: The caller promises that this is the request's handler. After success this
        // function returns `KEEP`, which is 0; `push` then keeps the request.
        unsafe { Request::take(id, event, Arc::from(state)) }
    });
    match queued {
        Ok(()) => {
            state.handler.request_queued();
            KEEP
        }
        Err(Refusal::Full) => {
            state.handler.refused();
            DESTROY
        }
        Err(Refusal::NoMemory) => DESTROY,
    }
}

/// Has the listener's worker destroy the identifier. It cannot be destroyed by the result of the
/// callback, because the task that drops the listener may be destroying it at the same time.
fn lose(state: ArcBorrow<'_, State>, why: Lost) -> c_int {
    state.handler.lost(why);
    state.note_lost();
    Arc::from(state).wake();
    KEEP
}
