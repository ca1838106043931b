// SPDX-License-Identifier: GPL-2.0

//! Prepares a call without the lock of its slot, where mapping memory may take long or sleep.
//!
//! The task takes the contents of the slot, and leaves it in phase Preparing. Nothing else changes
//! a slot in this phase: other tasks find no regions to take back, and the sweep of a closed
//! connection waits for the end of the phase. Mapping allocates without I/O, so it never waits for
//! a connection that the sweep delays.
//!
//! On other devices the lock is held: mapping is a matter of some instructions there, and taking
//! the lock twice costs more than it saves.

use kernel::sync::{Arc, SpinLockGuard};

use super::assemble::MarshalError;
use super::endpoint::Endpoint;
use super::marshal;
use super::request::{Locked, Phase, Request, State};
use super::transport::Client;
use crate::mem::MemallocScope;
use crate::observe::stats::Stats;
use crate::sunrpc::xprt::rqst::Rqst;

/// Prepares a call for the connection of its slot, if there is one. A call that is under way is
/// left alone. `locked` are the contents of the slot. Process context; may sleep.
///
/// # Errors
///
/// Those of [`marshal::prepare`].
#[inline(never)]
pub(super) fn prepare(
    locked: SpinLockGuard<'_, Locked>,
    rqst: &Rqst<'_, Client>,
    stats: &Stats,
) -> Result<(), MarshalError> {
    let request: &Request = rqst.slot().data();
    let Some((ep, mut state)) = begin(request, locked) else {
        return Ok(());
    };
    let noio = MemallocScope::noio();
    let done = marshal::prepare(&ep, rqst, &mut state, stats);
    drop(noio);
    let left = core::mem::replace(&mut request.lock().state, state);
    // The sweep may be waiting.
    request.wake();
    drop(left);
    done
}

/// Takes the contents of a slot that has a connection, and releases the lock. `None` if there is no
/// connection, or the call is under way.
fn begin(
    request: &Request,
    mut locked: SpinLockGuard<'_, Locked>,
) -> Option<(Arc<Endpoint>, State)> {
    // ORDERING: a connection is marked as closed before its sweep takes this lock. So the sweep
    // finds the phase Preparing, or the mark is seen here.
    let ep = locked.ep.as_ref().filter(|ep| !ep.is_closed())?.clone();
    if !matches!(locked.state.phase, Phase::Idle | Phase::Prepared) {
        return None;
    }
    request.begin_use();
    let left = locked.state.while_preparing();
    Some((ep, core::mem::replace(&mut locked.state, left)))
}
