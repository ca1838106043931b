// SPDX-License-Identifier: GPL-2.0

//! The terms of version two: two sessions exchange their characteristics and change them.

use super::super::super::wire::message::ErrorBody;
use super::super::super::wire::v2;
use super::super::super::wire::xchar::value::Id;
use super::super::super::wire::xchar::{
    request, respond, BackwardSupport, Characteristic, Disposition,
};
use super::super::super::wire::Direction;
use super::super::session::{
    least_receive, Body, Breach, Change, Close, Config, Dispositions, Output, Own, Session, Take,
    PAUSE_MS,
};
use super::super::xchar::{Fault, NotSent};
use super::ensure;
use super::pair::{deliver, next, says, Pair};
use super::session::{
    hear, outputs, probing, waits_for_ever, Check, Say, CLIENT, ONE, SERVER, TWO,
};

/// Runs the cases.
///
/// # Errors
///
/// The name of the first case that fails.
pub fn check() -> Check {
    check_defaults()?;
    check_init()?;
    check_known()?;
    check_growth()?;
    check_less()?;
    check_told()?;
    check_request()?;
    check_overtaken()?;
    check_unsupported()?;
    check_forms()?;
    check_limits()?;
    check_backward()?;
    check_plain_sends()
}

const CALL: Direction = Direction::Call;
const REPLY: Direction = Direction::Reply;

/// A time when no control message is paused by an earlier one.
const LATER: u64 = 1_000 * PAUSE_MS;

const fn size(n: u32) -> Characteristic<'static> {
    Characteristic::ReceiveBufferSize(n)
}

//~ V2-2.3-1 inline threshold of 4096 bytes
//~ V2-2.3-2 assume a threshold of 4096 bytes
//~ V2-5.1-2 default threshold of version two
//~ V2-5.2-3 threshold is that of the version
#[inline(never)]
fn check_defaults() -> Check {
    for (two, wanted, size) in [
        (true, 1024, 4096),
        (true, 4096, 4096),
        (true, 8192, 8192),
        (false, 1024, 1024),
    ] {
        ensure!(least_receive(two, wanted) == size, "Receives");
    }
    let mut s = probing();
    hear(&mut s, Say::Rpc(TWO, 7, REPLY))?;
    let t = *s.terms();
    ensure!((t.send, t.expected) == (4096, 4096), "default");
    ensure!(t.settled && t.version == TWO && !t.watch, "settled");
    ensure!(t.receive == 16384, "Receives as posted");
    // Private data are version one's.
    ensure!(CLIENT.one.remote_invalidation && !t.may_invalidate, "plain");
    let mut small = Session::new(Config {
        send: 3000,
        ..CLIENT
    });
    small.on_sent(7, 0);
    hear(&mut small, Say::Rpc(TWO, 7, REPLY))?;
    ensure!(small.terms().send == 3000, "own send size");
    Ok(())
}

//~ V2-3.2-1 XID and credits of the direction
//~ V2-4.2.2-5 without an RPC message
//~ V2-4.2.2-6 XID and credits of optional operation
//~ XC-4.1-2 first message fits smallest receive buffer
//~ XC-4.1-4 all characteristics sender is aware of
//~ XC-3.1-6 size decides when chunks are needed
#[inline(never)]
fn check_init() -> Check {
    let mut pair = Pair::new(CLIENT, SERVER)?;
    let init = |session: &mut Session, direction, config: &Config| {
        let Some(Output::Send(control)) = session.poll(0) else {
            return Err("no INIT_XCHAR");
        };
        let own = Own {
            size: config.receive,
            invalidation: config.invalidation,
            backward: config.backward,
        };
        ensure!(control.body == Body::Init(own), "all characteristics");
        ensure!(control.direction == direction, "direction");
        ensure!(session.poll(0).is_none(), "once");
        Ok(control)
    };
    let mine = init(&mut pair.client, CALL, &CLIENT)?;
    let theirs = init(&mut pair.server, REPLY, &SERVER)?;
    ensure!(mine.xid != theirs.xid, "XIDs");
    let got = deliver(&mut pair.server, &mine, 0)?;
    ensure!(got.take == Take::Done && !got.grant, "a request of credits");
    let got = deliver(&mut pair.client, &theirs, 0)?;
    ensure!(got.take == Take::Done && got.grant, "a grant");
    let (c, s) = (pair.client.terms(), pair.server.terms());
    ensure!(
        (c.send, c.receive, c.expected) == (8192, 16384, 4096),
        "client"
    );
    ensure!((s.send, s.receive) == (16384, 8192), "server");
    ensure!(s.may_invalidate && c.expect_invalidation, "invalidation");
    ensure!(!c.may_invalidate && !s.expect_invalidation, "one way");
    ensure!(c.backward == BackwardSupport::General, "backward: server");
    ensure!(
        s.backward == BackwardSupport::SizeLimited,
        "backward: client"
    );
    let (t, u) = (c.thresholds(), s.thresholds());
    ensure!(
        (t.client_to_server, t.server_to_client) == (8192, 4096),
        "t"
    );
    ensure!(
        (u.client_to_server, u.server_to_client) == (8192, 16384),
        "u"
    );
    ensure!(t.remote_invalidation && u.remote_invalidation, "both ends");
    ensure!(t.version == TWO, "version");
    Ok(())
}

/// A client relies on longer replies only when it has received some.
//~ XC-4.1-1 does not assume characteristics were noted
#[inline(never)]
fn check_known() -> Check {
    let mut pair = Pair::new(CLIENT, SERVER)?;
    pair.run()?;
    let before = pair.client.terms().generation;
    for (len, expected) in [(4096, 4096), (5000, 5000), (4500, 5000), (20000, 16384)] {
        pair.client.on_long_reply(len);
        ensure!(pair.client.terms().expected == expected, "longest reply");
    }
    ensure!(pair.client.terms().generation != before, "new terms");
    ensure!(!pair.client.terms().voids(before), "a raise voids nothing");
    for (asked, expected) in [(8192, 4096), (65537, 4096), (2048, 2048)] {
        let mut pair = Pair::new(CLIENT, SERVER)?;
        pair.run()?;
        says(&mut pair.client, |b| request(b, 1, 1, &[size(asked)]))?;
        ensure!(pair.client.terms().expected == expected, "asks for a size");
    }
    // A server sends replies of the length on which its clients may rely.
    let mut server = Pair::new(
        CLIENT,
        Config {
            send: 1024,
            ..SERVER
        },
    )?
    .server;
    ensure!(server.terms().send == 4096, "default");
    server.want_send(2048);
    ensure!(server.terms().send == 4096, "not less than before");
    Ok(())
}

/// A size grows while calls are in flight, and is announced when no smaller Receive is left.
//~ V2-5.2-4 thresholds change without connection being lost
//~ XC-4.4-2 unrequested change may be announced
//~ XC-4.4-3 XID unrelated to any request
#[inline(never)]
fn check_growth() -> Check {
    let mut pair = Pair::new(CLIENT, SERVER)?;
    pair.run()?;
    pair.server.want_receive(32768);
    let post = Output::Post { size: 32768 };
    outputs(&mut pair.server, PAUSE_MS, &[post])?;
    pair.server.on_posting(32768, 2);
    pair.server.on_consumed(1);
    outputs(&mut pair.server, PAUSE_MS, &[])?;
    ensure!(pair.server.terms().receive == 8192, "a smaller one is left");
    pair.server.on_consumed(1);
    let sent = pair.run()?;
    let update = Body::Update {
        now: Change::Size(32768),
        pending_cleared: false,
    };
    ensure!(sent == one(update), "announced");
    // The own send size bounds it.
    ensure!(pair.client.terms().send == 12288, "client");
    pair.client.want_send(u32::MAX);
    ensure!(pair.client.terms().send == 32768, "client, any size");
    pair.run()?;
    ensure!(pair.client.terms().send == 32768, "its request is refused");
    pair.server.want_receive(1024);
    ensure!(pair.run()? == [None; 8], "only the peer may reduce it");
    for _ in 0..2 {
        pair.server.want_receive(65536);
        let post = Output::Post { size: 65536 };
        outputs(&mut pair.server, pair.now, &[post])?;
        pair.server.want_receive(65536);
        outputs(&mut pair.server, pair.now, &[])?;
        pair.server.on_post_failed();
    }
    ensure!(pair.run()? == [None; 8], "not enough memory");
    Ok(())
}

const fn one(body: Body) -> [Option<Body>; 8] {
    [Some(body), None, None, None, None, None, None, None]
}

/// The client asks for smaller Receives. It observes the smaller size before it asks.
//~ XC-3.1-3 asks for a smaller size
fn check_less() -> Check {
    let mut pair = Pair::new(CLIENT, SERVER)?;
    ensure!(pair.client.ask(2048).is_ok(), "before INIT_XCHAR");
    ensure!(pair.client.terms().send == 2048, "at once");
    let t = *pair.client.terms();
    ensure!(
        t.voids(t.generation.wrapping_sub(1)),
        "longer ones are void"
    );
    ensure!(!t.voids(t.generation), "not the present ones");
    let void = Output::Void {
        before: t.generation,
    };
    ensure!(pair.client.poll(0) == Some(void), "void");
    ensure!(matches!(pair.client.poll(0), Some(Output::Send(_))), "INIT");
    let later = 2 * PAUSE_MS;
    outputs(&mut pair.client, later, &[])?;
    pair.client.on_voided(t.generation.wrapping_sub(1));
    outputs(&mut pair.client, later, &[])?;
    pair.client.on_voided(t.generation);
    outputs(&mut pair.client, PAUSE_MS - 1, &[])?;
    let Some(Output::Send(ask)) = pair.client.poll(PAUSE_MS) else {
        return Err("no REQ_XCHAR");
    };
    ensure!(ask.body == Body::Request(2048), "REQ_XCHAR");
    ensure!(pair.client.ask(1024) == Err(NotSent::Busy), "one request");
    deliver(&mut pair.server, &ask, later)?;
    ensure!(pair.server.terms().receive == 2048, "server");
    let Some(Output::Post { size: 2048 }) = pair.server.poll(later) else {
        return Err("smaller ones may be posted");
    };
    pair.server.on_posting(2048, 0);
    let Some(Output::Send(answer)) = pair.server.poll(later) else {
        return Err("no RESP_XCHAR");
    };
    ensure!(answer.xid == ask.xid, "XID of the request");
    deliver(&mut pair.client, &answer, later)?;
    ensure!(pair.client.terms().send == 2048, "done");
    ensure!(pair.client.ask(4096).is_ok(), "and larger again");
    ensure!(pair.client.terms().send == 2048, "not before it is done");
    pair.run()?;
    ensure!(pair.client.terms().send == 4096, "larger again");
    Ok(())
}

/// RESP_XCHAR announces the new size to the peer, so that UPD_XCHAR does not repeat it.
fn check_told() -> Check {
    let mut pair = Pair::new(CLIENT, SERVER)?;
    pair.run()?;
    ensure!(pair.client.ask(2048).is_ok(), "asked");
    let [asked, answered, rest @ ..] = pair.run()?;
    ensure!(asked == Some(Body::Request(2048)), "REQ_XCHAR");
    ensure!(matches!(answered, Some(Body::Response(_))), "RESP_XCHAR");
    ensure!(rest == [None; 6], "no UPD_XCHAR");
    pair.server.want_receive(SERVER.receive);
    let update = Body::Update {
        now: Change::Size(SERVER.receive),
        pending_cleared: false,
    };
    ensure!(pair.run()? == one(update), "the former size again");
    ensure!(pair.client.terms().send == SERVER.receive, "known");
    Ok(())
}

/// Requests of several elements.
//~ XC-4.3-2 three subsets do not overlap
//~ XC-4.3-5 unknown are rejected
fn check_request() -> Check {
    let mut pair = Pair::new(CLIENT, SERVER)?;
    pair.run()?;
    pair.server.want_receive(32768);
    let want = [
        Characteristic::RemoteInvalidation(true),
        size(2048),
        Characteristic::Other {
            id: Id(0xffff_ff00),
            data: &[1],
        },
        size(32768),
    ];
    let got = says(&mut pair.server, |b| request(b, 77, 1, &want))?;
    ensure!(got.take == Take::Done && got.breach.is_none(), "taken");
    let post = Output::Post { size: 32768 };
    ensure!(pair.server.poll(0) == Some(post), "posts");
    let Some(Output::Send(control)) = pair.server.poll(0) else {
        return Err("no RESP_XCHAR");
    };
    let mut buf = [0; 128];
    let len = control.encode(&mut buf, 3).map_err(|_| "no room")?;
    let mut expected = [0; 128];
    let outcome = [
        Disposition::Rejected,
        // The last size counts.
        Disposition::Rejected,
        Disposition::Rejected,
        Disposition::Pending,
    ];
    let n = respond(&mut expected, 77, 3, outcome.into_iter());
    ensure!(n == Ok(len) && buf == expected, "RESP_XCHAR");
    pair.server.on_posting(32768, 0);
    let Some(Output::Send(control)) = pair.server.poll(LATER) else {
        return Err("no UPD_XCHAR");
    };
    let update = Body::Update {
        now: Change::Size(32768),
        pending_cleared: true,
    };
    ensure!(control.body == update, "UPD_XCHAR");
    let none = says(&mut pair.server, |b| request(b, 78, 1, &[]))?;
    ensure!(none.take == Take::Done, "a request of nothing");
    let empty = Body::Response(Dispositions::default());
    ensure!(pair.run()? == one(empty), "empty RESP_XCHAR");
    Ok(())
}

/// A request for a smaller size supersedes a pending request.
//~ XC-4.4-5 pending request that is overtaken
fn check_overtaken() -> Check {
    let mut pair = Pair::new(CLIENT, SERVER)?;
    pair.run()?;
    pair.server.want_receive(16384);
    says(&mut pair.server, |b| request(b, 1, 1, &[size(16384)]))?;
    pair.server.poll(0);
    pair.server.on_posting(16384, 3);
    says(&mut pair.server, |b| request(b, 2, 1, &[size(2048)]))?;
    let clears = Body::Update {
        now: Change::Size(2048),
        pending_cleared: true,
    };
    let mut last = None;
    for _ in 0..4 {
        last = next(&mut pair.server, LATER)?.or(last);
    }
    ensure!(
        last.is_some_and(|c| c.body == clears),
        "UPD_XCHAR clears it"
    );
    Ok(())
}

/// INVAL_OPTION is matched with the operation that it answers. The connection continues.
//~ V2-3.1-1 unknown operation answered by INVAL_OPTION
//~ XC-3-3 peer does not support REQ_XCHAR
//~ XC-4-4 each operation may be unsupported
fn check_unsupported() -> Check {
    for error in [ErrorBody::InvalidOption, ErrorBody::BadHeader] {
        let mut pair = Pair::new(CLIENT, SERVER)?;
        let Some(Output::Send(init)) = pair.client.poll(0) else {
            return Err("no INIT_XCHAR");
        };
        let got = hear(&mut pair.client, Say::Error(TWO, init.xid, error))?;
        ensure!(got.take == Take::Done && got.grant, "taken");
        let Some(Output::Send(init)) = pair.server.poll(0) else {
            return Err("no INIT_XCHAR of the server");
        };
        let got = hear(&mut pair.server, Say::Error(TWO, init.xid, error))?;
        ensure!(got.take == Take::Done && !got.grant, "taken by the server");
        pair.client.want_receive(65536);
        ensure!(next(&mut pair.client, PAUSE_MS)?.is_none(), "no UPD_XCHAR");
        let refused = Err(NotSent::Refused);
        ensure!(pair.client.ask(2048) == refused, "no REQ_XCHAR");
        ensure!(pair.client.terms().send == 4096, "defaults");
        let got = hear(&mut pair.client, Say::Error(TWO, init.xid, error))?;
        ensure!(got.take == Take::Deliver, "another one is about a call");
    }
    let mut pair = Pair::new(CLIENT, SERVER)?;
    pair.run()?;
    ensure!(pair.client.ask(2048).is_ok(), "asked");
    let Some(control) = next(&mut pair.client, LATER)? else {
        return Err("no REQ_XCHAR");
    };
    let vers = ErrorBody::Vers { low: 1, high: 1 };
    let got = hear(&mut pair.client, Say::Error(TWO, control.xid, vers))?;
    ensure!(got.take == Take::Deliver, "ERR_VERS is about no operation");
    hear(
        &mut pair.client,
        Say::Error(TWO, control.xid, ErrorBody::InvalidOption),
    )?;
    ensure!(pair.client.terms().send == 8192, "counts as rejected");
    ensure!(waits_for_ever(&pair.client), "nothing to send");
    pair.client.want_receive(65536);
    let update = next(&mut pair.client, LATER)?;
    ensure!(update.is_some(), "UPD_XCHAR without a pause");
    Ok(())
}

/// Operations in the wrong form, and unknown ones.
//~ V2-3.1-1 unknown operation answered by INVAL_OPTION
//~ V2-3.1-2 optional operations may be supported
//~ XC-4-1 unsupported operations are answered by INVAL_OPTION
//~ XC-4-5 no RPC message follows these operations
fn check_forms() -> Check {
    let mut pair = Pair::new(CLIENT, SERVER)?;
    pair.run()?;
    let server = &mut pair.server;
    // Operation, direction, bytes behind it, and the error.
    let bad = Some(ErrorBody::BadHeader);
    let unknown = Some(ErrorBody::InvalidOption);
    for (op, direction, rpc, error) in [
        (2, CALL, 0, None),
        (2, REPLY, 0, bad),
        (2, CALL, 4, bad),
        (3, CALL, 0, bad),
        (5, CALL, 0, unknown),
        (5, REPLY, 0, unknown),
        (5, CALL, 8, unknown),
    ] {
        let words = if op == 3 { 3 } else { 1 };
        let got = says(server, |b| {
            let mut w = v2::optional(b, 9, 1, direction, op)?;
            for _ in 0..words {
                w.word(0)?;
            }
            Ok(w.finish()?.saturating_add(rpc))
        })?;
        ensure!((got.take == Take::Drop) == error.is_some(), "taken");
        ensure!((got.breach == Some(Breach::Form)) == (error == bad), "form");
        let answer = next(server, LATER)?.ok_or("no answer")?;
        match error {
            Some(error) => {
                ensure!(answer.body == Body::Error(error), "error");
                ensure!(answer.xid == 9 && answer.direction == REPLY, "XID");
            }
            None => ensure!(matches!(answer.body, Body::Response(_)), "RESP"),
        }
    }
    Ok(())
}

/// Each of many requests is answered. More than can be answered end the connection. Other breaches.
//~ XC-3.1-7 size is at least 1024
//~ XC-4.2-1 REQ_XCHAR is answered by RESP_XCHAR
//~ XC-4.3-1 XID is that of the request
fn check_limits() -> Check {
    let mut pair = Pair::new(CLIENT, SERVER)?;
    pair.run()?;
    let server = &mut pair.server;
    let ask = |server: &mut Session, xid| says(server, |b| request(b, xid, 1, &[]));
    for xid in 0..16 {
        ensure!(ask(server, xid)?.breach.is_none(), "answered");
    }
    let mut flooded = *server;
    let got = ask(&mut flooded, 16)?;
    ensure!(got.breach == Some(Breach::TooMany), "too many");
    outputs(&mut flooded, LATER, &[Output::Close(Close::TooMany)])?;
    for xid in 0..16 {
        let answer = next(server, LATER)?.ok_or("no answer")?;
        ensure!(answer.xid == xid, "in order");
    }
    ensure!(next(server, LATER)?.is_none(), "no more");
    let got = says(server, |b| respond(b, 5, 1, [].into_iter()))?;
    let unasked = Some(Breach::Operation(Fault::Unasked));
    ensure!(got.breach == unasked, "an answer to nothing");
    let got = says(server, |b| {
        super::super::super::wire::xchar::update(b, 8, 1, CALL, &size(512), false)
    })?;
    let small = Some(Breach::Operation(Fault::TooSmall(512)));
    ensure!(got.breach == small && server.terms().send == 16384, "512");
    Ok(())
}

/// The messages that each level of support permits.
//~ XC-3.3-1 UNKNOWN means no backward support
//~ XC-3.3-3 NONE permits no backward messages
fn check_backward() -> Check {
    use BackwardSupport::{General, None as No, SizeLimited, Unknown};
    // The client's level, and whether the server may call it.
    for (level, call) in [
        (Unknown, true),
        (No, false),
        (SizeLimited, true),
        (General, true),
    ] {
        let mut pair = Pair::new(
            Config {
                backward: level,
                ..CLIENT
            },
            SERVER,
        )?;
        pair.run()?;
        ensure!(pair.server.terms().permits_backward() == call, "calls");
    }
    let server = Config {
        backward: Unknown,
        ..SERVER
    };
    let mut pair = Pair::new(CLIENT, server)?;
    pair.run()?;
    ensure!(!pair.client.terms().permits_backward(), "nothing was shown");
    let one = Session::new(Config {
        versions: (ONE, ONE),
        ..CLIENT
    });
    ensure!(one.terms().permits_backward(), "one");
    Ok(())
}

/// A requester that is not ready for remote invalidation says so.
//~ XC-3.2-1 requester not ready sent plain Sends
fn check_plain_sends() -> Check {
    for invalidation in [false, true] {
        let client = Config {
            invalidation,
            ..CLIENT
        };
        let mut pair = Pair::new(client, SERVER)?;
        pair.run()?;
        let (client, server) = (pair.client.terms(), pair.server.terms());
        ensure!(client.expect_invalidation == invalidation, "of the client");
        ensure!(server.may_invalidate == invalidation, "the server knows");
    }
    Ok(())
}
