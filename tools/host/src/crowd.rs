// SPDX-License-Identifier: GPL-2.0

//! Simulates a thousand clients of one server that stops and returns.
//!
//! All clients lose the server within a twentieth of a second. An attempt to connect is refused at
//! once until the server is back, and succeeds after that. The simulation finds out when each
//! client tries: by the decisions of `proto::requester::backoff`, as `sunrpc::xprt::connect` uses
//! them, or every three seconds, as SUNRPC asks a transport that adds no pause.

use std::format;
use std::string::String;
use std::vec::Vec;

use crate::proto::requester::backoff::Outage;

/// Clients.
pub const CLIENTS: usize = 1000;
/// Milliseconds for which SUNRPC makes an RPC wait after a reported refusal.
const TOLD: u32 = 3_000;
/// Milliseconds for which a failure is not reported to RPCs (`HOLD` of `client/conn/connect.rs`).
const HOLD: u32 = 8_000;
/// Milliseconds within which the clients lose the server.
const LOSS: u32 = 50;

/// When a client tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// By the decisions of this module.
    Ours,
    /// Whenever SUNRPC asks.
    Sunrpc,
}

/// The result for the clients.
pub struct Crowd {
    /// The time from the server's return until each client was connected, in milliseconds, sorted.
    pub late: Vec<u32>,
    /// Attempts that were refused, all clients together.
    pub refused: usize,
}

/// A sequence of pseudo-random numbers (xorshift).
struct Chance(u64);

impl Chance {
    fn draw(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // CAST: the upper half.
        (self.0 >> 32) as u32
    }
}

/// Simulates an outage of `gone` milliseconds.
pub fn simulate(policy: Policy, gone: u32) -> Crowd {
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let mut crowd = Crowd {
        late: Vec::new(),
        refused: 0,
    };
    for _ in 0..CLIENTS {
        let lost = chance.draw() % LOSS;
        let (connected, refused) = match policy {
            Policy::Ours => client(&mut chance, gone.saturating_sub(lost)),
            Policy::Sunrpc => every(TOLD, gone.saturating_sub(lost)),
        };
        crowd.late.push((lost + connected).saturating_sub(gone));
        crowd.refused += refused;
    }
    crowd.late.sort_unstable();
    crowd
}

/// Returns when a client with this schedule is connected, and how often it was refused before.
fn every(pause: u32, back: u32) -> (u32, usize) {
    let attempts = back.div_ceil(pause);
    (attempts * pause, attempts as usize)
}

/// Returns when a client with the decisions of this module is connected, and how often it was
/// refused before. Times count from the loss of the server.
fn client(chance: &mut Chance, back: u32) -> (u32, usize) {
    let mut outage = Outage {
        now: 0,
        attempt: 0,
        asked: 0,
    };
    let mut refused = 0;
    while outage.now < back {
        refused += 1;
        let due = match outage.again(HOLD, chance.draw()) {
            Some(due) => due,
            None => {
                outage.now += TOLD;
                outage.asked = outage.now;
                outage.next(chance.draw())
            }
        };
        outage.now = due.max(outage.now);
        outage.attempt = outage.now;
    }
    (outage.attempt, refused)
}

impl Crowd {
    /// Returns how many clients reconnect within the busiest tenth of a second.
    pub fn busiest(&self) -> usize {
        let within = |first: &u32| {
            let end = first + 100;
            self.late
                .iter()
                .filter(|t| (*first..end).contains(t))
                .count()
        };
        self.late.iter().map(within).max().unwrap_or(0)
    }

    /// Plots how many clients reconnect in each of several intervals.
    pub fn histogram(&self, interval: u32) -> String {
        let last = self.late.last().copied().unwrap_or(0);
        let mut picture = String::new();
        for start in (0..=last).step_by(interval as usize) {
            let n = self
                .late
                .iter()
                .filter(|t| (start..start + interval).contains(t))
                .count();
            let bar = "#".repeat(n.div_ceil(10));
            let line = format!("{:>5.1} s {n:>5} {bar}", f64::from(start) / 1000.0);
            picture.push_str(line.trim_end());
            picture.push('\n');
        }
        picture
    }
}

/// Returns the table and the plots of `Documentation/recovery.rst`.
pub fn report() -> String {
    let mut text =
        String::from("away, s  whose   last back, s  median, s  in 0.1 s  refused a second\n");
    for gone in [2, 7, 20, 61, 301, 3601] {
        for policy in [Policy::Ours, Policy::Sunrpc] {
            let crowd = simulate(policy, gone * 1000);
            let seconds = |at: usize| f64::from(crowd.late[at]) / 1000.0;
            text.push_str(&format!(
                "{gone:>7}  {:<6}  {:>12.1}  {:>9.1}  {:>8}  {:>16.0}\n",
                if policy == Policy::Ours {
                    "ours"
                } else {
                    "SUNRPC"
                },
                seconds(CLIENTS - 1),
                seconds(CLIENTS / 2),
                crowd.busiest(),
                crowd.refused as f64 / f64::from(gone),
            ));
        }
    }
    for (gone, interval) in [(7, 200), (301, 1000)] {
        text.push_str(&format!(
            "\nThe server was away for {gone} s; clients back, by time:\n\n"
        ));
        text.push_str(&simulate(Policy::Ours, gone * 1000).histogram(interval));
    }
    text
}
