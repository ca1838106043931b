// SPDX-License-Identifier: GPL-2.0

//! Settings of both ends that change while a connection lasts, and what both ends know of each
//! other before it begins.

use super::super::super::wire::xchar::{request, update, Characteristic};
use super::super::super::wire::Direction;
use super::super::inline::Thresholds;
use super::super::session::{size, Announced, Body, Config, Output, Session, AT_WORK, PAUSE_MS};
use super::ensure;
use super::pair::{deliver, next, says, Pair};
use super::session::{hear, outputs, Check, Say, CLIENT, NOTHING, ONE, SERVER, TWO};

/// Runs the cases.
///
/// # Errors
///
/// The name of the first case that fails.
pub fn check() -> Check {
    check_first()?;
    check_silent()?;
    check_limits()?;
    check_orders()?;
    check_automatic()?;
    check_busy()?;
    check_told()?;
    check_one()?;
    check_foreign()?;
    check_room()
}

/// Two ends whose private data say that sizes of `client` and `server` bytes hold in version two.
fn ends(client: u32, server: u32) -> (Config, Config) {
    let sizes = |size| Announced {
        two: true,
        spares: true,
        sizes: Some((size, size)),
    };
    let least = client.min(server);
    let one = Thresholds {
        client_to_server: least,
        server_to_client: least,
        ..CLIENT.one
    };
    let config = |config: Config, own, peer| Config {
        one,
        announced: sizes(peer),
        receive: own,
        send: own,
        ..config
    };
    (
        config(CLIENT, client, server),
        config(SERVER, server, client),
    )
}

/// Both ends know from private data what the other receives and sends: from the first message on,
/// and before any operation. The first call has at most 1024 bytes nevertheless.
//~ V2-2.3-4 may tell the threshold
//~ V2-5-2 first message at most 1024 bytes
fn check_first() -> Check {
    let (client, server) = ends(16384, 32768);
    let first = *Session::new(client).terms();
    ensure!((first.send, first.expected) == (1024, 16384), "first call");
    let pair = Pair::new(client, server)?;
    let (c, s) = (pair.client.terms(), pair.server.terms());
    ensure!((c.send, c.expected) == (16384, 16384), "client");
    ensure!((s.send, s.receive) == (16384, 32768), "server");
    Ok(())
}

/// A peer that says nothing about its sizes in version two has the defaults.
//~ V2-2.3-2 assume a threshold of 4096 bytes
//~ V2-5.1-2 default threshold of version two
fn check_silent() -> Check {
    let (client, server) = ends(16384, 16384);
    let two = Announced {
        two: true,
        ..NOTHING
    };
    for announced in [NOTHING, two] {
        let silent = |config| Config {
            announced,
            ..config
        };
        let first = *Session::new(silent(client)).terms();
        ensure!((first.send, first.expected) == (1024, 1024), "first call");
        let mut pair = Pair::new(silent(client), silent(server))?;
        let (c, s) = (pair.client.terms(), pair.server.terms());
        ensure!((c.send, c.expected) == (4096, 4096), "client");
        ensure!(s.send == 4096, "server");
        pair.run()?;
        let (c, s) = (pair.client.terms(), pair.server.terms());
        ensure!((c.send, c.expected) == (16384, 4096), "client, told");
        ensure!(s.send == 16384, "server, told");
    }
    Ok(())
}

/// A lower limit is effective at once, a higher one when the server knows of it.
//~ V2-5.2-4 thresholds change without connection being lost
fn check_limits() -> Check {
    let mut pair = Pair::new(CLIENT, SERVER)?;
    pair.run()?;
    let old = pair.client.terms().generation;
    pair.client.want_send(6000);
    let t = *pair.client.terms();
    ensure!(t.send == 6000 && t.voids(old), "a lower limit");
    outputs(
        &mut pair.client,
        0,
        &[Output::Void {
            before: t.generation,
        }],
    )?;
    pair.client.on_voided(t.generation);
    pair.client.want_send(7000);
    ensure!(
        pair.client.terms().send == 6000,
        "not before the server knows"
    );
    pair.run()?;
    ensure!(pair.client.terms().send == 7000, "a higher limit");
    ensure!(!pair.client.terms().voids(t.generation), "voids nothing");
    ensure!(
        pair.client.terms().voids(old),
        "nor does it revive anything"
    );
    for (own, send) in [(7000, 7000), (1024, 1024), (0, 1024), (7000, 7000)] {
        pair.client.want_send(own);
        pair.run()?;
        ensure!(pair.client.terms().send == send, "own send size");
    }
    let t = *pair.client.terms();
    pair.client.want_send(7000);
    let same = *pair.client.terms() == t;
    ensure!(same, "no change, no generation");
    Ok(())
}

/// One setting: of the client's replies, of its calls, or of the server.
#[derive(Clone, Copy)]
enum Set {
    Replies(u32),
    Calls(u32),
    Server(u32),
}
use Set::{Calls, Replies, Server};

impl Set {
    fn apply(self, pair: &mut Pair) {
        match self {
            Replies(size) => pair.client.want_receive(size),
            Calls(size) => pair.client.want_send(size),
            Server(size) => {
                pair.server.want_receive(size);
                pair.server.want_send(size);
            }
        }
    }
}

/// Settings in the order in which they change, on a connection that begins with 4096 bytes.
const ORDERS: [&[Set]; 8] = [
    &[
        Server(32768),
        Replies(32768),
        Calls(32768),
        Calls(2048),
        Calls(32768),
    ],
    &[Calls(32768), Replies(32768), Server(32768)],
    &[
        Server(32768),
        Calls(8192),
        Server(16384),
        Calls(32768),
        Replies(32768),
    ],
    &[
        Replies(16384),
        Server(65536),
        Replies(4096),
        Server(8192),
        Replies(8192),
    ],
    &[Server(32768), Calls(32768), Server(4096), Server(32768)],
    &[Calls(1024), Server(8192), Calls(8192), Server(4096)],
    &[
        Calls(2048),
        Calls(65536),
        Calls(3072),
        Server(65536),
        Calls(65536),
    ],
    &[
        Server(16384),
        Server(4096),
        Server(12288),
        Calls(16384),
        Replies(16384),
    ],
];

/// Whatever the order, the effective sizes are those that both ends have set: after each change, or
/// at the end if all changes are simultaneous.
//~ V2-5.2-4 thresholds change without connection being lost
//~ XC-4.4-2 unrequested change may be announced
fn check_orders() -> Check {
    for order in ORDERS {
        for at_once in [false, true] {
            let (client, server) = ends(4096, 4096);
            let mut pair = Pair::new(client, server)?;
            let (mut replies, mut calls, mut both) = (4096u32, 4096u32, 4096u32);
            for set in order {
                set.apply(&mut pair);
                match *set {
                    Replies(size) => replies = size,
                    Calls(size) => calls = size,
                    Server(size) => both = size,
                }
                if !at_once {
                    settle(&mut pair)?;
                    let t = pair.client.terms();
                    ensure!(t.send == calls.min(both), "calls, step by step");
                    ensure!(t.expected == replies.min(both), "replies, step by step");
                }
            }
            settle(&mut pair)?;
            let t = pair.client.terms();
            ensure!(t.send == calls.min(both), "calls");
            ensure!(t.expected == replies.min(both), "replies");
            let fits = pair.server.terms().receive == calls.min(both);
            ensure!(fits, "the server's Receives");
        }
    }
    Ok(())
}

/// On a connection at work a setting with its default gives way to a larger size, whichever end
/// finds that first. Each look repeats the size, which changes nothing: not even a size that the
/// peer has asked for since.
//~ XC-4.4-2 unrequested change may be announced
fn check_automatic() -> Check {
    for (set, at_work, used) in [
        (4096, false, 4096),
        (4096, true, AT_WORK),
        (1024, true, 1024),
        (16384, true, 16384),
    ] {
        ensure!(size(set, at_work) == used, "the size in use");
    }
    let (client, server) = ends(4096, 4096);
    for client_first in [true, false] {
        let mut pair = Pair::new(client, server)?;
        settle(&mut pair)?;
        let (one, other) = if client_first {
            (&mut pair.client, &mut pair.server)
        } else {
            (&mut pair.server, &mut pair.client)
        };
        one.follow(AT_WORK, AT_WORK);
        other.follow(4096, 4096);
        settle(&mut pair)?;
        let t = *pair.client.terms();
        ensure!((t.send, t.expected) == (4096, 4096), "one end alone");
        both_at_work(&mut pair)?;
        let (c, s) = (*pair.client.terms(), *pair.server.terms());
        ensure!((c.send, c.expected) == (AT_WORK, AT_WORK), "client");
        ensure!((s.send, s.receive) == (AT_WORK, AT_WORK), "server");
        ensure!(both_at_work(&mut pair)? == [None; 8], "repeated");
        pair.client.follow(AT_WORK, 2048);
        settle(&mut pair)?;
        pair.server.follow(AT_WORK, AT_WORK);
        settle(&mut pair)?;
        ensure!(pair.server.terms().receive == 2048, "as the client asks");
    }
    Ok(())
}

/// Both ends look, and find the connection at work. Returns the first control messages.
fn both_at_work(pair: &mut Pair) -> Result<[Option<Body>; 8], &'static str> {
    pair.client.follow(AT_WORK, AT_WORK);
    pair.server.follow(AT_WORK, AT_WORK);
    let sent = pair.run()?;
    settle(pair)?;
    Ok(sent)
}

/// Runs until neither end has a message to send.
fn settle(pair: &mut Pair) -> Check {
    while pair.run()?.iter().any(Option::is_some) {}
    Ok(())
}

/// A change during an unanswered request is requested after the answer.
//~ XC-4.3-3 change done counts from then
fn check_busy() -> Check {
    let (client, server) = ends(4096, 4096);
    let mut pair = Pair::new(client, server)?;
    settle(&mut pair)?;
    let size = Body::Request;
    pair.client.want_send(2048);
    let now = pair.now.saturating_add(60_000);
    let ask = next(&mut pair.client, now)?.ok_or("no REQ_XCHAR")?;
    ensure!(ask.body == size(2048), "the first size");
    pair.client.want_send(3072);
    ensure!(next(&mut pair.client, now)?.is_none(), "one at a time");
    deliver(&mut pair.server, &ask, now)?;
    let answer = next(&mut pair.server, now)?.ok_or("no RESP_XCHAR")?;
    deliver(&mut pair.client, &answer, now)?;
    let again = next(&mut pair.client, now)?.ok_or("not asked again")?;
    ensure!(again.body == size(3072), "the second size");
    Ok(())
}

/// The client relies on longer replies when its announcement has been sent, and not before.
//~ XC-3.1-1 until all smaller receives are gone
fn check_told() -> Check {
    let (client, server) = ends(4096, 32768);
    let mut pair = Pair::new(client, server)?;
    settle(&mut pair)?;
    let client = &mut pair.client;
    client.want_receive(16384);
    let now = pair.now.saturating_add(60_000);
    ensure!(
        client.poll(now) == Some(Output::Post { size: 16384 }),
        "Receives"
    );
    client.on_posting(16384, 1);
    ensure!(client.terms().expected == 4096, "a smaller one is left");
    client.on_consumed(1);
    ensure!(client.terms().expected == 4096, "the server is not told");
    let Some(Output::Send(update)) = client.poll(now) else {
        return Err("no UPD_XCHAR");
    };
    ensure!(client.terms().expected == 4096, "not on its way");
    client.on_posted(&update);
    ensure!(client.terms().expected == 16384, "on its way");
    // A smaller setting counts at once: longer replies get a chunk.
    client.want_receive(8192);
    ensure!(client.terms().expected == 8192, "less");
    ensure!(client.terms().receive == 16384, "Receives as announced");
    Ok(())
}

/// The sizes of version one come from the private data and stay, whatever is set later: larger
/// Receives would only cost memory.
//~ 8797-4-1 settings may change at every reconnect
fn check_one() -> Check {
    let mut server = Session::new(SERVER);
    server.follow(65536, 65536);
    ensure!(server.poll(0).is_none(), "before the first message");
    hear(&mut server, Say::Rpc(ONE, 1, Direction::Call))?;
    while server.poll(0).is_some() {}
    let before = *server.terms();
    server.follow(65536, 65536);
    ensure!(server.poll(0).is_none(), "in version one");
    ensure!(*server.terms() == before, "the terms");
    Ok(())
}

/// Other implementations may use our number differently, so our threshold is not announced to them.
//~ XC-6.2-1 never taken for known ones
fn check_foreign() -> Check {
    let mut pair = Pair::new(CLIENT, SERVER)?;
    settle(&mut pair)?;
    let now = Characteristic::PreferredThreshold(65536);
    for end in [&mut pair.client, &mut pair.server] {
        let before = *end.terms();
        let got = says(end, |b| update(b, 9, 1, Direction::Reply, &now, false))?;
        ensure!(got.breach.is_none(), "no breach");
        ensure!(*end.terms() == before, "no change");
    }
    // The server grows, and announces only its Receives to its client.
    pair.server.want_receive(16384);
    pair.server.want_send(16384);
    let size = Characteristic::ReceiveBufferSize(16384);
    let [first, rest @ ..] = pair.run()?;
    ensure!(
        matches!(first, Some(Body::Update { now, .. }) if now.value() == size),
        "the size"
    );
    ensure!(rest.iter().all(Option::is_none), "nothing else");
    let reply = hear(&mut pair.client, Say::Rpc(TWO, 9, Direction::Reply))?;
    ensure!(reply.breach.is_none(), "goes on");
    Ok(())
}

/// A peer that may have only one Receive for each credit: an unsolicited message waits for a
/// Receive, and an answer does not.
//~ 8166-3.3.1-2 calls do not exceed latest grant
fn check_room() -> Check {
    let bare = Announced {
        spares: false,
        ..NOTHING
    };
    let of = |config| Config {
        announced: bare,
        ..config
    };
    let mut pair = Pair::new(of(CLIENT), of(SERVER))?;
    for end in [&mut pair.client, &mut pair.server] {
        outputs(end, 0, &[Output::Room])?;
        says(end, |b| request(b, 9, 1, &[]))?;
        let answer = match end.poll(0) {
            Some(Output::Send(control)) => control,
            _ => return Err("no RESP_XCHAR"),
        };
        end.on_posted(&answer);
        outputs(end, 0, &[])?;
        // There was none: it is requested again at the next poll.
        end.on_timer(0);
        outputs(end, 0, &[Output::Room])?;
        end.on_room();
        let Some(Output::Send(init)) = end.poll(0) else {
            return Err("no INIT_XCHAR");
        };
        outputs(end, 0, &[])?;
        end.on_posted(&init);
        outputs(end, 0, &[Output::Operated])?;
    }
    // The next one also needs a Receive.
    pair.client.want_receive(65536);
    outputs(&mut pair.client, PAUSE_MS, &[Output::Post { size: 65536 }])?;
    pair.client.on_posting(65536, 0);
    outputs(&mut pair.client, PAUSE_MS, &[Output::Room])
}
