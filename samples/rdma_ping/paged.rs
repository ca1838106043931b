// SPDX-License-Identifier: GPL-2.0

//! Tests of page lists: RDMA Reads into pages, and RDMA Writes from pages with a Send behind them.

use kernel::prelude::*;

use super::end::{End, TAG};
use super::lists::Lists;
use super::pair::Pair;
use super::wire::{self, Offer};
use crate::compat::code::EPROTO;
use crate::rdma::mr::Mr;
use crate::rdma::qp::PostError;

/// Number of round trips with the same lists.
const ROUNDS: u32 = 20;
/// A number that is larger than that of the work requests of any queue.
const MANY: u32 = 100;

impl Pair {
    /// Runs round trips in which the server moves the data in pages.
    pub(crate) fn page_rounds(&mut self) -> Result {
        let mut lists = Lists::new(&self.server)?;
        for n in 1..=ROUNDS {
            let (read, offer) = self.offered(n)?;
            if n == 1 {
                lists.refuse_arguments(&self.server, &offer)?;
            }
            let server = &mut self.server;
            lists.prepare_reads(&offer)?;
            lists.post_reads(server)?;
            server.outcome.sent()?;
            lists.check_reads(n)?;
            lists.prepare_writes(&offer, !n)?;
            self.answer(&mut lists, &offer)?;
            self.finish(n, read)?;
        }
        Ok(())
    }

    /// Runs a round trip in which the server's send queue is full at first.
    pub(crate) fn page_round_after_full(&mut self) -> Result {
        let n = 7;
        let mut lists = Lists::new(&self.server)?;
        let (read, offer) = self.offered(n)?;
        lists.prepare_reads(&offer)?;
        lists.prepare_writes(&offer, !n)?;
        let server = &mut self.server;
        stall(server)?;
        let probes = fill(server)?;
        refused_as_full(server, &mut lists, &offer)?;
        server.outcome.stall(false);
        server.outcome.room()?;
        for _ in 0..=probes {
            server.outcome.sent()?;
        }

        posted_later(server, |server| lists.post_reads(server))?;
        server.outcome.sent()?;
        lists.check_reads(n)?;
        posted_later(server, |server| lists.post_reply(server, &offer))?;
        server.outcome.sent()?;
        lists.finish(server, &offer)?;
        self.finish(n, read)
    }

    /// Drops a sink in flight. Its pages and regions must be freed when the queue pair is drained,
    /// and not before.
    pub(crate) fn drop_sink_in_flight(mut self) -> Result {
        let mut lists = Lists::new(&self.server)?;
        let (_read, offer) = self.offered(3)?;
        lists.prepare_reads(&offer)?;
        let server = &mut self.server;
        stall(server)?;
        lists.post_reads(server)?;
        let sink = &mut lists.sink;
        let busy = sink.pages().is_none();
        drop(lists);
        server.outcome.stall(false);
        server.qp.drain();
        if busy && server.qp.is_drained() {
            Ok(())
        } else {
            Err(EPROTO)
        }
    }

    /// Drops a source in flight.
    pub(crate) fn drop_source_in_flight(mut self) -> Result {
        let mut lists = Lists::new(&self.server)?;
        let (_read, offer) = self.offered(4)?;
        lists.prepare_writes(&offer, 5)?;
        let server = &mut self.server;
        stall(server)?;
        lists.post_reply(server, &offer)?;
        let source = &mut lists.source;
        let busy = source.in_flight() && source.pages().is_none() && !source.clear();
        drop(lists);
        server.outcome.stall(false);
        server.qp.drain();
        if busy && server.qp.is_drained() {
            Ok(())
        } else {
            Err(EPROTO)
        }
    }

    /// Drains the queue pair while both lists are in flight, which makes them available again.
    pub(crate) fn drain_under_lists(mut self) -> Result {
        let (mut reads, mut writes) = (Lists::new(&self.server)?, Lists::new(&self.server)?);
        let (_read, offer) = self.offered(6)?;
        reads.prepare_reads(&offer)?;
        writes.prepare_writes(&offer, 5)?;
        let server = &mut self.server;
        reads.post_reads(server)?;
        server.qp.drain();
        let refused = writes.post_reply(server, &offer).is_err();
        let free = !writes.source.in_flight();
        if refused && free && reads.sink.pages().is_some() && writes.source.clear() {
            Ok(())
        } else {
            Err(EPROTO)
        }
    }

    /// Lets the client offer memory. Returns the region that the server reads, and the offer.
    fn offered(&mut self, n: u32) -> Result<(Mr, Offer)> {
        let read = self.call(n)?;
        let message = self.server.outcome.message()?;
        let offer = Offer::decode(&message).ok_or(EPROTO)?;
        self.server.out.as_mut_slice().copy_from_slice(&message);
        Ok((read, offer))
    }

    /// Answers with the prepared RDMA Writes, and waits for their completion.
    pub(super) fn answer(&mut self, lists: &mut Lists, offer: &Offer) -> Result {
        let server = &mut self.server;
        let position = lists.post_reply(server, offer)?;
        server.outcome.sent()?;
        if server.qp.retired() < position {
            return Err(EPROTO);
        }
        lists.finish(server, offer)
    }
}

/// Posts a probe whose completion stalls the handler, so that nothing that is posted after it is
/// found completed.
fn stall(server: &End) -> Result {
    server.outcome.stall(true);
    server.qp.post_probe(TAG)?;
    Ok(())
}

/// Posts probes until the send queue is full, and returns their number.
fn fill(server: &End) -> Result<u32> {
    for n in 0..MANY {
        match server.qp.post_probe(TAG) {
            Err(PostError::Full) => return Ok(n),
            posted => posted?,
        };
    }
    Err(EPROTO)
}

/// Checks that both lists are refused because the queue is full, and stay as they are.
fn refused_as_full(server: &mut End, lists: &mut Lists, offer: &Offer) -> Result {
    let before = (lists.sink.work_requests(), lists.source.work_requests());
    let reads = lists.post_reads(server);
    let reply = lists.post_reply(server, offer);
    let full = Err(PostError::Full);
    let after = (lists.sink.work_requests(), lists.source.work_requests());
    let idle = !(lists.source.in_flight() || server.out.in_flight());
    if reads == full && reply == full && before == after && idle {
        Ok(())
    } else {
        Err(EPROTO)
    }
}

/// Posts a work request as soon as the send queue has space for it. May sleep.
fn posted_later(
    server: &mut End,
    mut post: impl FnMut(&mut End) -> Result<u64, PostError>,
) -> Result {
    for _ in 0..MANY {
        match post(server) {
            Err(PostError::Full) => server.outcome.room()?,
            posted => return posted.map(drop).map_err(Error::from),
        }
    }
    Err(EPROTO)
}

impl End {
    /// Sends a message of equal bytes, and waits until it has been sent.
    pub(crate) fn say(&mut self, byte: u8) -> Result {
        self.out.as_mut_slice().fill(byte);
        self.qp.post_send(TAG, [], &mut self.out, wire::LEN, true)?;
        self.outcome.sent()
    }
}
