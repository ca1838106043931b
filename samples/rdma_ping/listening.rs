// SPDX-License-Identifier: GPL-2.0

//! Tests of listeners, and of requests that are not accepted.

use kernel::prelude::*;
use kernel::time::{delay::fsleep, Delta};

use super::end::{End, Events, Progress};
use super::pair::{resolved, HELLO, PARAMS};
use super::waiter::Waiter;
use crate::compat::code::{EADDRINUSE, EADDRNOTAVAIL, ENOTCONN, EPROTO};
use crate::mem::{Net, SockAddr};
use crate::raw as bindings;
use crate::rdma::listen::{Listener, Request};
use crate::Test;

/// The number of times that a condition is checked, and the time in milliseconds in between.
const CHECKS: u32 = 500;
const INTERVAL_MS: i64 = 20;

/// Starts to listen. May sleep.
fn listen(addr: &SockAddr, backlog: u32, waiter: &kernel::sync::Arc<Waiter>) -> Result<Listener> {
    Listener::new(Net::init(), addr, None, backlog, waiter.handler()?)
}

/// Makes a client that has requested a connection. May sleep.
fn request(test: &Test, addr: &SockAddr) -> Result<End> {
    let client = resolved(Net::init(), addr, &test.devices, &test.kept)?;
    client.cm.connect(&PARAMS)?;
    Ok(client)
}

/// Waits until a client's request is rejected.
fn is_rejected(client: &End) -> Result {
    client.events.wait_for(Progress::Rejected)
}

/// Returns an error unless `fact` holds.
fn check(fact: bool) -> Result {
    if fact {
        Ok(())
    } else {
        Err(EPROTO)
    }
}

/// Returns the wildcard address of IPv6.
fn any_v6(port: u16) -> Result<SockAddr> {
    let mut bytes = [0; core::mem::size_of::<bindings::sockaddr_in6>()];
    // CAST: `AF_INET6` fits the field of `struct sockaddr`.
    let family = (bindings::AF_INET6 as u16).to_ne_bytes();
    for (to, from) in bytes
        .iter_mut()
        .zip([family, port.to_be_bytes()].as_flattened())
    {
        *to = *from;
    }
    SockAddr::from_bytes(&bytes)
}

/// Returns whether a listener at `addr` is refused because the port is taken.
fn is_taken(addr: &SockAddr) -> Result<bool> {
    match listen(addr, 1, &Waiter::new()?) {
        Ok(_) => Ok(false),
        Err(EADDRINUSE | EADDRNOTAVAIL) => Ok(true),
        Err(error) => Err(error),
    }
}

impl Test {
    /// Fills the queue of a listener. The next request is rejected, and the queued ones when the
    /// listener is dropped. A request that was taken from the queue outlives the listener.
    pub(crate) fn backlog(&self) -> Result {
        let (addr, waiter) = (self.addr(), Waiter::new()?);
        let listener = listen(&addr, 1, &waiter)?;
        let first = request(self, &addr)?;
        check(waiter.is_queued()?)?;
        let second = request(self, &addr)?;
        is_rejected(&second)?;
        check(!waiter.is_queued()?)?;

        let taken = listener.next().ok_or(ENOENT)?;
        let third = request(self, &addr)?;
        check(waiter.is_queued()?)?;
        drop(listener);
        is_rejected(&third)?;
        check(!taken.has_gone())?;
        drop(taken);
        is_rejected(&first)
    }

    /// Compares the parameters of a request with those of the client.
    pub(crate) fn request_facts(&self) -> Result {
        let (addr, waiter) = (self.addr(), Waiter::new()?);
        let listener = listen(&addr, 1, &waiter)?;
        let client = request(self, &addr)?;
        let request = waiter.request(&listener)?;
        check(request.private_data().starts_with(HELLO))?;
        check(request.initiator_depth() == PARAMS.responder_resources)?;
        check(request.responder_resources() == PARAMS.initiator_depth)?;
        check(request.device().is_some())?;
        check(request.local_addr().bytes() == addr.bytes())?;
        check(request.peer_addr().bytes().get(4..8) == Some(&self.addr))?;
        let events = Events::new()?;
        let cm = request.adopt(events)?;
        // A cm_id that is destroyed before it has accepted rejects the request.
        drop(cm);
        is_rejected(&client)
    }

    /// Listens on a port that the connection manager chooses. While there is a listener, another
    /// one is refused; afterwards the port is free at once, although a connection used it.
    pub(crate) fn chosen_port(&self) -> Result {
        let waiter = Waiter::new()?;
        let listener = listen(&SockAddr::new(self.addr, 0), 1, &waiter)?;
        let addr = listener.local_addr();
        check(addr.port() != 0 && is_taken(&addr)?)?;
        let client = request(self, &addr)?;
        let events = Events::new()?;
        let cm = waiter.request(&listener)?.adopt(events.clone())?;
        let server = End::new(cm, events, &self.devices, self.kept.clone())?;
        server.cm.accept(&PARAMS)?;
        client.events.wait_for(Progress::Established)?;
        drop(listener);
        check(!is_taken(&addr)?)
    }

    /// Listens on one port with each family. A listener for IPv6 accepts no IPv4 connections.
    pub(crate) fn families(&self) -> Result {
        let (addr, waiter) = (self.addr(), Waiter::new()?);
        let _six = listen(&any_v6(self.port)?, 1, &Waiter::new()?)?;
        self.refused_at(self.port)?;
        let four = listen(&addr, 1, &waiter)?;
        let client = request(self, &addr)?;
        drop(waiter.request(&four)?);
        is_rejected(&client)
    }

    /// Drops clients whose requests have not been answered. A request that is queued then leaves
    /// the queue; one that was taken cannot be adopted.
    pub(crate) fn peer_gone(&self) -> Result {
        let (addr, waiter) = (self.addr(), Waiter::new()?);
        let listener = listen(&addr, 1, &waiter)?;
        let client = request(self, &addr)?;
        check(waiter.is_queued()?)?;
        // The software devices of iWARP do not report a peer that leaves before it is accepted.
        let reported = !client
            .cm
            .device()
            .ok_or(ENODEV)?
            .limits()
            .reads_need_regions;
        drop(client);
        if !reported {
            return self.accept_in_vain(listener.next().ok_or(ENOENT)?);
        }
        let client = self.request_when_room(&addr, &waiter)?;
        let taken = listener.next().ok_or(ENOENT)?;
        drop(client);
        for _ in 0..CHECKS {
            if taken.has_gone() {
                break;
            }
            fsleep(Delta::from_millis(INTERVAL_MS));
        }
        match taken.adopt(Events::new()?) {
            Err(ENOTCONN) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(EPROTO),
        }
    }

    /// Makes clients until the queue of a listener has room for the request of one. May sleep.
    fn request_when_room(&self, addr: &SockAddr, waiter: &Waiter) -> Result<End> {
        for _ in 0..CHECKS {
            let client = request(self, addr)?;
            if waiter.is_queued()? {
                return Ok(client);
            }
            fsleep(Delta::from_millis(INTERVAL_MS));
        }
        Err(ETIMEDOUT)
    }

    /// Accepts the request of a peer that has left. Succeeds if that fails, or if the connection
    /// ends.
    fn accept_in_vain(&self, request: Request) -> Result {
        let events = Events::new()?;
        let cm = request.adopt(events.clone())?;
        let server = End::new(cm, events, &self.devices, self.kept.clone())?;
        match server.cm.accept(&PARAMS) {
            Ok(()) => server.events.wait_for(Progress::Over),
            Err(_) => Ok(()),
        }
    }
}
