// SPDX-License-Identifier: GPL-2.0

//! Both ends of a connection, driven in turn by one thread.

use kernel::prelude::*;
use kernel::sync::{new_condvar, new_mutex, Arc, CondVar, Mutex};

use super::block::{self, is_pattern, pattern};
use super::end::{End, Events, Progress, TAG};
use super::wire::{self, Offer};
use crate::mem::{NetRef, SockAddr};
use crate::rdma::cm::{CmId, ConnectParams};
use crate::rdma::device::Registration;
use crate::rdma::listen::{Backlog, Listener, Request};
use crate::rdma::mr::{Direction, Mr};
use crate::rdma::qp::Remote;
use crate::rdma::send::ReadBuf;
use crate::Kept;

/// What the client announces when it connects.
const HELLO: &[u8] = b"rdma ping";
const TIMEOUT_MS: u32 = 5_000;

const PARAMS: ConnectParams<'_> = ConnectParams {
    private_data: HELLO,
    responder_resources: 4,
    initiator_depth: 4,
    retry_count: 6,
    rnr_retry_count: 0,
    flow_control: false,
};

/// Rings when a connection request arrives.
#[pin_data]
struct Bell {
    #[pin]
    rung: Mutex<bool>,
    #[pin]
    changed: CondVar,
}

impl Bell {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                rung <- new_mutex!(false, "rdma_ping::Bell::rung"),
                changed <- new_condvar!("rdma_ping::Bell::changed"),
            }),
            GFP_KERNEL,
        )
    }

    /// Waits for the next request.
    fn request(&self, listener: &Listener) -> Result<Request> {
        let mut rung = self.rung.lock();
        while !*rung {
            if self.changed.wait_interruptible(&mut rung) {
                return Err(EINTR);
            }
        }
        drop(rung);
        listener.next().ok_or(ENOENT)
    }
}

impl Backlog for Bell {
    fn ready(&self) {
        *self.rung.lock() = true;
        self.changed.notify_all();
    }
}

/// A connection with both its ends.
pub(crate) struct Pair {
    client: End,
    server: End,
    /// The last offer.
    offer: Option<Offer>,
}

/// An end that can request a connection.
fn caller(
    net: NetRef<'_>,
    addr: &SockAddr,
    devices: &Registration,
    kept: &Arc<Kept>,
) -> Result<End> {
    let events = Events::new()?;
    let cm = CmId::new(net, events.clone())?;
    cm.resolve_addr(addr, TIMEOUT_MS)?;
    events.wait_for(Progress::AddrResolved)?;
    cm.resolve_route(TIMEOUT_MS)?;
    events.wait_for(Progress::RouteResolved)?;
    End::new(cm, events, devices, kept.clone())
}

impl Pair {
    /// Connects a client to a server, both here.
    pub(crate) fn connect(
        net: NetRef<'_>,
        addr: &SockAddr,
        devices: &Registration,
        kept: &Arc<Kept>,
    ) -> Result<Self> {
        let bell = Bell::new()?;
        let listener = Listener::new(net, addr, 4, bell.clone())?;
        let client = caller(net, addr, devices, kept)?;
        client.cm.connect(&PARAMS)?;

        let request = bell.request(&listener)?;
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

    /// Connects to where nobody listens, and succeeds if that is refused.
    pub(crate) fn refused(
        net: NetRef<'_>,
        addr: &SockAddr,
        devices: &Registration,
        kept: &Arc<Kept>,
    ) -> Result {
        let client = caller(net, addr, devices, kept)?;
        match client.cm.connect(&PARAMS) {
            // iWARP devices connect at once, and hear of it at once.
            Err(ECONNREFUSED) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => client.events.wait_for(Progress::Rejected),
        }
    }

    /// Closes the connection from the client's side, and waits until the server knows.
    pub(crate) fn disconnect(self) -> Result {
        self.client.cm.disconnect();
        self.server.events.wait_for(Progress::Over)
    }

    /// One round trip; `n` makes its data different from others'.
    pub(crate) fn round(&mut self, n: u32) -> Result {
        let read = self.call(n)?;
        self.serve(n)?;
        self.finish(n, read)
    }

    /// A region of the client with a block mapped.
    fn map(&self, to_read: bool, n: u32) -> Result<Mr> {
        let client = &self.client;
        let (block, direction) = if to_read {
            (&client.to_read, Direction::ToPeer)
        } else {
            (&client.to_write, Direction::FromPeer)
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

    /// The client registers memory and says where it is. Returns the region to be read.
    fn call(&mut self, n: u32) -> Result<Mr> {
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
        client.desk.offer(write);
        Ok(read)
    }

    /// The server reads, writes, and answers.
    fn serve(&mut self, n: u32) -> Result {
        let server = &mut self.server;
        let offer = Offer::decode(&server.desk.message()?).ok_or(EPROTO)?;
        if offer.seed != n || offer.len as usize != block::LEN {
            return Err(EPROTO);
        }
        self.offer = Some(offer);

        server
            .qp
            .post_read(TAG, &mut server.fetched, block::LEN, offer.read)?;
        server.desk.sent()?;
        let fetched = server.fetched.bytes().ok_or(EPROTO)?;
        if !is_pattern(n, fetched) {
            return Err(EILSEQ);
        }

        pattern(!n, server.data.as_mut_slice());
        let data = &mut server.data;
        server
            .qp
            .post_write(TAG, data, block::LEN, offer.write, false)?;
        let out = &mut server.out;
        out.as_mut_slice().copy_from_slice(&offer.encode());
        let rkey = offer.write.rkey;
        let position = server
            .qp
            .post_send_invalidate(TAG, out, wire::LEN, rkey, true)?;
        server.desk.sent()?;
        let done = server.qp.retired() >= position && !server.out.in_flight();
        if done {
            Ok(())
        } else {
            Err(EPROTO)
        }
    }

    /// The client fences its memory, and looks at what it got.
    fn finish(&mut self, n: u32, mut read: Mr) -> Result {
        let client = &mut self.client;
        client.desk.message()?;
        let (write, by_peer) = client.desk.take_back();
        let write = write.ok_or(EPROTO)?;
        if !by_peer || write.is_live() || !read.is_live() {
            return Err(EPROTO);
        }

        client.qp.post_invalidate(TAG, [&mut read])?;
        client.desk.sent()?;
        if !read.invalidated() || read.is_live() {
            return Err(EPROTO);
        }
        drop((read, write));
        let mut bytes = KVec::from_elem(0, block::LEN, GFP_KERNEL)?;
        client.to_write.read(&mut bytes)?;
        let whole = is_pattern(!n, &bytes) && client.pool.available() == 2;
        if whole {
            Ok(())
        } else {
            Err(EILSEQ)
        }
    }

    /// The server reads with a key that the client has invalidated; succeeds if that fails.
    pub(crate) fn try_stale_key(&mut self) -> Result {
        let offer = self.offer.ok_or(EINVAL)?;
        let server = &mut self.server;
        server
            .qp
            .post_read(TAG, &mut server.fetched, block::LEN, offer.read)?;
        // InfiniBand and RoCE say which work request it was; iWARP ends the connection.
        server.desk.failed()?;
        if server.qp.is_broken() {
            Ok(())
        } else {
            Err(EPROTO)
        }
    }

    /// The client tries to use its protection domain for another queue pair, in vain.
    pub(crate) fn second_queue_pair(self) -> Result {
        self.client.second_queue_pair()
    }

    /// Lets go of everything while it is in use: a live region, a buffer being sent, a buffer being
    /// read into. They must be freed when the queue pairs are drained, and not before.
    pub(crate) fn drop_in_mid_flight(mut self) -> Result {
        let mut read = self.map(true, 99)?;
        let offer = Offer::new(&read, &read, 99);
        let client = &mut self.client;
        client.out.as_mut_slice().copy_from_slice(&offer.encode());
        let out = &mut client.out;
        client
            .qp
            .post_send(TAG, [&mut read], out, wire::LEN, false)?;
        let remote: Remote = offer.read;
        let server = &mut self.server;
        server.desk.message()?;
        server
            .qp
            .post_read(TAG, &mut server.fetched, block::LEN, remote)?;
        let unused = ReadBuf::new(&server.pd, block::LEN, GFP_KERNEL)?;
        drop(core::mem::replace(&mut server.fetched, unused));
        drop(read);
        // The pool does not hand it out again.
        let alone = client.pool.available() == 1;
        client.qp.drain();
        let drained = client.qp.is_drained() && client.pool.available() == 1;
        let refused = client.qp.post_send(TAG, [], out, wire::LEN, false).is_err();
        if alone && drained && refused {
            Ok(())
        } else {
            Err(EPROTO)
        }
    }
}
