// SPDX-License-Identifier: GPL-2.0

//! Characteristics of a peer, and changes of our own Receives.

use super::super::super::wire::message::Body;
use super::super::super::wire::xchar::value::Id;
use super::super::super::wire::xchar::{
    init, request, respond, update, BackwardSupport, Characteristic, Disposition, Initial, OpType,
    Operation,
};
use super::super::super::wire::{Direction, EncodeError, Limits, Message};
use super::super::xchar::{Fault, NotSent, Peer, Receives};
use super::ensure;

type Check = Result<(), &'static str>;

/// Encodes an operation, decodes it, and applies it to the peer's record.
fn hear(
    peer: &mut Peer,
    xid: u32,
    encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<Result<(), Fault>, &'static str> {
    let mut buf = [0; 128];
    let len = encode(&mut buf).map_err(|_| "no room")?;
    let message = Message::decode(buf.get(..len).ok_or("buffer")?, &Limits::NONE);
    let Ok(Body::Optional {
        opttype, optinfo, ..
    }) = message.map(|m| *m.body())
    else {
        return Err("not an optional operation");
    };
    match Operation::decode(opttype, optinfo) {
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
) -> Result<Result<(), Fault>, &'static str> {
    hear(peer, xid, |b| respond(b, xid, 1, what.iter().copied()))
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
    let known = Operation::decode(2, &[0, 0, 0, 0]);
    ensure!(matches!(known, Ok(Some(_))), "known operation");
    let unknown = [Operation::decode(0, &[]), Operation::decode(5, &[1])];
    ensure!(unknown == [Ok(None); 2], "unknown operation");
    ensure!(Operation::decode(2, &[0]).is_err(), "malformed operation");
    Ok(())
}

//~ XC-3-1 defaults assumed of a peer
fn check_defaults() -> Check {
    let p = Peer::new();
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
    check_small()?;
    check_fixed()
}

/// A size below 1024 is a breach, and has no effect. The other values count.
//~ XC-3.1-7 size is at least 1024
fn check_small() -> Check {
    for (size, limit) in [(0, 4096), (1023, 4096), (1024, 1024), (u32::MAX, u32::MAX)] {
        let mut p = Peer::new();
        let start = [
            Characteristic::ReceiveBufferSize(size),
            Characteristic::RemoteInvalidation(true),
        ]
        .map(|value| Initial {
            value,
            fixed: false,
        });
        let got = hear(&mut p, 1, |b| init(b, 1, 1, Direction::Reply, &start))?;
        let want = if size < 1024 {
            Err(Fault::TooSmall(size))
        } else {
            Ok(())
        };
        ensure!(got == want && p.send_limit() == limit, "init: small size");
        ensure!(p.may_invalidate(), "init: the value behind it");
    }
    let mut p = Peer::new();
    let small = Characteristic::ReceiveBufferSize(512);
    let got = hear(&mut p, 1, |b| {
        update(b, 1, 1, Direction::Call, &small, false)
    })?;
    ensure!(got == Err(Fault::TooSmall(512)), "update: small size");
    ensure!(p.send_limit() == 4096, "update: size unchanged");
    ensure!(p.try_request(1, 1023).is_ok(), "request: small size");
    ensure!(p.send_limit() == 1024, "request: no smaller one");
    Ok(())
}

//~ XC-4.1-5 not expected to change
fn check_fixed() -> Check {
    let size = Characteristic::ReceiveBufferSize(8192);
    let values = [
        size,
        Characteristic::RemoteInvalidation(true),
        Characteristic::BackwardSupport(BackwardSupport::General),
    ];
    for fixed in values {
        let mut p = Peer::new();
        let start = values.map(|value| Initial {
            value,
            fixed: value == fixed,
        });
        let got = hear(&mut p, 1, |b| init(b, 1, 1, Direction::Reply, &start))?;
        ensure!(got.is_ok(), "init");
        let refused = p.try_request(5, 4096) == Err(NotSent::Refused);
        ensure!(refused == (fixed == size), "request for a fixed one");
    }
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
    let (less, more) = (2048, 9000);
    ensure!(
        p.try_request(5, less).is_ok() && p.send_limit() == 2048,
        "requested smaller size counts at once"
    );
    ensure!(
        p.try_request(6, more) == Err(NotSent::Busy),
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
    ensure!(p.try_request(6, less).is_ok(), "asked again");
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
    ensure!(p.try_request(7, more).is_ok(), "asked for more");
    ensure!(
        p.send_limit() == 8192,
        "larger size does not count before the answer"
    );
    says(&mut p, Characteristic::ReceiveBufferSize(8192), true)?;
    ensure!(p.request().is_some(), "unanswered is not pending");
    ensure!(answers(&mut p, 7, &[Disposition::Done])? == Ok(()), "done");
    ensure!(p.send_limit() == 9000, "done");
    let unchanged = p;
    let asked = hear(&mut p, 8, |b| {
        request(b, 8, 1, &[Characteristic::ReceiveBufferSize(less)])
    })?;
    ensure!(
        asked.is_ok() && p == unchanged,
        "requests of the peer change nothing"
    );
    ensure!(p.try_request(9, less).is_ok(), "asked");
    ensure!(p.send_limit() == 2048, "limit of the request");
    p.on_unsupported(OpType::Request);
    ensure!(p.send_limit() == 9000, "unsupported counts as rejected");
    let unsupported = Err(NotSent::Refused);
    ensure!(p.try_request(10, less) == unsupported, "unsupported");
    check_unsupported()
}

/// Each operation may be unsupported by itself, but without INIT_XCHAR there are no others.
//~ XC-4-3 supports RESP_XCHAR or UPD_XCHAR
//~ XC-4-4 each operation may be unsupported
fn check_unsupported() -> Check {
    use OpType::{Init, Request, Response, Update};
    // The one that is unsupported, and those that may still be supported.
    let table: [(OpType, &[OpType]); 4] = [
        (Init, &[Response]),
        (Request, &[Init, Update, Response]),
        (Update, &[Init, Request, Response]),
        (Response, &[Init, Request, Update, Response]),
    ];
    for (op, rest) in table {
        let mut p = Peer::new();
        p.on_unsupported(op);
        for other in [Init, Request, Update, Response] {
            ensure!(p.supports(other) == rest.contains(&other), "supported");
        }
    }
    let mut p = Peer::new();
    ensure!(p.try_request(1, 2048).is_ok(), "asked");
    p.on_unsupported(Update);
    ensure!(p.request().is_some(), "another operation is unsupported");
    Ok(())
}

//~ XC-4.3-1 XID is that of the request
//~ XC-4.3-4 pending change is announced later
fn check_responses() -> Check {
    let mut p = Peer::new();
    let unasked = Err(Fault::Unasked);
    ensure!(
        answers(&mut p, 5, &[Disposition::Done])? == unasked,
        "response without a request"
    );
    ensure!(p.try_request(5, 9000).is_ok(), "asked");
    ensure!(
        answers(&mut p, 4, &[Disposition::Done])? == unasked,
        "another XID"
    );
    let uncovered = Err(Fault::Coverage(0));
    ensure!(answers(&mut p, 5, &[])? == uncovered, "not covered");
    let two = [Disposition::Done, Disposition::Done];
    let exceeding = Err(Fault::Coverage(1));
    ensure!(
        answers(&mut p, 5, &two)? == exceeding,
        "response with too many elements"
    );
    ensure!(p.send_limit() == 4096, "nothing changed");
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
    check_replaced()?;
    check_asked()?;
    check_overtaken()?;
    check_other_sizes()
}

//~ V2-2.3-3 larger thresholds may be supported
//~ XC-3-4 unrequested change does not disturb
//~ XC-3.1-1 until all smaller receives are gone
//~ XC-3.1-2 not reduced before the partner knows
fn check_growth() -> Check {
    let mut r = Receives::new(4096);
    let steady = r;
    for less in [0, 2048, 4096] {
        r.want(less);
        ensure!(r == steady, "only the peer may reduce the size");
    }
    ensure!(r.wanted().is_none(), "nothing to post");
    r.want(8192);
    ensure!(r.wanted() == Some(8192) && r.announced() == 4096, "wanted");
    r.on_consumed(9);
    r.on_posting(4096, 0);
    ensure!(
        r.growing() == Some(8192) && r.announced() == 4096,
        "not yet"
    );
    r.on_posting(8192, 2);
    ensure!(r.wanted().is_none() && r.announced() == 4096, "growing");
    r.want(8192);
    ensure!(r.wanted().is_none(), "wanted again");
    r.on_consumed(1);
    ensure!(r.announced() == 4096, "one smaller Receive is left");
    r.on_consumed(1);
    ensure!(r.announced() == 8192 && r.growing().is_none(), "grown");
    ensure!(!r.has_cleared(), "no request was pending");
    r.want(16384);
    r.on_post_failed();
    ensure!(r.growing().is_none() && r.announced() == 8192, "failed");
    r.on_post_failed();
    ensure!(r.announced() == 8192, "failed again");
    // There are no smaller Receives.
    r.want(16384);
    r.on_posting(16384, 0);
    ensure!(r.announced() == 16384, "at once");
    Ok(())
}

fn check_replaced() -> Check {
    let mut r = Receives::new(4096);
    r.want(8192);
    r.on_posting(8192, 3);
    r.want(16384);
    ensure!(r.wanted() == Some(16384), "a larger size is wanted");
    r.on_consumed(3);
    ensure!(r.announced() == 4096, "Receives of another size");
    r.on_posting(8192, 0);
    ensure!(r.announced() == 4096, "a size that is wanted no longer");
    r.on_posting(16384, 1);
    r.on_consumed(u32::MAX);
    ensure!(r.announced() == 16384, "grown");
    Ok(())
}

//~ XC-3-2 any request may be rejected
//~ XC-3.1-4 size is reduced only on request
//~ XC-3.1-7 size is at least 1024
//~ XC-4.2-1 REQ_XCHAR is answered by RESP_XCHAR
fn check_asked() -> Check {
    use Disposition::{Done, Pending, Rejected};
    const RANGE: (u32, u32) = (2048, 16384);
    let mut r = Receives::new(4096);
    ensure!(r.on_request(2047, RANGE) == Rejected, "too small");
    ensure!(r.on_request(16385, RANGE) == Rejected, "too large");
    ensure!(r.on_request(1023, (0, 9000)) == Rejected, "below 1024");
    ensure!(r.on_request(2048, RANGE) == Done, "smaller on request");
    ensure!(r.announced() == 2048 && r.wanted() == Some(2048), "smaller");
    // Larger Receives are still posted.
    ensure!(r.on_request(4096, RANGE) == Done, "posted in any case");
    ensure!(r.announced() == 4096 && r.wanted().is_none(), "as before");
    ensure!(r.on_request(2048, RANGE) == Done, "smaller again");
    r.on_posting(1024, 0);
    r.on_posting(2048, 0);
    ensure!(r.wanted().is_none(), "smaller ones are posted");
    ensure!(r.on_request(8192, RANGE) == Pending, "larger size later");
    ensure!(r.on_request(9216, RANGE) == Rejected, "another one");
    ensure!(r.on_request(8192, RANGE) == Pending, "the same again");
    r.on_posting(8192, 3);
    ensure!(r.on_request(8192, RANGE) == Pending, "under way");
    ensure!(!r.has_cleared(), "still pending");
    r.on_consumed(5);
    ensure!(
        r.has_cleared() && r.announced() == 8192,
        "no longer pending"
    );
    r.on_told();
    ensure!(!r.has_cleared(), "told once");
    ensure!(r.on_request(8192, RANGE) == Done, "size in force");
    ensure!(!r.has_cleared(), "nothing was pending");
    Ok(())
}

/// A request for a smaller size supersedes a pending request.
//~ XC-4.4-5 pending request that is overtaken
fn check_overtaken() -> Check {
    use Disposition::{Done, Pending};
    const RANGE: (u32, u32) = (1024, 65536);
    let mut r = Receives::new(4096);
    ensure!(r.on_request(8192, RANGE) == Pending, "pending");
    r.on_posting(8192, 3);
    ensure!(r.on_request(2048, RANGE) == Done, "overtaken");
    ensure!(r.has_cleared() && r.growing().is_none(), "has to be told");
    r.on_told();
    r.on_consumed(3);
    ensure!(r.announced() == 2048 && !r.has_cleared(), "cancelled");
    // Without a request there is nothing to clear.
    let mut r = Receives::new(4096);
    r.want(8192);
    ensure!(r.on_request(2048, RANGE) == Done, "cancels our growth");
    ensure!(
        !r.has_cleared() && r.wanted() == Some(2048),
        "not asked for"
    );
    // A request for the size that grows already becomes pending.
    let mut r = Receives::new(4096);
    r.want(8192);
    r.on_posting(8192, 1);
    ensure!(r.on_request(8192, RANGE) == Pending, "joins");
    r.on_consumed(1);
    ensure!(r.has_cleared(), "joined and cleared");
    // A request that cannot be carried out.
    let mut r = Receives::new(4096);
    ensure!(r.on_request(8192, RANGE) == Pending, "pending");
    r.on_post_failed();
    ensure!(r.has_cleared() && r.announced() == 4096, "failed");
    Ok(())
}

/// Sizes that are wanted, posted or requested in the middle of a change.
//~ XC-3.1-5 at least of the announced size
fn check_other_sizes() -> Check {
    use Disposition::{Done, Pending};
    const RANGE: (u32, u32) = (1024, 65536);
    // A size that is not larger does not end a growth.
    let mut r = Receives::new(8192);
    r.want(32768);
    r.want(8192);
    ensure!(r.growing() == Some(32768), "the growth goes on");
    // The caller posts a size that is wanted no longer. Smaller Receives remain.
    let mut r = Receives::new(8192);
    r.on_posting(32768, 5);
    r.want(16384);
    ensure!(r.announced() == 8192, "not all have this size");
    ensure!(r.wanted() == Some(16384), "to be posted");
    // The peer has asked for less, and the smaller size is not posted yet.
    let mut r = Receives::new(8192);
    ensure!(r.on_request(2048, RANGE) == Done, "less");
    r.want(16384);
    ensure!(r.on_request(8192, RANGE) == Done, "posted in any case");
    ensure!(r.announced() == 8192 && r.growing().is_none(), "at once");
    ensure!(r.on_request(65536, RANGE) == Pending, "the largest size");
    Ok(())
}
