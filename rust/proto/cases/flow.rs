// SPDX-License-Identifier: GPL-2.0

//! Credits, inline thresholds, back-off and liveness.

use super::super::super::wire::cm_private::{Settings, Size};
use super::super::credits::{effective, Credits};
use super::super::inline::Thresholds;
use super::super::requester::backoff::Outage;
use super::super::requester::liveness;
use super::ensure;
use super::window::Flow;

/// Checks that the limit is one at first, never above grant or maximum, and never zero.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 5666-3.3-2 does not get stuck on zero
//~ 8166-3.3.1-1 one credit before the first reply
pub fn check_credits() -> Result<(), &'static str> {
    // Grant, maximum, limit.
    const CASES: [(u32, u32, u32); 8] = [
        (0, 128, 1),
        (1, 128, 1),
        (32, 128, 32),
        (128, 128, 128),
        (129, 128, 128),
        (u32::MAX, 128, 128),
        (5, 0, 1),
        (u32::MAX, u32::MAX, u32::MAX),
    ];
    for (grant, max, limit) in CASES {
        ensure!(effective(grant, max) == limit, "grant");
    }
    check_flow()?;
    check_given_up()
}

//~ 8166-3.3.1-2 calls do not exceed latest grant
fn check_given_up() -> Result<(), &'static str> {
    let mut a = Credits::FIRST;
    ensure!(a.limit() == 1 && a.left() == 1, "one credit at first");
    a.set_limit(4);
    a.given_up();
    a.given_up();
    ensure!(a.left() == 2, "two given up");
    ensure!(a.unmatched_reply(), "one of two is answered");
    ensure!(a.left() == 3, "one of two answered");
    a.set_limit(1);
    ensure!(a.left() == 0, "an unanswered RPC has the last credit");
    ensure!(a.unmatched_reply(), "the last one is answered");
    ensure!(a.left() == 1, "the last one answered");
    // A reply that answers no call does not change the account, now or later.
    a.set_limit(4);
    ensure!(!a.unmatched_reply(), "nothing was given up");
    ensure!(a.left() == 4, "no more than granted");
    a.given_up();
    ensure!(a.left() == 3, "an unmatched reply is not counted ahead");
    Ok(())
}

//~ 5666-3.3-7 grant may be larger or smaller
fn check_flow() -> Result<(), &'static str> {
    let mut f = Flow::new();
    ensure!(f.try_take() && !f.try_take(), "one before the first reply");
    ensure!(f.on_reply(3, 8) && f.available() == 3, "grant of three");
    ensure!(f.try_take() && f.try_take() && f.try_take(), "three taken");
    ensure!(!f.try_take() && f.in_flight() == 3, "fourth refused");
    // The limit falls below the number in flight: no message may be sent until two are answered.
    ensure!(!f.on_reply(1, 8) && f.available() == 0, "lowered limit");
    ensure!(!f.on_reply(1, 8), "still at the lowered limit");
    ensure!(
        f.on_reply(0, 8) && f.available() == 1,
        "zero grant counts as one"
    );
    ensure!(f.try_take(), "sent after zero grant");
    f.on_unanswered();
    ensure!(f.available() == 1 && f.in_flight() == 0, "unanswered");
    f.on_unanswered();
    ensure!(f.in_flight() == 0, "no underflow");
    // A message that answers no call brings a grant, and frees no credit.
    ensure!(f.try_take() && f.available() == 0, "taken");
    ensure!(!f.on_grant(1, 8) && f.in_flight() == 1, "the same grant");
    ensure!(!f.on_grant(0, 8) && f.available() == 0, "a grant of zero");
    ensure!(f.on_grant(3, 8) && f.available() == 2, "a larger grant");
    ensure!(!f.on_grant(2, 8) && f.available() == 1, "a smaller grant");
    Ok(())
}

/// Checks that a threshold is the lesser of the sizes of the two ends.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 8166-3.3.3-1 threshold is 1024 bytes each way
//~ 8797-1-1 without them the defaults hold
//~ 8797-4-1 settings may change at every reconnect
//~ 8797-4.2-2 lesser of client's send, server's receive
//~ 8797-4.2-3 lesser of server's send, client's receive
pub fn check_inline() -> Result<(), &'static str> {
    let client = settings(true, 4096, 8192);
    let server = settings(true, 65536, 2048);
    let t = Thresholds::for_client(&client, Some(server));
    ensure!(t.client_to_server == 2048, "server's receive size");
    ensure!(t.server_to_client == 8192, "client's receive size");
    ensure!(t.remote_invalidation, "both set R");
    ensure!(
        t == Thresholds::for_server(&server, Some(client)),
        "both ends agree"
    );
    let one = Thresholds::for_client(&client, Some(settings(false, 4096, 4096)));
    ensure!(!one.remote_invalidation, "one set R");
    let silent = Thresholds::for_client(&client, None);
    ensure!(silent == Thresholds::DEFAULT, "silent peer");
    ensure!(silent.client_to_server == 1024, "default");
    check_room(&silent)
}

fn settings(remote_invalidation: bool, send: u32, receive: u32) -> Settings {
    Settings {
        remote_invalidation,
        send: Size::from_bytes(send),
        receive: Size::from_bytes(receive),
        versions: None,
    }
}

//~ 8167-4-1 no chunks and fit inline
fn check_room(t: &Thresholds) -> Result<(), &'static str> {
    // 28 fixed, 24 for each read segment, 8 + 16 for each write segment.
    ensure!(
        t.max_inline_call(1) == 1024 - 28 - 24 - 24,
        "call, one segment"
    );
    ensure!(
        t.max_inline_call(16) == 1024 - 28 - 384 - 264,
        "call, sixteen"
    );
    ensure!(t.max_inline_call(1000) == 0, "call, no room");
    ensure!(t.max_inline_call(u32::MAX) == 0, "call, most segments");
    ensure!(
        t.max_inline_reply(1) == 1024 - 28 - 24,
        "reply, one segment"
    );
    ensure!(t.max_backward_call() == 996, "backward call");
    ensure!(t.max_backward_reply() == 996, "backward reply");
    Ok(())
}

/// Checks that pauses grow with the outage within bounds, and that no RPC waits endlessly.
///
/// # Errors
///
/// The name of the first case that fails.
pub fn check_backoff() -> Result<(), &'static str> {
    // Length of the outage, and the shortest and longest pause at that time.
    for (now, least, most) in [
        (0, 250, 500),
        (4_000, 250, 500),
        (8_000, 500, 1_000),
        (40_000, 2_500, 5_000),
        (120_000, 7_500, 15_000),
        (u32::MAX / 2, 7_500, 15_000),
    ] {
        let outage = Outage {
            now,
            attempt: now,
            asked: now,
        };
        let pause = |random| outage.next(random).saturating_sub(now);
        ensure!(pause(0) == most, "longest pause");
        ensure!(pause(least) == least, "shortest pause");
        for random in [1, 13, 499, 65_537, u32::MAX] {
            ensure!(least <= pause(random) && pause(random) <= most, "pause");
        }
    }
    let late = Outage {
        now: u32::MAX,
        attempt: u32::MAX,
        asked: u32::MAX,
    };
    ensure!(late.next(7) == u32::MAX, "saturates");
    check_again()
}

/// Checks when a failure is reported to RPCs.
fn check_again() -> Result<(), &'static str> {
    let at = |attempt| Outage {
        now: attempt,
        attempt,
        asked: 0,
    };
    ensure!(at(0).again(3_000, 0) == Some(500), "half a second later");
    ensure!(
        at(2_700).again(3_000, 0) == Some(3_000),
        "last attempt at the end of the wait"
    );
    ensure!(
        at(2_750).again(3_000, 0) == Some(3_000),
        "just far enough apart"
    );
    ensure!(
        at(2_751).again(3_000, 0).is_none(),
        "attempts too close together"
    );
    ensure!(
        at(2_751).again(3_000, 499 << 16).is_some(),
        "random end of the wait"
    );
    ensure!(
        at(3_500).again(3_000, u32::MAX).is_none(),
        "end of the wait"
    );
    ensure!(at(0).again(0, 0).is_none(), "no wait");
    // An attempt that took a long time.
    let slow = Outage {
        now: 5_000,
        attempt: 0,
        asked: 0,
    };
    ensure!(
        slow.again(3_000, 0).is_none(),
        "wait ended during the attempt"
    );
    // A pause that is longer than the time for which RPCs wait.
    let old = Outage {
        now: 600_000,
        attempt: 600_000,
        asked: 599_000,
    };
    ensure!(old.again(3_000, 77).is_none(), "reported at once");
    Ok(())
}

/// Checks that only silence of a peer that owes replies counts, and that any message ends it.
///
/// # Errors
///
/// The name of the first case that fails.
pub fn check_liveness() -> Result<(), &'static str> {
    // Heard, owed, the count after this check, and whether to probe the peer.
    // The peer is quiet from the second count on: a whole interval has passed.
    const LOOKS: [(bool, bool, u32, bool); 13] = [
        (false, false, 0, false),
        (true, true, 1, false),
        (false, true, 2, false),
        (false, true, 3, true),
        (false, true, 4, true),
        (true, true, 1, false),
        (false, true, 2, false),
        (false, false, 0, false),
        // A call after a long time without calls: two whole intervals have to pass first.
        (false, true, 1, false),
        (false, true, 2, false),
        (false, true, 3, true),
        (true, false, 1, false),
        (false, false, 0, false),
    ];
    let mut looks = 0;
    for (heard, owed, want, suspicious) in LOOKS {
        looks = liveness::after(looks, heard, owed);
        ensure!(looks == want, "count of checks");
        ensure!(liveness::is_suspicious(looks) == suspicious, "probe");
        ensure!(liveness::is_quiet(looks) == (want >= 2), "quiet");
        let intervals = liveness::silent(looks);
        ensure!(intervals == want.saturating_sub(1), "whole intervals");
    }
    ensure!(
        liveness::after(u32::MAX, false, true) == u32::MAX,
        "saturates"
    );
    Ok(())
}
