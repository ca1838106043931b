// SPDX-License-Identifier: GPL-2.0

//! Characteristics of a peer, and changes of our own Receives.

use super::super::super::wire::message::{Body, ErrorBody};
use super::super::super::wire::xchar::{
    init, request, respond, update, BackwardSupport, Characteristic, Disposition, Id, Initial,
    Operation,
};
use super::super::super::wire::{Direction, EncodeError, Limits, Message, Version};
use super::super::xchar::{
    answer_option, client_thresholds, server_thresholds, Announce, BadResponse, Known, Peer,
    Receives, Refused,
};
use super::ensure;

type Check = Result<(), &'static str>;

/// Encodes an operation, decodes it, and applies it to the peer's record.
fn hear(
    peer: &mut Peer,
    xid: u32,
    encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<Result<(), BadResponse>, &'static str> {
    let mut buf = [0; 128];
    let len = encode(&mut buf).map_err(|_| "no room")?;
    let message = Message::decode(buf.get(..len).ok_or("buffer")?, &Limits::NONE);
    let Ok(Body::Optional {
        opttype, optinfo, ..
    }) = message.map(|m| *m.body())
    else {
        return Err("not an optional operation");
    };
    match Operation::decode(opttype, optinfo, &Limits::NONE) {
        Ok(Some(op)) => Ok(peer.on_operation(xid, &op)),
        _ => Err("not an operation"),
    }
}

fn says(peer: &mut Peer, now: Characteristic<'_>, cleared: bool) -> Check {
    let result = hear(peer, 1, |b| update(b, 1, 1, Direction::Call, &now, cleared))?;
    result.map_err(|_| "update refused")
}

fn answers(
    peer: &mut Peer,
    xid: u32,
    what: &[Disposition],
) -> Result<Result<(), BadResponse>, &'static str> {
    hear(peer, xid, |b| respond(b, xid, 1, what))
}

/// Checks the effect of a peer's characteristics and of requests to it.
///
/// # Errors
///
/// The name of the first case that fails.
pub fn check_peer() -> Check {
    check_answers()?;
    check_defaults()?;
    check_init()?;
    check_requests()?;
    check_responses()?;
    check_backward()
}

//~ V2-3.1-1 unknown operation answered by INVAL_OPTION
//~ V2-3.3-1 all are known, or none
//~ XC-4-1 unsupported operations are answered by INVAL_OPTION
fn check_answers() -> Check {
    let answer = |op, data| answer_option(&Operation::decode(op, data, &Limits::NONE));
    ensure!(answer(2, &[0, 0, 0, 0]).is_none(), "known operation");
    let invalid = Some(ErrorBody::InvalidOption);
    ensure!(
        answer(0, &[]) == invalid && answer(5, &[1]) == invalid,
        "unknown operation"
    );
    ensure!(
        answer(2, &[0]) == Some(ErrorBody::BadHeader),
        "malformed operation"
    );
    Ok(())
}

//~ XC-3-1 defaults assumed of a peer
fn check_defaults() -> Check {
    let p = Peer::default();
    ensure!(p.send_limit() == 4096, "default size");
    ensure!(!p.may_invalidate(), "default: plain Send");
    let level = p.backward_support(false);
    ensure!(
        level == BackwardSupport::SizeLimited,
        "default: size limited"
    );
    Ok(())
}

//~ XC-2.1-4 unknown characteristics are skipped without error
//~ XC-2.1-7 elements may be in any order
//~ XC-3.2-1 requester not ready sent plain Sends
//~ XC-3.2-2 may be sent Send With Invalidate
//~ XC-4-3 supports RESP_XCHAR or UPD_XCHAR
//~ XC-4.1-3 unknown characteristics are ignored
fn check_init() -> Check {
    let mut p = Peer::new();
    let start = [
        Characteristic::Other {
            id: Id(0xffff_ff00),
            data: &[1],
        },
        Characteristic::ReceiveBufferSize(16384),
        Characteristic::RemoteInvalidation(true),
    ]
    .map(|value| Initial {
        value,
        fixed: false,
    });
    let ok = hear(&mut p, 1, |b| init(b, 1, 1, Direction::Reply, &start))?;
    ensure!(ok.is_ok() && p.send_limit() == 16384, "init: size");
    ensure!(p.may_invalidate(), "init: remote invalidation");
    let (mut other, mut reversed) = (Peer::new(), start);
    reversed.reverse();
    let ok = hear(&mut other, 1, |b| {
        init(b, 1, 1, Direction::Reply, &reversed)
    })?;
    ensure!(ok.is_ok() && other == p, "init: another order");
    says(&mut p, Characteristic::RemoteInvalidation(false), false)?;
    ensure!(!p.may_invalidate(), "update: plain Send");
    says(&mut p, Characteristic::ReceiveBufferSize(3), false)?;
    ensure!(p.send_limit() == 1024, "update: size below the minimum");
    Ok(())
}

//~ XC-3-3 peer does not support REQ_XCHAR
//~ XC-3.1-3 asks for a smaller size
//~ XC-4-2 sends REQ_XCHAR supports RESP_XCHAR
//~ XC-4-4 each operation may be unsupported
//~ XC-4.1-1 does not assume characteristics were noted
//~ XC-4.3-3 change done counts from then
//~ XC-4.4-1 UPD_XCHAR may clear pending request
//~ XC-4.4-3 XID unrelated to any request
//~ XC-4.4-4 clear a request without a change
fn check_requests() -> Check {
    let mut p = Peer::new();
    let (less, more) = (
        Known::ReceiveBufferSize(2048),
        Known::ReceiveBufferSize(9000),
    );
    ensure!(
        p.try_request(5, less) && p.send_limit() == 2048,
        "requested smaller size counts at once"
    );
    ensure!(
        !p.try_request(6, more),
        "second request while one is pending"
    );
    ensure!(
        answers(&mut p, 5, &[Disposition::Rejected])? == Ok(()),
        "rejected"
    );
    ensure!(
        p.send_limit() == 4096 && p.request().is_none(),
        "old size after the rejection"
    );
    ensure!(p.try_request(6, less), "asked again");
    ensure!(
        answers(&mut p, 6, &[Disposition::Pending])? == Ok(()),
        "pending"
    );
    ensure!(p.send_limit() == 2048, "while pending");
    says(&mut p, Characteristic::ReceiveBufferSize(8192), false)?;
    ensure!(p.send_limit() == 2048, "larger, still pending");
    says(&mut p, Characteristic::RemoteInvalidation(true), true)?;
    ensure!(p.send_limit() == 2048, "update of another characteristic");
    says(&mut p, Characteristic::ReceiveBufferSize(8192), true)?;
    ensure!(p.send_limit() == 8192 && p.request().is_none(), "cleared");
    ensure!(p.try_request(7, more), "asked for more");
    ensure!(
        p.send_limit() == 8192,
        "larger size does not count before the answer"
    );
    says(&mut p, Characteristic::ReceiveBufferSize(8192), true)?;
    ensure!(p.request().is_some(), "unanswered is not pending");
    ensure!(answers(&mut p, 7, &[Disposition::Done])? == Ok(()), "done");
    ensure!(p.send_limit() == 9000, "done");
    let unchanged = p;
    let asked = hear(&mut p, 8, |b| request(b, 8, 1, &[less.value()]))?;
    ensure!(
        asked.is_ok() && p == unchanged,
        "requests of the peer change nothing"
    );
    ensure!(p.try_request(9, less) && p.send_limit() == 2048, "asked");
    p.on_unsupported();
    ensure!(p.send_limit() == 9000, "unsupported counts as rejected");
    ensure!(!p.try_request(10, less), "unsupported");
    Ok(())
}

//~ XC-4.3-1 XID is that of the request
//~ XC-4.3-4 pending change is announced later
fn check_responses() -> Check {
    let mut p = Peer::new();
    let unasked = Err(BadResponse::Unasked);
    ensure!(
        answers(&mut p, 5, &[Disposition::Done])? == unasked,
        "response without a request"
    );
    ensure!(p.try_request(5, Known::RemoteInvalidation(true)), "asked");
    ensure!(
        answers(&mut p, 4, &[Disposition::Done])? == unasked,
        "another XID"
    );
    let uncovered = Err(BadResponse::Coverage(0));
    ensure!(answers(&mut p, 5, &[])? == uncovered, "not covered");
    let two = [Disposition::Done, Disposition::Done];
    let exceeding = Err(BadResponse::Coverage(1));
    ensure!(
        answers(&mut p, 5, &two)? == exceeding,
        "response with too many elements"
    );
    ensure!(!p.may_invalidate(), "nothing changed");
    ensure!(
        answers(&mut p, 5, &[Disposition::Pending])? == Ok(()),
        "pending"
    );
    ensure!(
        answers(&mut p, 5, &[Disposition::Done])? == unasked,
        "answered twice"
    );
    Ok(())
}

//~ XC-3.3-1 UNKNOWN means no backward support
//~ XC-3.3-2 backward request shows support
fn check_backward() -> Check {
    let mut p = Peer::new();
    let unknown = Characteristic::BackwardSupport(BackwardSupport::Unknown);
    says(&mut p, unknown, false)?;
    ensure!(
        p.backward_support(false) == BackwardSupport::None,
        "unknown"
    );
    let presumed = p.backward_support(true);
    ensure!(presumed == BackwardSupport::SizeLimited, "presumed");
    p.on_backward_request(false);
    let shown = p.backward_support(false);
    ensure!(shown == BackwardSupport::SizeLimited, "shown");
    p.on_backward_request(true);
    p.on_backward_request(false);
    ensure!(
        p.backward_support(false) == BackwardSupport::General,
        "general"
    );
    let none = Characteristic::BackwardSupport(BackwardSupport::None);
    says(&mut p, none, false)?;
    ensure!(
        p.backward_support(true) == BackwardSupport::None,
        "announced: none"
    );
    Ok(())
}

/// Checks the changes of our own Receives.
///
/// # Errors
///
/// The name of the first case that fails.
pub fn check_receives() -> Check {
    check_growth()?;
    check_asked()?;
    check_wanted()?;
    check_thresholds()
}

//~ V2-2.3-3 larger thresholds may be supported
//~ XC-3-4 unrequested change does not disturb
//~ XC-3.1-1 until all smaller receives are gone
//~ XC-3.1-2 not reduced before the partner knows
//~ XC-4.4-2 unrequested change may be announced
fn check_growth() -> Check {
    let mut r = Receives::new(4096);
    ensure!(r.grow(4096, 0) == Err(Refused::NotLarger), "not larger");
    ensure!(r.grow(2048, 0) == Err(Refused::NotLarger), "never shrinks");
    ensure!(r.grow(8192, 2) == Ok(None), "growth begins");
    ensure!(r.announced() == 4096 && r.floor() == 8192, "not announced");
    ensure!(
        r.grow(16384, 1) == Err(Refused::Busy),
        "second request while one is pending"
    );
    ensure!(r.on_consumed(1).is_none(), "one smaller Receive is left");
    let announce = Some(Announce {
        size: 8192,
        pending_cleared: false,
    });
    ensure!(
        r.on_consumed(1) == announce && r.announced() == 8192,
        "announced"
    );
    ensure!(r.on_consumed(1).is_none(), "announced once");
    let value = Characteristic::ReceiveBufferSize(8192);
    ensure!(announce.map(|a| a.value()) == Some(value), "value");
    Ok(())
}

//~ XC-3-2 any request may be rejected
//~ XC-3.1-4 size is reduced only on request
//~ XC-4.2-1 REQ_XCHAR is answered by RESP_XCHAR
fn check_asked() -> Check {
    const RANGE: (u32, u32) = (2048, 16384);
    let mut r = Receives::new(4096);
    let rejected = (Disposition::Rejected, None);
    let done = (Disposition::Done, None);
    ensure!(r.on_request(1024, 0, RANGE) == rejected, "too small");
    ensure!(r.on_request(32768, 0, RANGE) == rejected, "too large");
    ensure!(r.on_request(2048, 0, RANGE) == done, "smaller on request");
    ensure!(r.announced() == 2048 && r.floor() == 2048, "smaller");
    let pending = (Disposition::Pending, None);
    ensure!(r.on_request(8192, 3, RANGE) == pending, "larger size later");
    ensure!(r.on_request(9216, 3, RANGE) == rejected, "busy");
    let announce = Some(Announce {
        size: 8192,
        pending_cleared: true,
    });
    ensure!(r.on_consumed(5) == announce, "no longer pending");
    ensure!(r.on_request(8192, 0, RANGE) == done, "size in force");
    ensure!(r.on_request(16384, 0, RANGE) == done, "larger at once");
    ensure!(r.announced() == 16384, "larger");
    // The peer requests less while a growth is in progress.
    let mut r = Receives::new(4096);
    ensure!(r.grow(8192, 3) == Ok(None), "grows");
    ensure!(
        r.on_request(2048, 0, RANGE) == done,
        "smaller request cancels the growth"
    );
    ensure!(
        r.on_consumed(3).is_none() && r.floor() == 2048,
        "cancelled growth"
    );
    Ok(())
}

//~ XC-4.3-5 unknown are rejected
fn check_wanted() -> Check {
    const RANGE: (u32, u32) = (2048, 16384);
    let mut r = Receives::new(4096);
    let unchanged = r;
    for want in [
        Characteristic::RemoteInvalidation(true),
        Characteristic::BackwardSupport(BackwardSupport::None),
        Characteristic::Other {
            id: Id(0x8000_0000),
            data: &[1],
        },
    ] {
        let got = r.on_wanted(&want, 0, RANGE);
        ensure!(got == (Disposition::Rejected, None), "not changed here");
    }
    ensure!(r == unchanged, "nothing changed");
    let want = Characteristic::ReceiveBufferSize(8192);
    let got = r.on_wanted(&want, 0, RANGE);
    ensure!(got == (Disposition::Done, None), "size");
    ensure!(r.announced() == 8192, "size changed");
    Ok(())
}

//~ XC-3.1-6 size decides when chunks are needed
//~ XC-4.1-1 does not assume characteristics were noted
fn check_thresholds() -> Check {
    let (mut peer, own) = (Peer::new(), Receives::new(16384));
    says(&mut peer, Characteristic::ReceiveBufferSize(8192), false)?;
    let t = client_thresholds(&peer, &own, true);
    ensure!(t.client_to_server == 8192, "calls: announced by the server");
    ensure!(
        t.server_to_client == 4096,
        "replies: default without announcement"
    );
    ensure!(
        t.remote_invalidation,
        "remote invalidation by the client's announcement"
    );
    let t = server_thresholds(&peer, &own);
    ensure!(
        t.server_to_client == 8192,
        "replies: announced by the client"
    );
    ensure!(
        t.client_to_server == 4096,
        "calls: default without announcement"
    );
    ensure!(!t.remote_invalidation, "no remote invalidation by default");
    ensure!(t.version == Version::Two, "version two");
    let small = Receives::new(2048);
    let t = client_thresholds(&peer, &small, false);
    ensure!(t.server_to_client == 2048, "smaller receives");
    Ok(())
}
