// SPDX-License-Identifier: GPL-2.0

//! Every event in every state of a connection.

use super::super::conn::{Conn, Event, Failure, State, Step};
use super::ensure;

/// All states.
const STATES: [State; 6] = [
    State::Idle,
    State::Resolving,
    State::Routing,
    State::Connecting,
    State::Up,
    State::Draining,
];

/// The effect of each event (row) in each state (column), written independently of the transition
/// table: `R`esolving, r`O`uting, `C`onnecting, `U`p, `D`raining; `.` late and ignored; `!`
/// impossible.
///
/// Columns: those of [`STATES`].
pub const TABLE: [(Event, &[u8; 6]); 17] = [
    (Event::Start, b"R!!!!."),
    (Event::AddrResolved, b"!O!!!."),
    (Event::AddrError, b"!D!!!."),
    (Event::RouteResolved, b"!!C!!."),
    (Event::RouteError, b"!!D!!."),
    (Event::Request, b"C!!!!."),
    (Event::Established, b"!!!U.."),
    (Event::Message, b"!!!U.."),
    (Event::ConnectError, b"!DDDD."),
    (Event::Unreachable, b"!DDDD."),
    (Event::Rejected, b"!!!DD."),
    (Event::RejectedStale, b"!!!DD."),
    (Event::Timeout, b"!DDD!."),
    (Event::Disconnected, b"!!!DD."),
    (Event::DeviceRemoval, b"DDDDD."),
    (Event::AddrChange, b"!DDDD."),
    (Event::Close, b"DDDDD."),
];

/// Compares all pairs with the table, and checks the reasons of failures.
///
/// # Errors
///
/// The name of the first case that fails.
pub fn check() -> Result<(), &'static str> {
    for (event, row) in TABLE {
        for (state, &want) in STATES.into_iter().zip(row) {
            ensure!(letter(state.on(event)) == want, "transition");
        }
    }
    check_lives()?;
    check_answers()?;
    check_reasons()
}

fn letter(step: Step) -> u8 {
    match step {
        Step::To(State::Idle) => b'I',
        Step::To(State::Resolving) => b'R',
        Step::To(State::Routing) => b'O',
        Step::To(State::Connecting) => b'C',
        Step::To(State::Up) => b'U',
        Step::To(State::Draining) => b'D',
        Step::Ignore => b'.',
        Step::Invalid => b'!',
    }
}

/// Returns where a new connection gets to by `events`.
fn life(events: &[Event]) -> (State, Option<Failure>) {
    let mut conn = Conn::new();
    for event in events {
        conn.on(*event);
    }
    (conn.state(), conn.failure())
}

/// Checks connections on the side that answers a connection request.
fn check_answers() -> Result<(), &'static str> {
    use Event::*;
    let up = (State::Up, None);
    ensure!(life(&[Request]) == (State::Connecting, None), "answers");
    ensure!(life(&[Request, Established]) == up, "is established");
    ensure!(life(&[Request, Message]) == up, "message first");
    ensure!(life(&[Request, Message, Established]) == up, "event last");
    ensure!(life(&[Request, Established, Message]) == up, "event first");
    let endings = [
        ConnectError,
        Unreachable,
        Rejected,
        RejectedStale,
        Timeout,
        Disconnected,
        DeviceRemoval,
        AddrChange,
        Close,
    ];
    for ending in endings {
        let over = (State::Draining, ending.failure());
        ensure!(life(&[Request, ending]) == over, "every ending ends");
        ensure!(life(&[Request, ending, Message]) == over, "late message");
        let answered = life(&[Request, Message, ending]);
        ensure!(ending == Timeout || answered == over, "ends when up");
    }
    Ok(())
}

fn check_lives() -> Result<(), &'static str> {
    use Event::*;
    let up = [Start, AddrResolved, RouteResolved, Established];
    ensure!(life(&up) == (State::Up, None), "comes up");
    let lost = [
        Start,
        AddrResolved,
        RouteResolved,
        Established,
        Disconnected,
        Close,
    ];
    let reason = Some(Failure::NotConnected);
    ensure!(life(&lost) == (State::Draining, reason), "is lost");
    let first = [
        Start,
        AddrResolved,
        RouteResolved,
        Rejected,
        DeviceRemoval,
        Timeout,
    ];
    let reason = Some(Failure::Refused);
    ensure!(
        life(&first) == (State::Draining, reason),
        "first reason stays"
    );
    let late = [Start, Timeout, Established, AddrResolved];
    let reason = Some(Failure::TimedOut);
    ensure!(life(&late) == (State::Draining, reason), "late success");
    Ok(())
}

fn check_reasons() -> Result<(), &'static str> {
    const REASONS: [(Event, Failure); 11] = [
        (Event::AddrError, Failure::Protocol),
        (Event::RouteError, Failure::Unreachable),
        (Event::ConnectError, Failure::NotConnected),
        (Event::Unreachable, Failure::Unreachable),
        (Event::Rejected, Failure::Refused),
        (Event::RejectedStale, Failure::NotConnected),
        (Event::Timeout, Failure::TimedOut),
        (Event::Disconnected, Failure::NotConnected),
        (Event::DeviceRemoval, Failure::Unreachable),
        (Event::AddrChange, Failure::NotConnected),
        (Event::Close, Failure::NotConnected),
    ];
    for (event, failure) in REASONS {
        ensure!(event.failure() == Some(failure), "failure");
    }
    for state in STATES {
        ensure!(state.is_up() == (state == State::Up), "up");
    }
    Ok(())
}
