// SPDX-License-Identifier: GPL-2.0

//! Optional operations: the first message of a connection, many at a time, with many
//! characteristics.

use super::super::super::wire::message::ErrorBody;
use super::super::super::wire::xchar::value::Id;
use super::super::super::wire::xchar::{
    init, request, respond, Characteristic, Disposition, Initial,
};
use super::super::super::wire::{v2, Direction};
use super::super::session::{Body, Output, Session, Take, PAUSE_MS};
use super::ensure;
use super::pair::{next, says, Pair};
use super::session::{hear, Check, Say, CLIENT, ONE, SERVER, TWO};

/// A time when no control message is paused by an earlier one.
const LATER: u64 = 1_000 * PAUSE_MS;

const UNKNOWN: Characteristic<'static> = Characteristic::Other {
    id: Id(4),
    data: &[],
};
const LAST: Characteristic<'static> = Characteristic::ReceiveBufferSize(2048);

/// Many characteristics, of which the last one is known. The stack of a kernel thread has no room
/// for them.
static VALUES: [Characteristic<'static>; 100] = {
    let mut values = [UNKNOWN; 100];
    if let Some(last) = values.last_mut() {
        *last = LAST;
    }
    values
};

/// The same characteristics as elements of INIT_XCHAR.
static START: [Initial<'static>; 100] = {
    let (value, fixed) = (UNKNOWN, true);
    let mut values = [Initial { value, fixed }; 100];
    if let Some(last) = values.last_mut() {
        *last = Initial { value: LAST, fixed };
    }
    values
};

/// Runs the cases.
///
/// # Errors
///
/// The name of the first case that fails.
pub fn check() -> Check {
    check_many()?;
    check_begun_by_operation()
}

/// Operations with many characteristics: the message bounds them, and a request has a response.
//~ XC-4.1-3 unknown characteristics are ignored
//~ XC-4.2-1 REQ_XCHAR is answered by RESP_XCHAR
//~ XC-4.3-2 three subsets do not overlap
#[inline(never)]
fn check_many() -> Check {
    let mut pair = Pair::new(CLIENT, SERVER)?;
    pair.run()?;
    let server = &mut pair.server;
    let got = says(server, |b| init(b, 5, 1, Direction::Call, &START))?;
    ensure!(got.take == Take::Done && got.breach.is_none(), "INIT");
    ensure!(server.terms().send == 2048, "the last element");
    for count in [33usize, 100] {
        let first = VALUES.len().saturating_sub(count);
        let want = VALUES.get(first..).ok_or("want")?;
        let got = says(server, |b| request(b, 6, 1, want))?;
        ensure!(got.take == Take::Done && got.breach.is_none(), "REQ");
        let answer = next(server, LATER)?.ok_or("no RESP")?;
        let mut buf = [0; 256];
        let len = answer.encode(&mut buf, 1).map_err(|_| "no room")?;
        let last = count.saturating_sub(1);
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

/// A client begins with an operation, and waits for the answer before it sends another message.
//~ V2-5.1-3 operation that begins a connection
#[inline(never)]
fn check_begun_by_operation() -> Check {
    let size = [Characteristic::ReceiveBufferSize(2048)];
    let start = size.map(|value| Initial { value, fixed: true });
    let mut server = Session::new(SERVER);
    let got = says(&mut server, |b| init(b, 5, 1, Direction::Call, &start))?;
    ensure!(got.take == Take::Done && got.breach.is_none(), "INIT");
    ensure!(server.poll(0) == Some(Output::Settled(TWO)), "settled");
    let answer = next(&mut server, 0)?.ok_or("no answer")?;
    ensure!(
        answer.body == Body::Init(server.own()),
        "INIT of the server"
    );
    let direction = (answer.xid, answer.direction);
    ensure!(direction == (5, Direction::Reply), "the same XID");
    ensure!(
        !server.terms().watch && server.terms().send == 2048,
        "terms"
    );
    ensure!(next(&mut server, PAUSE_MS)?.is_none(), "it is sent once");
    let refused = Say::Error(TWO, 5, ErrorBody::InvalidOption);
    ensure!(hear(&mut server, refused)?.take == Take::Done, "its error");
    check_begun_by_others()
}

/// Other operations that a client may begin with.
#[inline(never)]
fn check_begun_by_others() -> Check {
    let mut server = Session::new(SERVER);
    says(&mut server, |b| request(b, 5, 1, &[]))?;
    ensure!(server.poll(0) == Some(Output::Settled(TWO)), "settled");
    let answer = next(&mut server, 0)?.ok_or("no answer")?;
    ensure!(matches!(answer.body, Body::Response(_)), "RESP");
    let init = next(&mut server, 0)?.ok_or("no INIT")?;
    ensure!(matches!(init.body, Body::Init(_)), "INIT after it");
    // An operation that is not known settles nothing: version one may follow.
    let mut server = Session::new(SERVER);
    let unknown = |b: &mut [u8]| v2::optional(b, 5, 1, Direction::Call, 77)?.finish();
    says(&mut server, unknown)?;
    let answer = next(&mut server, 0)?.ok_or("no answer")?;
    let refused = Body::Error(ErrorBody::InvalidOption);
    ensure!(
        answer.body == refused && server.settled().is_none(),
        "error"
    );
    let got = hear(&mut server, Say::Rpc(ONE, 7, Direction::Call))?;
    ensure!(got.take == Take::Deliver, "a call in version one");
    ensure!(server.settled() == Some(ONE), "version one");
    Ok(())
}
