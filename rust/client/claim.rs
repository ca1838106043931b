// SPDX-License-Identifier: GPL-2.0

//! Whether a reply claims no more than its call has offered.

use super::requester::Conn;
use crate::proto::legacy::round_up;
use crate::proto::requester::reply::{self, Offer, Outcome, Violation};
use crate::wire::message::Body;

/// Compares a reply with what its call has offered.
///
/// # Errors
///
/// The first [`Violation`] found.
#[inline(always)]
pub(super) fn check(conn: &Conn, body: &Body<'_>, offer: &Offer<'_>) -> Result<Outcome, Violation> {
    match reply::check(body, offer) {
        Err(Violation::SegmentLength) => check_rounded_up(conn, body, offer),
        checked => checked,
    }
}

/// Compares a reply whose write chunk is longer than offered once more: the server may have
/// included the round-up in its length.
#[cold]
fn check_rounded_up(conn: &Conn, body: &Body<'_>, offer: &Offer<'_>) -> Result<Outcome, Violation> {
    if conn.role().legacy.may_be_old() {
        round_up::check_rounded_up(body, offer)
    } else {
        Err(Violation::SegmentLength)
    }
}
