// SPDX-License-Identifier: GPL-2.0

//! A thousand clients of a server that returns reconnect soon, and not at the same time.

use crate::crowd::{report, simulate, Policy, CLIENTS};

/// Length of the outage in milliseconds.
const AWAY: [u32; 7] = [2_000, 3_500, 7_000, 20_000, 61_000, 301_000, 3_601_000];

#[test]
fn nobody_comes_late() {
    for gone in AWAY {
        let crowd = simulate(Policy::Ours, gone);
        assert_eq!(crowd.late.len(), CLIENTS);
        // An eighth of the outage, or the time for which SUNRPC does not ask, whichever is longer.
        let most = (gone / 8).clamp(3_000, 15_000) + 500;
        assert!(
            *crowd.late.last().unwrap() <= most,
            "{gone}: {:?}",
            crowd.late.last()
        );
    }
}

#[test]
fn nobody_comes_later_than_with_the_kernels_module_when_a_service_restarts() {
    for gone in [2_000, 7_000] {
        let (ours, stock) = (simulate(Policy::Ours, gone), simulate(Policy::Sunrpc, gone));
        for (a, b) in ours.late.iter().zip(&stock.late) {
            assert!(a <= b, "{gone}: {a} and {b}");
        }
    }
}

#[test]
fn they_do_not_come_at_once() {
    for gone in AWAY {
        let busiest = simulate(Policy::Ours, gone).busiest();
        assert!(busiest <= CLIENTS / 2, "{gone}: {busiest}");
        if gone >= 7_000 {
            assert!(busiest <= CLIENTS / 4, "{gone}: {busiest}");
        }
        if gone >= 61_000 {
            assert!(busiest <= CLIENTS / 25, "{gone}: {busiest}");
        }
        // The other schedule fails this test.
        assert_eq!(simulate(Policy::Sunrpc, gone).busiest(), CLIENTS);
    }
}

#[test]
fn a_server_that_stays_away_is_asked_less_and_less() {
    let rate = |gone: u32| simulate(Policy::Ours, gone * 1000).refused / gone as usize;
    assert!(rate(2) > rate(20) && rate(20) > rate(61) && rate(61) > rate(3601));
    assert!(rate(3601) < CLIENTS / 9);
}

#[test]
fn the_document_shows_what_is_simulated() {
    let page = include_str!("../../../../Documentation/recovery.rst");
    for line in report().lines() {
        assert!(
            page.contains(line),
            "Documentation/recovery.rst lacks: {line}"
        );
    }
}
