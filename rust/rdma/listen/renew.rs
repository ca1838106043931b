// SPDX-License-Identifier: GPL-2.0

//! The start of a listener, and its worker, which drops what has been lost and listens again.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::msecs_to_jiffies;
use kernel::workqueue::WorkItem;

use super::state::{Listening, State, AT_ONCE, RETRY};
use super::{event, ident};
use crate::mem::Net;

/// The time in milliseconds between two attempts to listen again.
const RETRY_MS: u32 = 1000;

/// Starts to listen. May sleep.
///
/// # Errors
///
/// Those of [`Listener::new`](super::Listener::new).
pub(super) fn start(state: &Arc<State>, net: &Net) -> Result {
    let id = event::ident(state, net)?;
    let mut listening = state.listening.lock();
    listening.id = Some(id);
    listening.bring_up()
}

impl WorkItem<AT_ONCE> for State {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // Requests that have gone keep a device from being removed.
        this.requests.drop_gone();
        renew(&this);
    }
}

impl WorkItem<RETRY> for State {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        renew(&this);
    }
}

/// Listens again with a new identifier, if the one in use is lost. May sleep.
fn renew(state: &Arc<State>) {
    let mut listening = state.listening.lock();
    if listening.up && !state.is_lost() {
        return;
    }
    let Some(replaced) = replace(state, &mut listening) else {
        // The listener has ended.
        return;
    };
    if replaced.and_then(|()| listening.bring_up()).is_ok() {
        drop(listening);
        return state.handler.restored();
    }
    // The lock is held, so that the end of the listener, which takes the lock first, finds this
    // item queued.
    state.clone().wake_after(msecs_to_jiffies(RETRY_MS).max(1));
}

/// Replaces the identifier of a listener by one that is not bound. Returns `None` if there is no
/// identifier. May sleep.
///
/// # Errors
///
/// `ENOMEM`; the old identifier is still there.
fn replace(state: &Arc<State>, listening: &mut Listening) -> Option<Result> {
    listening.up = false;
    let fresh = event::ident(state, ident::net(listening.id.as_ref()?));
    Some(fresh.map(|fresh| {
        // The old identifier holds the port, and keeps its device from being removed.
        drop(listening.id.replace(fresh));
        // No event of the old identifier follows, and an identifier that is not bound has none.
        state.forget_lost();
    }))
}
