// SPDX-License-Identifier: GPL-2.0

//! Completions of one connection.

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::config::MAX_SEGMENTS;
use super::probe::{self, Vigil};
use super::request::{fenced_by, request_of, Phase, Request, PROBE_TAG};
use super::transport::Client;
use super::{fence, names, reply};
use crate::observe::stats::{breach, Breach};
use crate::observe::trace::{self, WcStatus};
use crate::proto::credits::Credits;
use crate::proto::requester::credits::Account;
use crate::rdma::mr::Mr;
use crate::rdma::qp::{Completions, Qp, Tag, WcError};
use crate::rdma::recv::Received;
use crate::sunrpc::xprt::{Xprt, XprtHandle};
use crate::wire::{Limits, Version};

/// How far a queue pair has come. Whoever finds that it broke in the meantime ends the connection.
mod fate {
    /// The peers are shaking hands.
    pub(super) const YOUNG: u32 = 0;
    /// RPCs use it.
    pub(super) const LIVE: u32 = 1;
    /// It will never complete anything but failures.
    pub(super) const BROKEN: u32 = 2;
}

/// What the completion worker needs to know of a connection and its transport.
#[pin_data]
pub(super) struct Link {
    xprt: XprtHandle<Client>,
    /// Number of the connection.
    pub(super) epoch: u32,
    /// Credits asked for: more are never taken, whatever the peer grants.
    pub(super) credits: u32,
    /// The grant in force; changes with `books`.
    grant: Atomic<u32>,
    #[pin]
    books: SpinLock<Books>,
    remote_invalidation: Atomic<bool>,
    /// One of [`fate`].
    fate: Atomic<u32>,
    /// Whether a message has come lately; see [`super::probe`].
    pub(super) vigil: Vigil,
}

/// The peer's credits, and whether they matter.
struct Books {
    account: Account,
    /// What SUNRPC was last told of them.
    told: u32,
    /// Nothing of this connection concerns SUNRPC any more.
    closed: bool,
}

impl Link {
    /// A connection before its first reply.
    pub(super) fn new(xprt: XprtHandle<Client>, epoch: u32, credits: u32) -> Result<Arc<Self>> {
        let first = Credits::new().limit();
        let books = Books {
            account: Account::new(),
            told: first,
            closed: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                xprt,
                epoch,
                credits,
                grant: Atomic::new(first),
                books <- new_spinlock!(books, "rpcrdma::Link::books"),
                remote_invalidation: Atomic::new(false),
                fate: Atomic::new(fate::YOUNG),
                vigil: Vigil::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// The peers have agreed.
    pub(super) fn established(&self, remote_invalidation: bool) {
        self.remote_invalidation.store(remote_invalidation, Relaxed);
    }

    /// Whether the peer may invalidate our R_keys.
    #[inline]
    pub(super) fn may_invalidate(&self) -> bool {
        self.remote_invalidation.load(Relaxed)
    }

    /// RPCs may use the connection from here on.
    pub(super) fn go_live(&self) {
        if self.fate.cmpxchg(fate::YOUNG, fate::LIVE, Full).is_err() {
            self.give_up();
        }
    }

    /// The transport.
    #[inline]
    pub(super) fn xprt(&self) -> &Xprt<Client> {
        &self.xprt
    }

    /// The version of the protocol that the connection speaks.
    #[inline]
    pub(super) const fn version(&self) -> Version {
        Version::One
    }

    /// What a reply may hold: one chunk of the segments we offered.
    #[inline]
    pub(super) const fn limits() -> Limits {
        Limits::requester(1, MAX_SEGMENTS)
    }

    /// Takes the grant of a reply, before anything else is done with the message.
    #[inline]
    pub(super) fn granted(&self, xid: u32, grant: u32) {
        let mut credits = Credits::new();
        credits.on_reply(grant, self.credits);
        if grant == 0 {
            trace::bad_credits(names::peer(&self.xprt), xid, grant, credits.limit());
            breach(Breach::BadCredits);
        }
        if credits.limit() != self.grant.load(Relaxed) {
            self.book(|account| {
                account.set_limit(credits.limit());
                self.grant.store(credits.limit(), Relaxed);
            });
        }
    }

    /// The grant in force.
    #[inline]
    pub(super) fn grant(&self) -> u32 {
        self.grant.load(Relaxed)
    }

    /// An RPC that was sent and not answered is given up: the peer still works on it.
    pub(super) fn orphaned(&self) {
        self.book(Account::orphaned);
    }

    /// A reply has come for which there is no call any more: an orphan's, if there are any.
    pub(super) fn unclaimed(&self) {
        self.book(Account::unclaimed);
    }

    /// Changes the account, and tells SUNRPC how many RPCs may be in flight, if that has changed.
    /// Should orphans have used up the whole grant, then only a new connection helps.
    fn book(&self, change: impl FnOnce(&mut Account)) {
        let mut books = self.books.lock();
        change(&mut books.account);
        let credits = books.account.left();
        if books.closed || credits == books.told {
            return;
        }
        books.told = credits;
        // Under the lock, so that the last word is the latest. SUNRPC's own nest inside it.
        if credits == 0 {
            self.xprt.force_disconnect();
        } else {
            self.xprt.set_credits(credits);
        }
    }

    /// Request slot number `index`.
    fn request(&self, index: u32) -> Option<&Request> {
        self.xprt.slot(index).map(|slot| slot.data())
    }

    /// Whether a call that waits for its reply has exposed memory under this key.
    pub(super) fn waits_for(&self, rkey: u32) -> bool {
        self.xprt.slots().any(|slot| {
            let request: &Request = slot.data();
            let state = &request.lock().state;
            let mut regions = state.regions.iter().filter(|region| region.is_live());
            state.phase == Phase::Sent
                && state.epoch == self.epoch
                && regions.any(|region| region.rkey() == rkey)
        })
    }

    /// A work request has failed.
    fn trace_failure(&self, qp: &Qp<Self>, tag: Tag, status: WcStatus) {
        match fenced_by(tag).and_then(|index| self.request(index)) {
            Some(request) => {
                let region = request.lock().state.last_fenced().map(Mr::id);
                trace::wc_li(names::cid(qp, region.unwrap_or(u32::MAX)), status);
            }
            None => {
                let index = request_of(tag).unwrap_or(u32::MAX);
                trace::wc_send(names::cid(qp, index), status);
            }
        }
    }

    /// The queue pair will complete nothing but failures.
    fn lost(&self) {
        // Before it is live that is the connect worker's business, which may even have been refused.
        if self.fate.xchg(fate::BROKEN, Full) == fate::LIVE {
            self.give_up();
        }
    }

    /// The connection cannot be trusted or used any more. Does not sleep.
    pub(super) fn give_up(&self) {
        let books = self.books.lock();
        if !books.closed {
            self.xprt.force_disconnect();
        }
    }

    /// The connection is closed. Should a device not have been drained after all, what it still
    /// reports is not to end the next connection, or to change its credits.
    pub(super) fn close(&self) {
        self.books.lock().closed = true;
    }
}

impl Completions for Link {
    fn received(&self, qp: &Qp<Self>, msg: Received<'_, Self>) {
        self.vigil.heard();
        let cid = names::cid(qp, msg.index());
        trace::wc_receive(cid, msg.bytes().len(), WcStatus::SUCCESS);
        reply::handle(self, qp, &msg);
    }

    fn sent(&self, qp: &Qp<Self>, tag: Tag, outcome: Result<(), WcError>) {
        if tag == PROBE_TAG {
            return probe::done(self, qp, outcome);
        }
        match outcome {
            // A Send is signalled only for the send queue's own bookkeeping.
            Ok(()) => {
                if let Some(request) = fenced_by(tag).and_then(|index| self.request(index)) {
                    fence::invalidated(self, qp, request);
                }
            }
            Err(error) => {
                // The queue pair is dead, and the sweep takes care of every request.
                if !error.is_flush() {
                    self.trace_failure(qp, tag, names::status(&error));
                    self.give_up();
                }
                // But who waits for a fence may be in its way.
                if let Some(request) = fenced_by(tag).and_then(|index| self.request(index)) {
                    fence::cut_off(self, request);
                }
            }
        }
    }

    fn room(&self, _qp: &Qp<Self>) {
        self.xprt.wake_write_space();
    }

    fn broken(&self, qp: &Qp<Self>, error: WcError) {
        trace::wc_receive(names::cid(qp, u32::MAX), 0, names::status(&error));
        self.lost();
    }

    fn not_a_send(&self, _qp: &Qp<Self>, opcode: u32) {
        trace::not_a_send(names::peer(&self.xprt), opcode);
        breach(Breach::NotASend);
        self.lost();
    }
}
