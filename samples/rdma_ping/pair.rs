// SPDX-License-Identifier: GPL-2.0

//! Both ends of a connection, which one task drives alternately.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::block::{self, is_pattern, pattern};
use super::end::{End, Events, Progress, TAG};
use super::lists::Lists;
use super::waiter::Waiter;
use super::wire::{self, Offer};
use crate::compat::code::{ECONNREFUSED, EILSEQ, EPROTO};
use crate::mem::{Net, SockAddr};
use crate::rdma::cm::{CmId, ConnectParams};
use crate::rdma::device::Registration;
use crate::rdma::listen::Listener;
use crate::rdma::mr::{DataDirection, Mr};
use crate::Kept;

/// Private data of the client's connection request.
pub(crate) const HELLO: &[u8] = b"rdma ping";
const TIMEOUT_MS: u32 = 5_000;

pub(crate) const PARAMS: ConnectParams<'_> = ConnectParams {
    private_data: HELLO,
    responder_resources: 4,
    initiator_depth: 3,
    retry_count: 6,
    traffic_class: None,
};

/// A connection with both its ends.
pub(crate) struct Pair {
    pub(super) client: End,
    pub(super) server: End,
    /// The offer of the last round.
    offer: Option<Offer>,
}

/// Makes an end that can request a connection: address and route have been resolved. May sleep.
pub(crate) fn resolved(
    net: &Net,
    addr: &SockAddr,
    devices: &Registration,
    kept: &Arc<Kept>,
) -> Result<End> {
    let events = Events::new()?;
    let cm = CmId::new(net, events.clone())?;
    cm.resolve_addr(addr, None, TIMEOUT_MS)?;
    events.wait_for(Progress::AddrResolved)?;
    cm.resolve_route(TIMEOUT_MS)?;
    events.wait_for(Progress::RouteResolved)?;
    End::new(cm, events, devices, kept.clone())
}

impl Pair {
    /// Connects a client to a server, both in this module. May sleep.
    pub(crate) fn connect(
        net: &Net,
        addr: &SockAddr,
        devices: &Registration,
        kept: &Arc<Kept>,
    ) -> Result<Self> {
        let waiter = Waiter::new()?;
        let listener = Listener::new(net, addr, None, 4, waiter.handler()?)?;
        let client = resolved(net, addr, devices, kept)?;
        client.cm.connect(&PARAMS)?;

        let request = waiter.request(&listener)?;
        if !request.private_data().starts_with(HELLO) {
            return Err(EPROTO);
        }
        let events = Events::new()?;
        let cm = request.adopt(events.clone())?;
        let server = End::new(cm, events, devices, kept.clone())?;
        server.cm.accept(&PARAMS)?;
        client.events.wait_for(Progress::Established)?;
        server.events.wait_for(Progress::Established)?;
        Ok(Self {
            client,
            server,
            offer: None,
        })
    }

    /// Connects to an address without a listener. Succeeds if the connection is rejected.
    pub(crate) fn refused(
        net: &Net,
        addr: &SockAddr,
        devices: &Registration,
        kept: &Arc<Kept>,
    ) -> Result {
        let client = resolved(net, addr, devices, kept)?;
        match client.cm.connect(&PARAMS) {
            // Some iWARP devices connect synchronously, and return the error.
            Err(ECONNREFUSED) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => client.events.wait_for(Progress::Rejected),
        }
    }

    /// Disconnects on the client's side, and waits for the event on the server's side.
    pub(crate) fn disconnect(self) -> Result {
        self.client.qp.drain();
        self.server.events.wait_for(Progress::Over)
    }

    /// Runs one round trip. Its data depends on `n`.
    pub(crate) fn round(&mut self, n: u32) -> Result {
        let read = self.call(n)?;
        self.serve(n)?;
        self.finish(n, read)
    }

    /// Takes a region from the client's pool, and maps a block.
    fn map(&self, to_read: bool, n: u32) -> Result<Mr> {
        let client = &self.client;
        let (block, direction) = if to_read {
            (&client.to_read, DataDirection::ToDevice)
        } else {
            (&client.to_write, DataDirection::FromDevice)
        };
        let mut region = client.pool.get().ok_or(ENOSPC)?;
        let len = region.map(&mut block.pieces().peekable(), direction, n)?;
        let placed = region.iova() >> 32 == u64::from(n);
        if len as usize == block::LEN && placed && !region.is_live() {
            Ok(region)
        } else {
            Err(EPROTO)
        }
    }

    /// Runs the client's first part: it registers memory, and sends R_keys and addresses. Returns
    /// the region that the server reads.
    pub(super) fn call(&mut self, n: u32) -> Result<Mr> {
        let mut bytes = KVec::from_elem(0, block::LEN, GFP_KERNEL)?;
        pattern(n, &mut bytes);
        self.client.to_read.fill(&bytes)?;
        let mut read = self.map(true, n)?;
        let mut write = self.map(false, n)?;

        let offer = Offer::new(&read, &write, n);
        let client = &mut self.client;
        client.out.as_mut_slice().copy_from_slice(&offer.encode());
        let regions = [&mut read, &mut write];
        let out = &mut client.out;
        client.qp.post_send(TAG, regions, out, wire::LEN, false)?;
        if !read.is_live() || !write.is_live() {
            return Err(EPROTO);
        }
        client.outcome.offer(write);
        Ok(read)
    }

    /// Runs the server's part: it reads, writes, and answers.
    fn serve(&mut self, n: u32) -> Result {
        let server = &mut self.server;
        let offer = Offer::decode(&server.outcome.message()?).ok_or(EPROTO)?;
        if offer.seed != n || offer.len as usize != block::LEN {
            return Err(EPROTO);
        }
        self.offer = Some(offer);
        server.out.as_mut_slice().copy_from_slice(&offer.encode());
        let mut lists = Lists::new(server)?;
        lists.prepare_reads(&offer)?;
        lists.post_reads(server)?;
        server.outcome.sent()?;
        lists.check_reads(n)?;
        lists.prepare_writes(&offer, !n)?;
        self.answer(&mut lists, &offer)
    }

    /// Runs the client's second part: it fences its memory, and compares the data.
    pub(super) fn finish(&mut self, n: u32, mut read: Mr) -> Result {
        let client = &mut self.client;
        client.outcome.message()?;
        let (write, by_peer) = client.outcome.take_back();
        let write = write.ok_or(EPROTO)?;
        if !by_peer || write.is_live() || !read.is_live() {
            return Err(EPROTO);
        }

        client.qp.post_invalidate(TAG, [&mut read])?;
        client.outcome.sent()?;
        if !read.invalidated() || read.is_live() {
            return Err(EPROTO);
        }
        drop((read, write));
        let mut bytes = KVec::from_elem(0, block::LEN, GFP_KERNEL)?;
        client.to_write.read(&mut bytes)?;
        let whole = is_pattern(!n, &bytes) && client.pool.counts().idle == 2;
        if whole {
            Ok(())
        } else {
            Err(EILSEQ)
        }
    }

    /// Lets the server read with an R_key that the client has invalidated. Succeeds if that fails.
    pub(crate) fn try_stale_key(&mut self) -> Result {
        let offer = self.offer.ok_or(EINVAL)?;
        let server = &mut self.server;
        let mut lists = Lists::new(server)?;
        lists.prepare_reads(&offer)?;
        lists.post_reads(server)?;
        // InfiniBand and RoCE report the work request's failure; iWARP ends the connection.
        server.outcome.failed()?;
        if server.qp.is_broken() {
            Ok(())
        } else {
            Err(EPROTO)
        }
    }

    /// Tries to make a second queue pair for the client's protection domain. Succeeds if that
    /// fails.
    pub(crate) fn second_queue_pair(self) -> Result {
        self.client.second_queue_pair()
    }

    /// Drops objects that are in use: a live region, and pages that RDMA Reads write. They must be
    /// freed when the queue pairs are drained, and not before.
    pub(crate) fn drop_in_mid_flight(mut self) -> Result {
        let mut read = self.map(true, 99)?;
        let offer = Offer::new(&read, &read, 99);
        let client = &mut self.client;
        client.out.as_mut_slice().copy_from_slice(&offer.encode());
        let out = &mut client.out;
        client
            .qp
            .post_send(TAG, [&mut read], out, wire::LEN, false)?;
        let server = &mut self.server;
        server.outcome.message()?;
        let mut lists = Lists::new(server)?;
        lists.prepare_reads(&offer)?;
        lists.post_reads(server)?;
        drop(lists);
        drop(read);
        // The region is live, so the pool must not return it again.
        let alone = client.pool.counts().idle == 1;
        client.qp.drain();
        let drained = client.qp.is_drained() && client.pool.counts().idle == 1;
        let refused = client.qp.post_send(TAG, [], out, wire::LEN, false).is_err();
        if alone && drained && refused {
            Ok(())
        } else {
            Err(EPROTO)
        }
    }
}
