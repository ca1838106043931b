// SPDX-License-Identifier: GPL-2.0

//! Runs decoders and state machines on arbitrary bytes, and checks their invariants.
//!
//! Each function is the body of a property test and of a fuzz target.

use std::collections::VecDeque;

mod codec;
mod end;
mod lists;
mod operations;
mod peers;
mod responder;
mod session;

pub use codec::{limits, message, optional, private_data};
pub use lists::{plan, reassembly, reply};
pub use operations::operation;
pub use peers::{characteristics, negotiation};
pub use responder::{grants, intake, respond};
pub use session::{session, settings};

use crate::proto::cases::conn::TABLE;
use crate::proto::cases::window::Flow;
use crate::proto::conn::{Conn, State, Step};
use crate::proto::legacy::done::{Dones, Exposure};
use crate::proto::requester::backoff::{Outage, LONGEST_MS, SHORTEST_MS};

/// Reads numbers from bytes. Returns zeros when no bytes are left.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        byte
    }

    pub(crate) fn word(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// A number that is often small, often near a power of two, and sometimes anything.
    pub(crate) fn number(&mut self) -> u32 {
        match self.byte() {
            n @ 0..=99 => u32::from(n),
            n @ 100..=199 => (1u32 << (n % 32))
                .wrapping_add(u32::from(self.byte() % 8))
                .wrapping_sub(4),
            _ => self.word(),
        }
    }
}

/// Checks credits and RDMA_DONEs: the limit is never exceeded, and sending always resumes.
pub fn windows(data: &[u8]) {
    let mut input = Input::new(data);
    let (mut flow, mut dones) = (Flow::new(), Dones::default());
    let mut limit = 1u32;
    let mut stamps = VecDeque::new();
    let mut exposure = Exposure::new(u32::from(input.byte()));
    let mut exposed = 0u32;
    while !input.is_empty() {
        match input.byte() % 8 {
            0 => {
                let before = flow.available();
                assert_eq!(flow.try_take(), before > 0);
                assert!(before == 0 || flow.in_flight() <= flow.limit());
            }
            1 => {
                let (grant, max) = (input.number(), input.number());
                let news = flow.on_reply(grant, max);
                assert!(!news || flow.available() > 0);
                assert!((1..=max.max(1)).contains(&flow.limit()));
            }
            2 => flow.on_unanswered(),
            3 => {
                let calls = limit.saturating_sub(dones.unconfirmed()).max(1);
                if (stamps.len() as u64) < u64::from(calls) {
                    stamps.push_back(dones.stamp());
                }
            }
            4 => dones.on_due(),
            5 => {
                let (calls, before) = (stamps.len() as u32, dones.unconfirmed());
                if dones.try_send(limit, calls) {
                    assert!(dones.unconfirmed() == before + 1);
                    assert!(u64::from(calls) + u64::from(before) < u64::from(limit));
                }
            }
            6 => {
                // Replies come in any order.
                let at = usize::from(input.byte()) % stamps.len().max(1);
                if let Some(stamp) = stamps.remove(at) {
                    let before = dones.unconfirmed();
                    dones.on_reply(stamp);
                    assert!(dones.unconfirmed() <= before);
                    limit = input.number().max(1);
                }
            }
            _ => expose(&mut input, &mut exposure, &mut exposed),
        }
        assert!(
            flow.in_flight() > 0 || flow.available() > 0,
            "no message may be sent"
        );
    }
}

/// Runs one step of a responder that exposes memory. `exposed` counts the exposed replies.
fn expose(input: &mut Input<'_>, exposure: &mut Exposure, exposed: &mut u32) {
    if input.byte() % 2 == 0 {
        *exposed += u32::from(exposure.try_expose());
    } else {
        assert_eq!(exposure.release(), *exposed > 0);
        *exposed = exposed.saturating_sub(1);
    }
    let credits = input.number();
    assert_eq!(
        exposure.grant(credits),
        credits.saturating_sub(*exposed).max(1)
    );
}

/// Checks connections: Draining is final, the first reason stays, and pauses are within their
/// bounds.
pub fn connections(data: &[u8]) {
    let mut input = Input::new(data);
    let mut conn = Conn::new();
    while !input.is_empty() {
        let (event, _) = TABLE[usize::from(input.byte()) % TABLE.len()];
        let before = conn;
        let step = conn.on(event);
        assert_eq!(matches!(step, Step::To(_)), conn.state() != before.state());
        let ended = conn.state() == State::Draining;
        assert_eq!(conn.failure().is_some(), ended);
        assert!(before.failure().is_none() || before.failure() == conn.failure());
        if ended && before == conn {
            // A connection is used once. The next attempt waits.
            pauses(&mut input);
            conn = Conn::new();
        }
    }
}

/// Checks that pauses are neither too short nor too long for any input, and that a failure is
/// reported in time.
fn pauses(input: &mut Input<'_>) {
    let outage = Outage {
        now: input.word(),
        attempt: input.word(),
        asked: input.word(),
    };
    let (wait, random) = (input.word(), input.word());
    let next = outage.next(random);
    assert!(next <= outage.attempt.saturating_add(LONGEST_MS));
    assert!(next >= outage.attempt.saturating_add(SHORTEST_MS / 2));
    if let Some(again) = outage.again(wait, random) {
        assert!(again >= outage.attempt.saturating_add(SHORTEST_MS / 2));
        assert!(again <= outage.asked.saturating_add(wait).saturating_add(500));
        assert!(again <= next);
    }
}
