// SPDX-License-Identifier: GPL-2.0

//! What the connection manager reports about one connection.

use kernel::prelude::*;
use kernel::sync::{new_condvar, new_spinlock, CondVar, CondVarTimeoutResult, SpinLock};
use kernel::time::{msecs_to_jiffies, Jiffies};

use super::names;
use super::transport::Client;
use crate::observe::trace;
use crate::proto::conn::{Conn, Event, Failure, State, Step};
use crate::rdma::cm::{CmEvent, CmHandler};
use crate::sunrpc::xprt::XprtHandle;
use crate::wire::cm_private::{self, Settings};

/// How often a wait looks whether anybody still wants the connection, in milliseconds.
const LOOK_MS: u32 = 1_000;

/// Follows a connection's life, and wakes who waits for its next step.
#[pin_data]
pub(super) struct Events {
    xprt: XprtHandle<Client>,
    #[pin]
    life: SpinLock<Life>,
    #[pin]
    changed: CondVar,
}

struct Life {
    conn: Conn,
    /// What the peer announced, once established.
    peer: Option<Settings>,
}

impl Events {
    /// For a connection that has not been started.
    pub(super) fn new(xprt: XprtHandle<Client>) -> impl PinInit<Self> {
        pin_init!(Self {
            xprt,
            life <- new_spinlock!(
                Life { conn: Conn::new(), peer: None },
                "rpcrdma::Events::life"
            ),
            changed <- new_condvar!("rpcrdma::Events::changed"),
        })
    }

    /// Lets a local event happen.
    pub(super) fn on(&self, event: Event) {
        self.step(&mut self.life.lock(), event);
        self.changed.notify_all();
    }

    /// What an event does to the connection.
    fn step(&self, life: &mut Life, event: Event) -> Step {
        let before = life.conn.state();
        let step = life.conn.on(event);
        trace::conn_state(names::peer(&self.xprt), event, before, life.conn.state());
        step
    }

    /// What the peer announced in its private data, if anything.
    pub(super) fn peer(&self) -> Option<Settings> {
        self.life.lock().peer
    }

    /// Waits until the connection has left `state`, at most so many jiffies, and no longer than
    /// anybody wants it. May sleep.
    ///
    /// # Errors
    ///
    /// Why the attempt failed, [`Failure::TimedOut`] if nothing happened.
    pub(super) fn wait_past(&self, state: State, mut left: Jiffies) -> Result<(), Failure> {
        let mut life = self.life.lock();
        while life.conn.state() == state {
            if left == 0 {
                self.step(&mut life, Event::Timeout);
                break;
            }
            if self.xprt.is_abandoned() {
                // An umount waits for us, and cannot be interrupted.
                self.step(&mut life, Event::Close);
                break;
            }
            let slice = left.min(msecs_to_jiffies(LOOK_MS).max(1));
            // A kernel worker gets no signals, so this ends by a wake-up or by time alone.
            let rest = match self.changed.wait_interruptible_timeout(&mut life, slice) {
                CondVarTimeoutResult::Timeout => 0,
                CondVarTimeoutResult::Woken { jiffies }
                | CondVarTimeoutResult::Signal { jiffies } => jiffies,
            };
            left -= slice - rest.min(slice);
        }
        match life.conn.failure() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// A connection that was up is lost: SUNRPC closes the transport, which tears it down.
    fn lost(&self, before: State) {
        if before.is_up() {
            self.xprt.force_disconnect();
        }
    }
}

impl CmHandler for Events {
    fn event(&self, event: CmEvent<'_>) {
        let mut life = self.life.lock();
        let before = life.conn.state();
        if let CmEvent::Established { private_data, .. } = event {
            life.peer = cm_private::decode(private_data);
        }
        let Some(event) = translate(&event) else {
            return;
        };
        let step = self.step(&mut life, event);
        drop(life);
        self.changed.notify_all();
        if matches!(step, Step::To(State::Draining)) {
            self.lost(before);
        }
    }
}

/// The event for the state machine. `None` for events that change nothing.
fn translate(event: &CmEvent<'_>) -> Option<Event> {
    Some(match *event {
        CmEvent::AddrResolved => Event::AddrResolved,
        CmEvent::AddrError(_) => Event::AddrError,
        CmEvent::RouteResolved => Event::RouteResolved,
        CmEvent::RouteError(_) => Event::RouteError,
        CmEvent::Established { .. } => Event::Established,
        CmEvent::ConnectError(_) => Event::ConnectError,
        CmEvent::Unreachable(_) => Event::Unreachable,
        CmEvent::Rejected { stale: true, .. } => Event::RejectedStale,
        CmEvent::Rejected { .. } => Event::Rejected,
        CmEvent::Disconnected => Event::Disconnected,
        CmEvent::DeviceRemoval => Event::DeviceRemoval,
        CmEvent::AddrChange => Event::AddrChange,
        _ => return None,
    })
}
