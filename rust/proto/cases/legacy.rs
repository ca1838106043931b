// SPDX-License-Identifier: GPL-2.0

//! Cases of RFC 5666 only: RDMA_DONE, padding, CONF_RDMA.

use super::super::super::wire::conf_rdma::{Reply, Request};
use super::super::legacy::conf::{Configuration, Exchange};
use super::super::legacy::done::{Exposure, Window};
use super::super::legacy::padding::{BadAlign, Padding};
use super::ensure;

type Check = Result<(), &'static str>;

/// Checks that RDMA_DONE takes a credit, and that a reply to a later call returns it.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 5666-3.3-5 always has at least one credit
//~ 5666-3.5-1 after reading client sends RDMA_DONE
//~ 5666-3.8-1 client accounts for RDMA_DONE
//~ 5666-3.8-4 replenishes the credit RDMA_DONE took
pub fn check_done() -> Check {
    let mut w = Window::new();
    let first = w.try_call().ok_or("first call")?;
    ensure!(w.try_call().is_none(), "one credit at first");
    w.on_reply(first, 3, 8);
    let early = w.try_call().ok_or("early call")?;
    w.done_due();
    ensure!(w.try_call().is_none(), "RDMA_DONE before a call");
    ensure!(w.try_done() && !w.try_done(), "one RDMA_DONE");
    ensure!(
        w.available() == 1 && w.unconfirmed() == 1,
        "RDMA_DONE takes a credit"
    );
    let late = w.try_call().ok_or("late call")?;
    ensure!(w.available() == 0, "all credits taken");
    w.on_reply(early, 3, 8);
    ensure!(w.unconfirmed() == 1, "reply to a call before RDMA_DONE");
    w.on_reply(late, 3, 8);
    ensure!(
        w.unconfirmed() == 0 && w.available() == 3,
        "reply to a call after RDMA_DONE"
    );
    // With a grant of one, an RDMA_DONE, which is never answered, does not block further messages.
    let last = w.try_call().ok_or("last call")?;
    w.on_reply(last, 1, 8);
    w.done_due();
    ensure!(
        w.try_done() && w.available() == 1,
        "RDMA_DONE with a grant of one"
    );
    check_exposure()
}

//~ 5666-3.8-2 server takes its memory back
//~ 5666-3.8-3 credits enough for RDMA_DONE
//~ 5666-11-1 protect themselves against missing RDMA_DONEs
//~ 5666-11-2 may lower the grant
//~ 5666-11-3 grant does not fall to zero
//~ 5666-11-4 resources are recovered after time
fn check_exposure() -> Check {
    let mut e = Exposure::new(2);
    ensure!(e.grant(32) == 32, "full grant");
    ensure!(e.try_expose() && e.try_expose(), "two replies");
    ensure!(!e.try_expose(), "no third");
    ensure!(e.grant(32) == 30 && e.grant(2) == 1, "less, never zero");
    ensure!(e.grant(0) == 1, "never zero");
    ensure!(e.release() && e.release(), "released");
    ensure!(!e.release() && e.grant(2) == 2, "nothing left to release");
    Ok(())
}

/// Checks the padding for positions and lengths around the threshold.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 5666-3.9-1 alignment and threshold of RDMA_MSGP
//~ 5666-3.9-2 skips the padding before opaque data
pub fn check_padding() -> Check {
    const BAD: [u32; 5] = [0, 1, 2, 12, u32::MAX];
    for align in BAD {
        ensure!(Padding::new(align, 0) == Err(BadAlign(align)), "alignment");
    }
    let p = Padding::new(4096, 1024).map_err(|_| "good alignment")?;
    ensure!(p.align() == 4096 && p.thresh() == 1024, "numbers");
    const CASES: [(u32, u32, u32); 7] = [
        (148, 1023, 0),
        (148, 1024, 3948),
        (148, 8192, 3948),
        (0, 8192, 0),
        (4096, 8192, 0),
        (4097, 8192, 4095),
        (u32::MAX, 8192, 1),
    ];
    for (position, len, want) in CASES {
        ensure!(p.before(position, len) == want, "padding");
    }
    Ok(())
}

const REQUEST: Request = Request {
    maxcall_sendsize: 8192,
    maxreply_sendsize: 2048,
    maxrdmaread: 16,
};

const REPLY: Reply = Reply {
    maxcall_sendsize: 4096,
    align: 4096,
    maxrdmaread: 8,
};

/// Checks the effect of CONF_RDMA, and what may be sent before the answer.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 5666-6.1-1 before any other RPC program
//~ 5666-6.1-2 assumes one receive of 1 KB
//~ 5666-6.1-4 sends nothing else until answered
//~ 5666-6.2-1 no call longer than server accepts
//~ 5666-6.2-2 server may accept more or less
//~ 5666-6.2-3 announces no RDMA Reads
//~ 5666-6.2-4 pad as the server recommends
//~ 5666-6.2-6 client and server have agreed
pub fn check_conf() -> Check {
    let mut x = Exchange::Initial;
    ensure!(x.may_send(1024) && !x.may_send(1025), "basic level");
    ensure!(!x.on_reply(&REPLY), "reply without a request");
    x.on_request(REQUEST);
    ensure!(!x.may_send(0), "one message at a time");
    ensure!(
        x.configuration() == Configuration::INITIAL,
        "basic level before the answer"
    );
    ensure!(x.on_reply(&REPLY), "answered");
    let c = x.configuration();
    ensure!(
        x.may_send(4096) && !x.may_send(4097),
        "what the server accepts"
    );
    ensure!((c.max_call, c.max_reply) == (4096, 2048), "sizes");
    ensure!((c.max_reads_here, c.max_reads_there) == (16, 8), "reads");
    ensure!(c.may_offer_read_chunks(), "read chunks");
    ensure!(c.padding == Padding::new(4096, 4096).ok(), "padding");
    let modest = Reply {
        maxcall_sendsize: 16,
        align: 0,
        maxrdmaread: 0,
    };
    let c = Configuration::agree(&REQUEST, &modest);
    ensure!(
        c.max_call == 1024 && c.padding.is_none(),
        "never below the basic level"
    );
    ensure!(!c.may_offer_read_chunks(), "no reads at the server");
    let generous = Reply {
        maxcall_sendsize: 65536,
        ..REPLY
    };
    let c = Configuration::agree(&REQUEST, &generous);
    ensure!(c.max_call == 8192, "no more than requested");
    let mut x = Exchange::Asked(REQUEST);
    x.on_error();
    ensure!(
        x == Exchange::Initial && x.may_send(1024),
        "no such program"
    );
    Ok(())
}
