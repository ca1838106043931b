// SPDX-License-Identifier: GPL-2.0

//! The states of a connection, which the connection manager's events change.
//!
//! [`proto::conn`](crate::proto::conn) has the state machine. This file passes events to it, and
//! lets an attempt to connect wait for the next state. On the side that answers a connection
//! request no task waits: there, each event that ends the connection makes the transport close it.
//!
//! When a device is removed, `ib_core` reports the removal to each lease, and then waits until all
//! leases of the device are dropped. A connection holds its lease through its protection domain, so
//! the removal ends when the transport has closed the connection.

use kernel::prelude::*;
use kernel::sync::{new_condvar, new_spinlock, Arc, CondVar, CondVarTimeoutResult, SpinLock};
use kernel::time::{msecs_to_jiffies, Jiffies};

use super::role::XprtRef;
use super::traced;
use crate::compat::code::EHOSTUNREACH;
use crate::observe::trace;
use crate::proto::conn::{Conn, Event, Failure, State, Step};
use crate::rdma::cm::{CmEvent, CmHandler};
use crate::rdma::device::{Change, Device, Lease, Name, Registration};
use crate::rdma::listen::Request;
use crate::wire::cm_private::{self, Settings};

/// The maximum time in milliseconds until a wait notices that the transport has abandoned the
/// connection.
const ABANDON_POLL_MS: u32 = 1_000;

/// The state of one connection.
#[pin_data]
pub(crate) struct Lifecycle<O: XprtRef> {
    owner: O,
    /// Whether this is the side that answers a connection request.
    answers: bool,
    #[pin]
    progress: SpinLock<Progress>,
    #[pin]
    changed: CondVar,
}

/// The result of the events so far.
struct Progress {
    conn: Conn,
    /// The connection was established.
    was_up: bool,
    /// An event on this side ended the connection.
    ended_here: bool,
    /// The peer's private data, if the peer sent any. On the side that requests the connection,
    /// they arrive with the event *established*; on the other side, with the request.
    peer: Option<Settings>,
}

impl<O: XprtRef> Lifecycle<O> {
    /// Makes the state of a connection that has not been started.
    pub(crate) fn new(owner: O) -> impl PinInit<Self> {
        Self::with(owner, false, Conn::new(), None)
    }

    /// Makes the state of a connection that answers `request`.
    pub(crate) fn answering(owner: O, request: &Request) -> impl PinInit<Self> {
        let mut conn = Conn::new();
        conn.on(Event::Request);
        let peer = cm_private::decode(request.private_data());
        Self::with(owner, true, conn, peer)
    }

    fn with(owner: O, answers: bool, conn: Conn, peer: Option<Settings>) -> impl PinInit<Self> {
        let progress = Progress {
            conn,
            was_up: false,
            ended_here: false,
            peer,
        };
        pin_init!(Self {
            owner,
            answers,
            progress <- new_spinlock!(progress, "rpcrdma::Lifecycle::progress"),
            changed <- new_condvar!("rpcrdma::Lifecycle::changed"),
        })
    }

    /// Applies a local event. Any process context; does not sleep.
    pub(crate) fn on(&self, event: Event) {
        self.apply(&mut self.progress.lock(), event);
        self.changed.notify_all();
    }

    /// Applies an event, and orders the close of the connection if the transport uses it and the
    /// event ends it. Any process context; does not sleep.
    fn end(&self, event: Event) {
        self.end_locked(&mut self.progress.lock(), event);
        self.changed.notify_all();
    }

    /// Implements [`Self::end`]. The lock is held until the close is ordered: a transport that
    /// closes the connection itself does so by an event, and makes the next connection, which this
    /// order must not close, only after that.
    fn end_locked(&self, progress: &mut Progress, event: Event) {
        let used = self.answers || progress.conn.state().is_up();
        let step = self.apply(progress, event);
        if used && matches!(step, Step::To(State::Draining)) {
            self.owner.force_close();
        }
    }

    /// Applies `event` to the state machine, and traces the transition.
    fn apply(&self, progress: &mut Progress, event: Event) -> Step {
        let before = progress.conn.state();
        let step = progress.conn.on(event);
        let after = progress.conn.state();
        progress.was_up |= after.is_up();
        // These events originate on this side.
        let here = matches!(
            event,
            Event::DeviceRemoval | Event::AddrChange | Event::Close
        );
        progress.ended_here |= here && matches!(step, Step::To(State::Draining));
        trace::conn_state(traced::peer(&self.owner), event, before, after);
        step
    }

    /// Returns the settings in the peer's private data, if it sent any.
    pub(crate) fn peer(&self) -> Option<Settings> {
        self.progress.lock().peer
    }

    /// Returns the state.
    pub(super) fn state(&self) -> State {
        self.progress.lock().conn.state()
    }

    /// Returns whether the connection has ended, or its end has begun.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state(), State::Draining)
    }

    /// Returns whether this side ended the connection: the device or its address is gone, or the
    /// transport has closed it.
    pub(crate) fn ended_here(&self) -> bool {
        self.progress.lock().ended_here
    }

    /// Returns whether the connection was established.
    pub(super) fn was_up(&self) -> bool {
        self.progress.lock().was_up
    }

    /// Waits until the connection leaves `state`, for at most `left` jiffies and only while the
    /// transport needs the connection. May sleep.
    ///
    /// # Errors
    ///
    /// The reason why the attempt failed; [`Failure::TimedOut`] if no event arrived in time.
    pub(crate) fn wait_past(&self, state: State, mut left: Jiffies) -> Result<(), Failure> {
        let mut progress = self.progress.lock();
        while progress.conn.state() == state {
            if left == 0 {
                self.apply(&mut progress, Event::Timeout);
                break;
            }
            if self.owner.is_abandoned() {
                // An umount waits for this attempt, and no signal interrupts it.
                self.apply(&mut progress, Event::Close);
                break;
            }
            let slice = left.min(msecs_to_jiffies(ABANDON_POLL_MS).max(1));
            // A kernel worker gets no signals, so only an event or the timeout ends this wait.
            let rest = match self
                .changed
                .wait_interruptible_timeout(&mut progress, slice)
            {
                CondVarTimeoutResult::Timeout => 0,
                CondVarTimeoutResult::Woken { jiffies }
                | CondVarTimeoutResult::Signal { jiffies } => jiffies,
            };
            left -= slice - rest.min(slice);
        }
        progress.conn.failure().map_or(Ok(()), Err)
    }

    /// Leases `device` for the connection. The connection ends when `port` loses its link; `None`
    /// lets the queue pair repeat its packets until the link is back or the retries are used up.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `EHOSTUNREACH` if `port` has no link; `ENETUNREACH` if the device is being removed;
    /// `ENOMEM`.
    pub(crate) fn lease(
        self: &Arc<Self>,
        devices: &Registration,
        device: &Device,
        port: Option<u32>,
    ) -> Result<Lease> {
        let (this, name) = (self.clone(), device.name());
        let changed = move |change| match change {
            Change::Removed => this.device_removed(&name),
            Change::PortDown(down) if port == Some(down) => this.end(Event::AddrChange),
            Change::PortDown(_) => {}
        };
        let lease = devices.lease(device, Arc::new(changed, GFP_KERNEL)?)?;
        match port {
            // The link was lost before the lease reported changes.
            Some(port) if !device.is_active(port) => Err(EHOSTUNREACH),
            _ => Ok(lease),
        }
    }

    /// Closes the connection, whose device is being removed. May sleep.
    fn device_removed(&self, device: &Name) {
        self.owner.trace_removal(device);
        // The connection manager is notified of the removal after the other clients of `ib_core`,
        // which is too late for an attempt that waits for the peer's answer. A connection that is
        // being closed drops its lease itself, and the transport may already have the next
        // connection, on another device.
        self.end(Event::DeviceRemoval);
        self.owner.device_removed();
    }
}

impl<O: XprtRef> CmHandler for Lifecycle<O> {
    fn event(&self, event: CmEvent<'_>) {
        let mut progress = self.progress.lock();
        match event {
            CmEvent::Established { private_data, .. } if !self.answers => {
                progress.peer = cm_private::decode(private_data);
            }
            _ => {}
        }
        let Some(event) = state_event(&event) else {
            return;
        };
        self.end_locked(&mut progress, event);
        drop(progress);
        self.changed.notify_all();
    }
}

/// Translates an event of the connection manager for the state machine; `None` for an event that
/// changes nothing.
fn state_event(event: &CmEvent<'_>) -> Option<Event> {
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

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_conn_lifecycle)]
mod tests {
    use super::*;
    use crate::mem::SockAddr;
    use crate::observe::trace::Peer;
    use kernel::sync::atomic::{Atomic, Relaxed};

    /// A transport that counts how often it is to close its connection.
    struct Counting(Arc<Atomic<u32>>);

    impl XprtRef for Counting {
        fn peer(&self) -> Peer {
            Peer::new(&"192.0.2.1", 20049)
        }

        fn address(&self) -> SockAddr {
            SockAddr::new([192, 0, 2, 1], 20049)
        }

        fn is_abandoned(&self) -> bool {
            false
        }

        fn force_close(&self) {
            self.0.fetch_add(1, Relaxed);
        }

        fn set_credits(&self, _credits: u32) -> bool {
            true
        }
    }

    /// Returns how often a connection that these events have changed is closed when its device is
    /// removed and the peer disconnects.
    fn closes(events: &[Event]) -> Result<u32> {
        let count = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let lifecycle = Lifecycle::new(Counting(count.clone()));
        let lifecycle = KBox::pin_init(lifecycle, GFP_KERNEL)?;
        for event in events {
            lifecycle.on(*event);
        }
        lifecycle.end(Event::DeviceRemoval);
        lifecycle.end(Event::Disconnected);
        Ok(count.load(Relaxed))
    }

    #[test]
    fn connection_in_use_is_closed() -> Result {
        let up = [
            Event::Start,
            Event::AddrResolved,
            Event::RouteResolved,
            Event::Established,
        ];
        assert_eq!(closes(&up)?, 1);
        Ok(())
    }

    #[test]
    fn transport_that_has_closed_it_keeps_the_next_one() -> Result {
        let closed = [
            Event::Start,
            Event::AddrResolved,
            Event::RouteResolved,
            Event::Established,
            Event::Close,
        ];
        assert_eq!(closes(&closed)?, 0);
        // An attempt fails by itself.
        assert_eq!(closes(&[Event::Start, Event::AddrResolved])?, 0);
        Ok(())
    }
}
