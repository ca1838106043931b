// SPDX-License-Identifier: GPL-2.0

//! The states of one connection, and the events that change them.
//!
//! ```text
//!    ┌────────────────────────────────────────────────────┐
//!    │ request                                            │
//!    │        start       addr_resolved   route_resolved  ▼ established
//!   Idle ────────► Resolving ──────► Routing ───────► Connecting ───────► Up
//!    │                │                │                  │     message    │
//!    └────────────────┴────────────────┴────────┬─────────┴────────────────┘
//!                                               │ any failure, close, removal
//!                                               ▼
//!                                            Draining
//! ```
//!
//! The requesting side goes through all states. The side that answers a connection request begins
//! in Connecting. The peer regards the connection as established before this side does, so the
//! peer's first message may arrive before the event *established*, or instead of it.
//!
//! A connection is used once: a reconnect makes a new one. Draining lasts until no work request is
//! outstanding. Memory may be unmapped and objects may be destroyed only after that. Events that
//! arrive in Draining are late, and are ignored.

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Created, not started.
    Idle,
    /// Waiting for the address to be resolved.
    Resolving,
    /// Waiting for the route to be resolved.
    Routing,
    /// Waiting for the peer's answer, or for the end of the handshake on the side that answers.
    Connecting,
    /// Usable.
    Up,
    /// Ended. Outstanding work requests are being flushed, or were flushed. Final.
    Draining,
}

/// An event of a connection. Where `enum rdma_cm_event_type` in `include/rdma/rdma_cm.h` has a
/// counterpart, the name follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Local: begin to connect.
    Start,
    /// The address was resolved.
    AddrResolved,
    /// The address could not be resolved.
    AddrError,
    /// The route was resolved.
    RouteResolved,
    /// The route could not be resolved.
    RouteError,
    /// Local: begin to answer a connection request.
    Request,
    /// The peer has accepted, or knows that this side has accepted.
    Established,
    /// The first message of the peer has arrived, on the side that answers.
    Message,
    /// The attempt failed for a local or protocol reason.
    ConnectError,
    /// The peer's host did not answer. Once the connection is up: the Ethernet address of the
    /// peer's host is no longer the one that the connection is bound to (RoCE).
    Unreachable,
    /// The peer refused: it does not listen, or accepts no more connections. Once the connection is
    /// up: the peer left before our last message of the handshake reached it.
    Rejected,
    /// The peer refused because it still keeps an earlier connection of ours.
    RejectedStale,
    /// Local: a step took too long.
    Timeout,
    /// The peer or the fabric has ended the connection, or a queue pair failed.
    Disconnected,
    /// The device is being removed.
    DeviceRemoval,
    /// The address has moved to another device.
    AddrChange,
    /// Local: close the connection.
    Close,
}

/// Why a connection ended, in the classes that callers of SUNRPC distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `ECONNREFUSED`: the peer refused.
    Refused,
    /// `ENETUNREACH`: there is no route to the peer, or the device was removed.
    Unreachable,
    /// `ENOTCONN`: the connection was lost, or another attempt should follow at once.
    NotConnected,
    /// `ETIMEDOUT`: no answer in time.
    TimedOut,
    /// `EPROTO`: RDMA cannot use the address.
    Protocol,
}

/// The effect of an event on a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Go to another state.
    To(State),
    /// The event is late; nothing changes.
    Ignore,
    /// The event cannot happen in this state: a bug here or in the connection manager. Nothing
    /// changes.
    Invalid,
}

/// The transition table: `event: states => state`.
macro_rules! transitions {
    ($($event:ident: $($from:ident)|+ => $to:ident;)+) => {
        /// Returns the effect of `event` in state `self`.
        pub const fn on(self, event: Event) -> Step {
            match (event, self) {
                $($((Event::$event, State::$from))|+ => Step::To(State::$to),)+
                (_, State::Draining) => Step::Ignore,
                // The other event came first.
                (Event::Established | Event::Message, State::Up) => Step::Ignore,
                _ => Step::Invalid,
            }
        }
    };
}

impl State {
    transitions! {
        Start:         Idle => Resolving;
        AddrResolved:  Resolving => Routing;
        AddrError:     Resolving => Draining;
        RouteResolved: Routing => Connecting;
        RouteError:    Routing => Draining;
        Request:       Idle => Connecting;
        Established:   Connecting => Up;
        Message:       Connecting => Up;
        ConnectError:  Resolving | Routing | Connecting | Up => Draining;
        Unreachable:   Resolving | Routing | Connecting | Up => Draining;
        Rejected:      Connecting | Up => Draining;
        RejectedStale: Connecting | Up => Draining;
        Timeout:       Resolving | Routing | Connecting => Draining;
        Disconnected:  Connecting | Up => Draining;
        DeviceRemoval: Idle | Resolving | Routing | Connecting | Up => Draining;
        AddrChange:    Resolving | Routing | Connecting | Up => Draining;
        Close:         Idle | Resolving | Routing | Connecting | Up => Draining;
    }

    /// Returns whether Sends may be posted.
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Up)
    }
}

impl Event {
    /// Returns the failure that this event means for RPCs that wait for the connection, if it is
    /// one.
    pub const fn failure(self) -> Option<Failure> {
        match self {
            Self::Rejected => Some(Failure::Refused),
            Self::Unreachable | Self::RouteError | Self::DeviceRemoval => {
                Some(Failure::Unreachable)
            }
            Self::AddrError => Some(Failure::Protocol),
            Self::Timeout => Some(Failure::TimedOut),
            Self::ConnectError
            | Self::RejectedStale
            | Self::Disconnected
            | Self::AddrChange
            | Self::Close => Some(Failure::NotConnected),
            Self::Start
            | Self::AddrResolved
            | Self::RouteResolved
            | Self::Request
            | Self::Established
            | Self::Message => None,
        }
    }
}

/// A connection's state, with the reason for its end.
///
/// # Invariants
///
/// `failure` is set once, by the event that leads to [`State::Draining`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conn {
    state: State,
    failure: Option<Failure>,
}

impl Conn {
    /// Makes a connection that has not been started.
    pub const fn new() -> Self {
        Self {
            state: State::Idle,
            failure: None,
        }
    }

    /// Changes the state by an event.
    pub fn on(&mut self, event: Event) -> Step {
        let step = self.state.on(event);
        if let Step::To(state) = step {
            // INVARIANT: `failure` is set by the event that leads to Draining, and no event with a
            // failure leaves that state.
            self.failure = self.failure.or(event.failure());
            self.state = state;
        }
        step
    }

    /// Returns the state of the connection.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Returns why the connection ended, once it has.
    pub const fn failure(&self) -> Option<Failure> {
        self.failure
    }
}
