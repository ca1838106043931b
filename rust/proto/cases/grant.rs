// SPDX-License-Identifier: GPL-2.0

//! Grants of a responder: they grow with use, and fall on request.

use super::super::responder::grant::{Excess, Grant};
use super::ensure;
use super::window::Flow;

type Check = Result<(), &'static str>;

/// Follows the life of a connection.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 5666-3.3-2 a grant is not zero
//~ 5666-3.3-5 always has at least one credit
//~ 5666-6.1-3 begin with more than one receive
pub fn check() -> Check {
    let mut g = Grant::new(40, 0);
    ensure!((g.posted(), g.allowed()) == (16, 16), "sixteen at first");
    ensure!(Grant::new(4, 0).posted() == 4, "fewer");
    ensure!(Grant::new(0, 0).posted() == 1, "never none");
    // A requester that uses little is granted no more.
    for _ in 0..100 {
        ensure!(g.on_call(128) == Ok(0), "one call");
        ensure!(g.on_reply() == 16, "sixteen");
    }
    check_below()?;
    check_growth(&mut g)?;
    check_patience()?;
    check_shrinking(&mut g)?;
    check_excess()?;
    check_within()?;
    check_directions()
}

/// A requester that may have only one Receive for each credit keeps one of them free.
fn check_below() -> Check {
    for (requested, granted) in [(0, 1), (1, 1), (2, 1), (8, 7), (17, 16), (128, 16)] {
        let mut g = Grant::new(40, 0);
        ensure!(g.on_call(requested).is_ok(), "first call");
        g.keep_below(requested);
        ensure!(g.on_reply() == granted, "one less than it asks for");
    }
    let mut g = Grant::new(40, 0);
    g.keep_below(24);
    fill(&mut g, 16, 7)?;
    g.on_posted(7);
    ensure!(g.on_reply() == 23, "nor later");
    Ok(())
}

/// Lets calls arrive until `n` are in progress; the last one makes the grant grow by `more`.
fn fill(g: &mut Grant, n: u32, more: u32) -> Check {
    while g.in_progress() < n.saturating_sub(1) {
        ensure!(g.on_call(128) == Ok(0), "not all is used");
    }
    ensure!(g.on_call(128) == Ok(more), "all is used");
    Ok(())
}

//~ 5666-3.3-7 grant may be larger or smaller
fn check_growth(g: &mut Grant) -> Check {
    fill(g, 16, 16)?;
    ensure!(g.on_reply() == 16, "not before Receives are posted");
    ensure!(g.granted() == 16, "granted so far");
    g.on_posted(16);
    ensure!(g.on_reply() == 32 && g.allowed() == 32, "twice as many");
    ensure!(g.granted() == 32, "granted now");
    fill(g, 32, 8)?;
    g.on_posted(8);
    ensure!(g.on_reply() == 40 && g.posted() == 40, "the most");
    fill(g, 40, 0)?;
    ensure!(g.on_call(128) == Err(Excess), "beyond");
    // A requester that wants no more gets no more.
    let mut modest = Grant::new(128, 0);
    for _ in 0..16 {
        ensure!(modest.on_call(8) == Ok(0), "modest");
    }
    Ok(())
}

/// A requester whose calls never all arrive at once is granted more if they often arrive beside
/// others.
fn check_patience() -> Check {
    let mut g = Grant::new(40, 0);
    for beside in 0..63 {
        // The call before this one is still in progress.
        ensure!(g.in_progress() == u32::from(beside != 0), "one call");
        ensure!(g.on_call(128) == Ok(0), "not often enough");
        if beside != 0 {
            ensure!(g.on_reply() == 16, "sixteen");
        }
    }
    let mut others = [g; 2];
    let [more, modest] = &mut others;
    ensure!(more.on_call(128) == Ok(0), "the sixty-third beside another");
    more.on_reply();
    ensure!(!more.on_call_within(), "the grant may change");
    ensure!(more.on_call(128) == Ok(16), "the sixty-fourth");
    more.on_posted(16);
    ensure!(more.on_reply() == 32, "twice as many");
    for _ in 0..126 {
        ensure!(more.on_call_within() && more.on_reply() == 32, "anew");
    }
    // The deciding call counts with its own request.
    ensure!(more.on_call(128) == Ok(0), "the hundred and twenty-seventh");
    more.on_reply();
    ensure!(more.on_call(128) == Ok(8), "to the most");
    check_retry(g)?;
    for _ in 0..1000 {
        ensure!(modest.on_call(16) == Ok(0), "asks for no more");
        ensure!(modest.on_reply() == 16, "gets no more");
    }
    Ok(())
}

/// Receives that could not be posted are requested again, after the same number of calls. Begins
/// with 62 calls beside others.
fn check_retry(mut g: Grant) -> Check {
    ensure!(g.on_call(128) == Ok(0), "the sixty-third");
    g.on_reply();
    ensure!(g.on_call(128) == Ok(16), "the sixty-fourth");
    ensure!(g.on_reply() == 16, "no memory");
    for _ in 0..127 {
        ensure!(g.on_call(128) == Ok(0) && g.on_reply() == 16, "not yet");
    }
    ensure!(g.on_call(128) == Ok(16), "again");
    g.on_posted(16);
    ensure!(g.on_reply() == 32, "twice as many");
    Ok(())
}

/// Begins with 40 granted and 40 in progress.
//~ 5666-3.3-4 requests in excess of the grant
//~ 5666-3.3-8 server can always reply
fn check_shrinking(g: &mut Grant) -> Check {
    g.set_max(0);
    ensure!(g.on_reply() == 1, "never zero");
    ensure!(g.allowed() == 40, "the requester does not know yet");
    // Each of these may have been sent before the lower grant arrived.
    for n in 1..40 {
        ensure!(g.on_call(128) == Ok(0), "old grant");
        ensure!(g.on_reply() == 1, "lower");
        ensure!(g.allowed() == 40 && n < 40, "still");
    }
    ensure!(g.on_call(128) == Ok(0), "the last one");
    ensure!(g.allowed() == 1, "now the requester knows");
    ensure!(g.on_call(128) == Err(Excess), "beyond the lower grant");
    ensure!(g.posted() == 40, "Receives stay posted");
    while g.in_progress() != 0 {
        ensure!(g.on_reply() == 1, "every call is answered");
    }
    ensure!(g.on_call(128) == Ok(0), "one call");
    g.on_dropped();
    ensure!(g.on_call(128) == Ok(0), "after one without answer");
    check_rise(g)
}

/// Begins with a grant of one that is in use, and 40 Receives.
fn check_rise(g: &mut Grant) -> Check {
    g.set_max(128);
    ensure!(g.on_reply() == 1, "no growth without use");
    ensure!(g.on_call(128) == Ok(0), "two");
    ensure!(g.on_reply() == 2 && g.allowed() == 2, "risen");
    // The grant is lowered and raised again before the requester can have noticed.
    fill(g, 2, 0)?;
    ensure!(g.on_reply() == 4, "four");
    g.set_max(2);
    ensure!(g.on_reply() == 2 && g.allowed() == 4, "lowered");
    g.set_max(4);
    fill(g, 2, 0)?;
    ensure!(g.on_reply() == 4 && g.allowed() == 4, "raised");
    for _ in 0..10 {
        ensure!(g.on_call(128).is_ok(), "no countdown is left");
        g.on_reply();
    }
    ensure!(g.allowed() == 4, "as granted");
    Ok(())
}

fn check_excess() -> Check {
    let mut g = Grant::new(2, 3);
    for _ in 0..5 {
        ensure!(g.on_call(1).is_ok(), "spare");
    }
    ensure!(
        g.on_call(1) == Err(Excess) && g.in_progress() == 5,
        "no more"
    );
    Ok(())
}

/// A call changes only the number of calls in progress if it leaves a credit unused, and if no
/// lower grant is in transit to the requester.
fn check_within() -> Check {
    let mut g = Grant::new(3, 2);
    for n in 1..3 {
        ensure!(
            g.on_call_within() && g.in_progress() == n,
            "a credit is left"
        );
    }
    ensure!(!g.on_call_within(), "the last credit");
    ensure!(g.in_progress() == 2, "not counted");
    // Three Receives, one of them unused.
    g.set_max(2);
    ensure!(g.on_reply() == 2 && g.in_progress() == 1, "lowered");
    let one = Grant::new(40, 0);
    for (mut g, lower, within) in [(one, 40, true), (one, 8, false)] {
        ensure!(g.on_call(1).is_ok(), "a call");
        g.set_max(lower);
        ensure!(g.on_reply() == lower.min(16), "granted");
        ensure!(g.on_call_within() == within, "a lower grant is on its way");
        ensure!(g.in_progress() == u32::from(within), "counted");
    }
    Ok(())
}

/// Credits of one direction do not change those of the other.
//~ 8167-4-3 each direction has its own credits
fn check_directions() -> Check {
    let (mut calls, mut callbacks) = (Grant::new(64, 0), Flow::new());
    ensure!(callbacks.try_take(), "a callback");
    ensure!(
        calls.on_call(64) == Ok(0) && calls.in_progress() == 1,
        "a call"
    );
    ensure!(
        calls.on_reply() == 16 && callbacks.in_flight() == 1,
        "answered"
    );
    callbacks.on_reply(2, 8);
    ensure!(
        callbacks.available() == 2 && calls.allowed() == 16,
        "callback answered"
    );
    Ok(())
}
