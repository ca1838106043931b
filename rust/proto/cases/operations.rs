// SPDX-License-Identifier: GPL-2.0

//! Optional operations: the first message of a connection, many at a time, with many
//! characteristics.

use super::super::super::wire::xchar::{
    init, request, respond, Characteristic, Disposition, Id, Initial,
};
use super::super::super::wire::Direction;
use super::super::session::{Take, PAUSE_MS};
use super::ensure;
use super::pair::{next, says, Pair};
use super::session::{Check, CLIENT, SERVER};

/// A time when no control message is paused by an earlier one.
const LATER: u64 = 1_000 * PAUSE_MS;

/// Runs the cases.
///
/// # Errors
///
/// The name of the first case that fails.
pub fn check() -> Check {
    check_many()
}

/// Operations with many characteristics: the message bounds them, and a request has a response.
//~ XC-4.1-3 unknown characteristics are ignored
//~ XC-4.2-1 REQ_XCHAR is answered by RESP_XCHAR
//~ XC-4.3-2 three subsets do not overlap
fn check_many() -> Check {
    let mut pair = Pair::new(CLIENT, SERVER)?;
    pair.run()?;
    let server = &mut pair.server;
    let data = &[];
    let mut values = [Characteristic::Other { id: Id(4), data }; 100];
    *values.last_mut().ok_or("last")? = Characteristic::ReceiveBufferSize(2048);
    let start = values.map(|value| Initial { value, fixed: true });
    let got = says(server, |b| init(b, 5, 1, Direction::Call, &start))?;
    ensure!(got.take == Take::Done && got.breach.is_none(), "INIT");
    ensure!(server.terms().send == 2048, "the last element");
    for count in [33, 100] {
        let want = values.get(values.len() - count..).ok_or("want")?;
        let got = says(server, |b| request(b, 6, 1, want))?;
        ensure!(got.take == Take::Done && got.breach.is_none(), "REQ");
        let answer = next(server, LATER)?.ok_or("no RESP")?;
        let mut buf = [0; 256];
        let len = answer.encode(&mut buf, 1).map_err(|_| "no room")?;
        let last = count - 1;
        let outcome = (0..count).map(|n| match n {
            n if n == last => Disposition::Done,
            _ => Disposition::Rejected,
        });
        let mut expected = [0; 256];
        let n = respond(&mut expected, 6, 1, outcome);
        ensure!(n == Ok(len) && buf == expected, "covers the request");
    }
    Ok(())
}
