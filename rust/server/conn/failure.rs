// SPDX-License-Identifier: GPL-2.0

//! Why a connection is refused or closed, and the periodic check of all connections that finds
//! silent requesters.
//!
//! A connection has at most one breach: those that follow are consequences of the first.
//!
//! A device reports a requester that does not acknowledge messages. It does not report a requester
//! that never posts a Receive and has asked for unlimited retries, nor a requester that vanishes
//! while nothing is sent to it. If work requests stay outstanding, or no message arrives for long,
//! the check posts an RDMA Write of zero bytes, which the requester's device must acknowledge. If
//! then still no work request completes, the connection is closed.

use kernel::prelude::*;
use kernel::sync::atomic::Full;
use kernel::sync::{new_mutex, Arc, Mutex};

use super::endpoint::{Conn, Endpoint, QueuePair};
use super::{endpoint, session};
use crate::compat::code::{ENETUNREACH, EPROTO};
use crate::conn::role::XprtRef as _;
use crate::conn::traced;
use crate::mem::{MemallocScope, SockAddr};
use crate::observe::requester;
use crate::observe::stats::RequesterBreach;
use crate::observe::trace::{self, Lazy, Peer};
use crate::rdma::device::Name;
use crate::rdma::qp::{PostError, Tag, WcError};
use crate::server::call::in_flight::{PROBE, READ, REPLY};
use crate::server::log;
use crate::sunrpc::address::ntop;

/// A step of making a connection, as the log names it: the lease of the device.
pub(crate) const DEVICE: &str = "device";
/// The protection domain.
pub(crate) const PD: &str = "protection domain";
/// Queue pair, completion queue, buffers of Receives.
pub(crate) const QUEUE_PAIR: &str = "queue pair";
/// Posting the Receives.
pub(crate) const RECEIVES: &str = "Receives";

/// Why a connection was refused.
pub(crate) enum Failure {
    /// The requester permits no RDMA Reads.
    ReadDepth,
    /// The device can have no RDMA Reads outstanding.
    NoReads(Name),
    /// The queues of the device are too short.
    Short(Name),
    /// This host lacks something: the step that failed, and its error.
    Step(&'static str, Error),
}

/// Returns a function that makes the failure of a step from its error.
pub(crate) fn failed_step(step: &'static str) -> impl FnOnce(Error) -> Failure {
    move |error| Failure::Step(step, error)
}

impl Failure {
    /// Traces, counts and logs the failure of a connection from `peer`.
    #[cold]
    pub(crate) fn report(&self, peer: &SockAddr) {
        let traced = Lazy(|| name(peer));
        match self {
            Self::ReadDepth => {
                trace::server::initdepth_err(traced, EPROTO.to_errno());
                requester::breach(traced, 0, RequesterBreach::ReadDepth);
            }
            Self::NoReads(device) => {
                trace::server::initdepth_err(traced, ENODEV.to_errno());
                log::device_unfit(device, "it does no RDMA Reads");
            }
            Self::Short(device) => log::device_unfit(device, "its queues are too short"),
            // The device is being added or removed: the connection manager listens on it before
            // there are leases of it, and after.
            Self::Step(DEVICE, ENETUNREACH) => {
                trace::server::accept_err(traced, ENETUNREACH.to_errno());
            }
            Self::Step(step, error) => {
                match *step {
                    PD => trace::server::pd_err(traced, error.to_errno()),
                    QUEUE_PAIR => trace::server::qp_err(traced, error.to_errno()),
                    RECEIVES => trace::server::rq_post_err(traced, error.to_errno()),
                    _ => {}
                }
                log::connection_failed(&name(peer), step, *error);
            }
        }
    }
}

/// Returns an address and its port for the log and for trace events.
pub(crate) fn name(addr: &SockAddr) -> Peer {
    Peer::new(&ntop(addr), addr.port())
}

/// Closes a connection because of a breach. `xid` is zero if the breach belongs to no message.
#[cold]
pub(crate) fn close(conn: &Conn, xid: u32, breach: RequesterBreach) {
    if count(conn, xid, breach) {
        log::closed(&conn.owner().peer(), breach.what());
    }
    conn.force_close();
}

/// Closes a connection on which a work request of `tag` has failed or was flushed.
#[cold]
pub(crate) fn failed(conn: &Conn, qp: &QueuePair, tag: Tag, error: &WcError) {
    let (cid, wc) = (traced::cid(qp, tag.get()), traced::status(error));
    match tag {
        REPLY => trace::server::write_failed(cid, wc),
        READ => trace::server::read_failed(cid, wc),
        PROBE => {}
        _ => trace::server::send_failed(cid, wc),
    }
    let transfer = matches!(tag, READ | REPLY);
    let breach =
        RequesterBreach::of_send(wc).or_else(|| transfer.then(|| RequesterBreach::of_transfer(wc)));
    note(conn, error, breach);
    conn.force_close();
}

/// Handles the failure of a Receive, or an error that the device reports.
#[cold]
pub(crate) fn broken(conn: &Conn, qp: &QueuePair, error: &WcError) {
    let wc = traced::status(error);
    trace::server::recv_failed(traced::cid(qp, u32::MAX), wc);
    note(conn, error, RequesterBreach::of_receive(wc));
}

/// Counts, traces and logs a failure that is a breach. A flush is not logged, because it only
/// follows from the end of the connection.
fn note(conn: &Conn, error: &WcError, breach: Option<RequesterBreach>) {
    if let Some(breach) = breach.filter(|&b| count(conn, 0, b) && !error.is_flush()) {
        log::closed(&conn.owner().peer(), breach.what());
    }
}

/// Counts and traces the first breach of a connection. Returns whether it is the first.
fn count(conn: &Conn, xid: u32, breach: RequesterBreach) -> bool {
    let first = !conn.role().breached.xchg(true, Full);
    if first {
        report(conn, xid, breach);
    }
    first
}

/// Counts and traces a breach of the protocol by the requester. Closes nothing.
#[cold]
pub(crate) fn report(conn: &Conn, xid: u32, breach: RequesterBreach) {
    conn.tally().breach();
    requester::breach(traced::peer(conn.owner()), xid, breach);
}

/// Milliseconds from one check to the next.
pub(crate) const INTERVAL_MS: u32 = 10_000;
/// The number of consecutive checks without a completion after which a connection is closed.
const PATIENCE: u32 = 4;
/// That number for a connection that has pages, or space in the DMA layer, for which others wait.
/// A check closes only the connection with the most pages: on a congested network all of them are
/// slow, and the pages of that connection may suffice. The preceding check probes the requester,
/// because without a probe even a fast requester may cause no completion.
const PATIENCE_IF_SHORT: u32 = 2;
/// The number of consecutive checks without a message after which the requester is probed.
const SILENCE: u32 = 6;

/// The silence of a requester, counted in checks.
#[derive(Clone, Copy, Default)]
pub(crate) struct Silence {
    /// The position up to which work requests had completed at the latest check.
    retired: u64,
    /// Work requests were outstanding at the latest check.
    outstanding: bool,
    /// Consecutive checks that found work requests outstanding, as the check before had, and no new
    /// completion, or answers to backchannel calls outstanding and no credit.
    stuck: u32,
    /// Consecutive checks that found no new message.
    pub(super) silent: u32,
    /// Aborted backchannel calls, which the requester has not answered, occupy its whole grant.
    owes: bool,
}

/// The measure against a silent requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Nothing,
    Probe,
    /// Close the connection unless others that may be closed have more pages.
    Offer,
    Close,
}

impl Silence {
    /// Decides about a connection. `retired` is the position up to which work requests have
    /// completed. `outstanding`: there are more. `heard`: a message has arrived since the last
    /// check. `hoards`: the connection has pages, or space in the DMA layer, for which others wait.
    fn check(&mut self, retired: u64, outstanding: bool, heard: bool, hoards: bool) -> Measure {
        let waited = self.outstanding && outstanding;
        let stuck = self.owes || (waited && retired == self.retired);
        self.stuck = if stuck { self.stuck + 1 } else { 0 };
        self.silent = if heard { 0 } else { self.silent + 1 };
        (self.retired, self.outstanding) = (retired, outstanding);
        // The last Sends may be unsignalled. Only a probe shows that they have completed.
        match (self.stuck, self.silent) {
            (PATIENCE.., _) => Measure::Close,
            (PATIENCE_IF_SHORT.., _) if hoards => Measure::Offer,
            (1, _) => Measure::Probe,
            (0, SILENCE..) => {
                self.silent = 0;
                Measure::Probe
            }
            _ => Measure::Nothing,
        }
    }
}

impl Endpoint {
    /// Checks whether the requester still answers, and applies changed settings. Returns the number
    /// of pages that it keeps if its connection may be closed so that others get them. May sleep.
    fn check(&self) -> Option<usize> {
        session::check(self);
        // Completions of other Sends may have covered the last replies without freeing them.
        endpoint::free_sent(self.shared(), self.qp());
        endpoint::resume_parked(self.shared(), self.qp());
        self.role().calls.drop_unused();
        if let Some((xid, breach)) = self.role().quirks.overdue() {
            close(self.shared(), xid, breach);
            return None;
        }
        let (retired, outstanding) = (self.qp().retired(), self.qp().has_outstanding());
        let (heard, hoard) = (self.shared().take_heard(), self.role().hoard());
        let owes = self.shared().owner().owes_answers();
        let mut silence = self.silence.lock();
        silence.owes = owes;
        let measure = silence.check(retired, outstanding, heard, hoard.is_some());
        drop(silence);
        match measure {
            Measure::Nothing => {}
            Measure::Probe => match self.qp().post_probe(PROBE) {
                Ok(_) => self.shared().tally().probe(),
                // A full queue has outstanding work requests, and needs no probe.
                Err(PostError::Full) => {}
                Err(PostError::Broken(_) | PostError::Invalid) => self.shared().force_close(),
            },
            // A connection that is being closed returns its pages without that.
            Measure::Offer => return hoard.filter(|_| !self.shared().is_forced()),
            Measure::Close => close(self.shared(), 0, RequesterBreach::Slow),
        }
        None
    }
}

/// The watch over all connections.
#[pin_data]
pub(crate) struct Watch {
    /// Memory for this vector is allocated without I/O.
    #[pin]
    connections: Mutex<KVVec<Arc<Endpoint>>>,
}

impl Watch {
    /// Makes a watch without connections.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            connections <- new_mutex!(KVVec::new(), "rpcrdma::Watch::connections"),
        })
    }

    /// Watches a connection until [`Self::remove`]. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn add(&self, ep: Arc<Endpoint>) -> Result {
        // The removal of a device takes this lock, and writeback may wait for the removal.
        let _noio = MemallocScope::noio();
        self.connections.lock().push(ep, GFP_KERNEL)?;
        Ok(())
    }

    /// Stops watching a connection. May sleep.
    pub(crate) fn remove(&self, ep: &Arc<Endpoint>) {
        let mut connections = self.connections.lock();
        let place = connections.iter().position(|other| Arc::ptr_eq(other, ep));
        let _removed = place.map(|place| connections.remove(place));
        drop(connections);
    }

    /// Checks all connections. May sleep.
    pub(crate) fn check_all(&self) {
        let mut place = 0;
        let (mut most, mut largest) = (None, None);
        while let Some(ep) = self.get(place) {
            let pages = ep.check();
            if pages.is_some() && pages >= most {
                (most, largest) = (pages, Some(ep));
            }
            place += 1;
        }
        if let Some(ep) = largest {
            close(ep.shared(), 0, RequesterBreach::Slow);
        }
    }

    /// Frees the pages that connections keep for their next calls. Thread of the service.
    #[cold]
    pub(super) fn free_kept(&self) {
        for ep in self.connections.lock().iter() {
            ep.role().calls.free_kept();
        }
    }

    fn get(&self, place: usize) -> Option<Arc<Endpoint>> {
        self.connections.lock().get(place).cloned()
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_server_silence)]
mod tests {
    use super::*;

    #[test]
    fn connection_on_which_nothing_completes_is_probed_and_closed() {
        let mut silence = Silence::default();
        assert_eq!(silence.check(7, true, true, false), Measure::Nothing);
        assert_eq!(silence.check(7, true, true, false), Measure::Probe);
        assert_eq!(silence.check(7, true, true, false), Measure::Nothing);
        assert_eq!(silence.check(7, true, true, false), Measure::Nothing);
        assert_eq!(silence.check(7, true, true, false), Measure::Close);
    }

    #[test]
    fn connection_that_keeps_others_waiting_may_be_closed_sooner() {
        let mut silence = Silence::default();
        assert_eq!(silence.check(7, true, true, true), Measure::Nothing);
        assert_eq!(silence.check(7, true, true, true), Measure::Probe);
        assert_eq!(silence.check(7, true, true, true), Measure::Offer);
        assert_eq!(silence.check(7, true, true, true), Measure::Offer);
        assert_eq!(silence.check(7, true, true, true), Measure::Close);
    }

    #[test]
    fn no_connection_is_closed_before_it_was_probed() {
        let mut silence = Silence::default();
        // From the first check on, on which a new connection has completed nothing.
        for retired in 0..20 {
            assert_eq!(silence.check(retired, true, true, true), Measure::Nothing);
            assert_eq!(silence.check(retired, true, true, true), Measure::Probe);
        }
    }

    #[test]
    fn requester_that_answers_no_call_is_closed() {
        let mut silence = Silence {
            owes: true,
            ..Silence::default()
        };
        let measures = [1, 2, 3, 4].map(|retired| silence.check(retired, false, true, false));
        assert_eq!(measures.last(), Some(&Measure::Close));
        assert!(!measures[..3].contains(&Measure::Close));
    }

    #[test]
    fn progress_restarts_the_count() {
        let mut silence = Silence::default();
        for retired in 1..20 {
            assert_eq!(silence.check(retired, true, true, false), Measure::Nothing);
            assert_eq!(silence.check(retired, true, true, false), Measure::Probe);
        }
    }

    #[test]
    fn silent_requester_is_probed_each_minute() {
        let mut silence = Silence::default();
        for _ in 0..3 {
            for _ in 1..SILENCE {
                assert_eq!(silence.check(0, false, false, false), Measure::Nothing);
            }
            assert_eq!(silence.check(0, false, false, false), Measure::Probe);
        }
        assert_eq!(silence.check(0, false, true, false), Measure::Nothing);
    }
}
