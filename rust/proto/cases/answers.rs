// SPDX-License-Identifier: GPL-2.0

//! Answers of the peer to our control messages: which message each one is about, and no other.

use super::super::super::wire::message::ErrorBody;
use super::super::super::wire::xchar::{respond, Disposition};
use super::super::session::{Body, Breach, Output, Take, PAUSE_MS};
use super::super::xchar::{Fault, NotSent};
use super::ensure;
use super::pair::{next, says, Pair};
use super::session::{hear, outputs, Check, Say, CLIENT, SERVER, TWO};

const LESS: u32 = 2048;
const REFUSED: ErrorBody = ErrorBody::InvalidOption;

/// Runs the cases.
///
/// # Errors
///
/// The name of the first case that fails.
pub fn check() -> Check {
    check_request_not_sent()?;
    check_request_remains()?;
    check_unasked()
}

/// The peer knows no INIT_XCHAR, so a request that was not sent yet is not sent at all.
//~ XC-3-3 peer does not support REQ_XCHAR
//~ XC-4-4 each operation may be unsupported
fn check_request_not_sent() -> Check {
    let mut client = Pair::new(CLIENT, SERVER)?.client;
    let Some(Output::Send(init)) = client.poll(0) else {
        return Err("no INIT_XCHAR");
    };
    ensure!(client.ask(LESS).is_ok(), "asked");
    ensure!(client.terms().send == 2048, "bounded at once");
    let before = client.terms().generation;
    outputs(&mut client, 0, &[Output::Void { before }])?;
    client.on_voided(before);
    let got = hear(&mut client, Say::Error(TWO, init.xid, REFUSED))?;
    ensure!(got.take == Take::Done, "about INIT_XCHAR");
    outputs(&mut client, PAUSE_MS, &[])?;
    ensure!(client.terms().send == 4096, "no request, no bound");
    ensure!(client.ask(LESS) == Err(NotSent::Refused), "nor later");
    Ok(())
}

/// The peer refuses UPD_XCHAR. Our request, which came later, is sent nevertheless.
//~ XC-4-4 each operation may be unsupported
fn check_request_remains() -> Check {
    let mut pair = Pair::new(CLIENT, SERVER)?;
    pair.run()?;
    let (client, now) = (&mut pair.client, pair.now.saturating_add(PAUSE_MS));
    client.want_receive(65536);
    let update = next(client, now)?.ok_or("no UPD_XCHAR")?;
    ensure!(matches!(update.body, Body::Update { .. }), "UPD_XCHAR");
    ensure!(client.ask(LESS).is_ok(), "asked");
    ensure!(next(client, now)?.is_none(), "the update comes first");
    let got = hear(client, Say::Error(TWO, update.xid, REFUSED))?;
    ensure!(got.take == Take::Done, "about UPD_XCHAR");
    let request = next(client, now)?.ok_or("no REQ_XCHAR")?;
    ensure!(request.body == Body::Request(LESS), "REQ_XCHAR");
    ensure!(client.terms().send == 2048, "still bounded");
    Ok(())
}

/// A response with another XID is not the answer: our request remains to be answered.
//~ XC-4.3-1 XID is that of the request
fn check_unasked() -> Check {
    let mut pair = Pair::new(CLIENT, SERVER)?;
    pair.run()?;
    let (client, now) = (&mut pair.client, pair.now.saturating_add(PAUSE_MS));
    ensure!(client.ask(LESS).is_ok(), "asked");
    let request = next(client, now)?.ok_or("no REQ_XCHAR")?;
    let other = request.xid.wrapping_add(9);
    let got = says(client, |b| {
        respond(b, other, 1, [Disposition::Done].into_iter())
    })?;
    let unasked = Some(Breach::Operation(Fault::Unasked));
    ensure!(got.breach == unasked, "an answer to nothing");
    client.want_receive(65536);
    ensure!(next(client, now)?.is_none(), "the pause goes on");
    let got = hear(client, Say::Error(TWO, request.xid, REFUSED))?;
    ensure!(got.take == Take::Done, "the answer to the request");
    ensure!(next(client, now)?.is_some(), "no pause any longer");
    Ok(())
}
