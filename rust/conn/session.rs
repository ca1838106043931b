// SPDX-License-Identifier: GPL-2.0

//! The session of a connection, and the messages by which both peers agree on version and terms.
//!
//! [`proto::session`](crate::proto::session) decides. This file keeps the session behind a lock,
//! publishes its terms for readers without the lock, and sends its messages. The messages are sent
//! from one buffer, one at a time, so that they never wait for memory.

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, AtomicFlag, Relaxed};
use kernel::sync::{new_spinlock, SpinLock};
use kernel::time::{Instant, Monotonic};

use super::role::{QpOf, Role, XprtRef};
use super::state::ConnState;
use super::terms::TermsWord;
use super::traced;
use crate::observe::trace;
use crate::proto::session::{Config, Control, Output, Session, Take, Verdict};
use crate::rdma::buffer::SendBuf;
use crate::rdma::qp::{Completions, PostError, Qp, Tag};
use crate::wire::message::Body;
use crate::wire::v2::FIRST_MESSAGE_MAX;
use crate::wire::{EncodeError, Message};

/// The length of the buffer for the session's messages, in bytes. The first call also fits, because
/// the session may have to retransmit it.
// CAST: `usize` has at least 32 bits.
pub(crate) const BUFFER: usize = FIRST_MESSAGE_MAX as usize;

/// The session of one connection, which both roles and the completion worker share.
#[pin_data]
pub(super) struct SharedSession {
    pub(super) terms: TermsWord,
    /// The origin of the session's time.
    made: Instant<Monotonic>,
    /// Receives are being enlarged.
    pub(super) growing: AtomicFlag,
    /// The number of messages at the latest look of the watch.
    pub(super) arrived: Atomic<u32>,
    /// The watch has found the connection at work.
    pub(super) at_work: AtomicFlag,
    /// Present from the handshake until the connection is closed.
    #[pin]
    current: SpinLock<Option<KBox<Current>>>,
}

struct Current {
    session: Session,
    out: SendBuf,
    /// A message that could not be posted yet.
    unsent: Option<Control>,
    /// The size in bytes of the Receives that the session requests.
    wanted: Option<u32>,
    /// The number of Receives that are not enlarged yet.
    smaller: u32,
}

impl SharedSession {
    /// Makes the state of a connection before its handshake.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            terms: TermsWord::new(),
            made: Instant::now(),
            growing: AtomicFlag::new(false),
            arrived: Atomic::new(0),
            at_work: AtomicFlag::new(false),
            current <- new_spinlock!(None, "rpcrdma::SharedSession::current"),
        })
    }

    /// Ends the session, and frees its buffer. May sleep.
    pub(super) fn end(&self) {
        let _ended = self.current.lock().take();
    }

    /// Returns the size in bytes of the Receives that the session requests.
    pub(super) fn wanted_receives(&self) -> Option<u32> {
        self.current.lock().as_ref()?.wanted
    }
}

impl<R, O: XprtRef> ConnState<R, O> {
    /// Begins the session, which decides on version and terms, once the handshake has shown the
    /// peer's announcement. `out` has [`BUFFER`] bytes. Until then the version is one, and the peer
    /// may not invalidate our R_keys. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    // A new session is on the stack until it is complete: not on that of the handshake.
    #[inline(never)]
    pub(crate) fn begin_session(&self, config: Config, out: SendBuf) -> Result {
        let current = init!(Current {
            session: Session::new(config),
            out,
            unsent: None,
            wanted: None,
            smaller: 0,
        });
        let current = KBox::init(current, GFP_KERNEL)?;
        let mut place = self.session.current.lock();
        self.publish(&current.session);
        *place = Some(current);
        Ok(())
    }

    /// Publishes the terms of the session, if they have changed. The caller holds the lock.
    fn publish(&self, session: &Session) {
        let terms = session.terms();
        if self.session.terms.publish(terms) {
            trace::terms_changed(traced::peer(self.owner()), terms);
        }
    }

    /// Calls `act` with the session and its time in milliseconds, and then publishes the terms.
    /// `None` without a session. `act` must not sleep.
    pub(crate) fn with_session<T>(&self, act: impl FnOnce(&mut Session, u64) -> T) -> Option<T> {
        self.with_current(&mut self.session.current.lock(), |current, now| {
            act(&mut current.session, now)
        })
    }

    #[cold]
    fn with_current<T>(
        &self,
        current: &mut Option<KBox<Current>>,
        act: impl FnOnce(&mut Current, u64) -> T,
    ) -> Option<T> {
        let current = (*current).as_mut()?;
        let result = act(current, super::millis(self.session.made));
        self.publish(&current.session);
        Some(result)
    }

    /// Calls `post`, which posts a message. If the message may be the first one (`watched`), `note`
    /// notifies the session before the answer can be handled: the session stays locked until then.
    /// Neither may sleep.
    #[inline(always)]
    pub(crate) fn post_noted<T>(
        &self,
        watched: bool,
        post: impl FnOnce() -> T,
        note: impl FnOnce(&T, &mut Session, u64),
    ) -> T {
        // `post` is called in one place, so that it is inlined.
        let mut current = watched.then(|| self.session.current.lock());
        let posted = post();
        if let Some(current) = &mut current {
            self.with_current(current, |current, now| {
                note(&posted, &mut current.session, now)
            });
        }
        posted
    }

    /// Records that Receives of `size` bytes are being posted and that `smaller` of them still have
    /// the old size; or that this failed. After a temporary failure the session still requests this
    /// size.
    pub(super) fn receives_posted(&self, size: u32, smaller: Result<u32>) {
        // An earlier growth has not ended, or memory is short.
        if matches!(smaller, Err(EBUSY | ENOMEM)) {
            return;
        }
        let note = |current: &mut Current, _| {
            // The session may have requested another size meanwhile.
            current.wanted = current.wanted.filter(|wanted| *wanted != size);
            match smaller {
                Ok(smaller) => {
                    current.smaller = smaller;
                    self.session.growing.store(smaller != 0, Relaxed);
                    current.session.on_posting(size, smaller);
                }
                Err(_) => current.session.on_post_failed(),
            }
        };
        self.with_current(&mut self.session.current.lock(), note);
    }

    /// Traces the session's verdict on a message of these `bytes`: a control message, or a breach
    /// of the protocol. `message` is `None` if the bytes cannot be decoded.
    pub(crate) fn trace_arrival(
        &self,
        bytes: &[u8],
        message: Option<&Message<'_>>,
        verdict: &Verdict,
    ) {
        let peer = traced::peer(self.owner());
        if let Some(message) = message.filter(|message| is_control(message, verdict.take)) {
            trace::control_received(peer, message);
        }
        if let Some(breach) = &verdict.breach {
            let xid = bytes.first_chunk().copied().map_or(0, u32::from_be_bytes);
            trace::session_breach(peer, xid, breach);
        }
    }
}

impl<R: Role> ConnState<R, R::Owner> {
    /// Carries out the session's decisions until none is left. Call this after each input to the
    /// session. Process context, without spinlocks; does not sleep.
    pub(crate) fn pump(&self, qp: &QpOf<R>) {
        while let Some(output) = self.poll(qp) {
            trace_output(self.owner(), &output);
            R::decided(self, qp, output);
        }
    }

    /// Posts a message that `write` puts into the session's buffer; `write` returns its length.
    /// Returns `false` if the buffer is in use, or the send queue is full.
    pub(crate) fn post_control(
        &self,
        qp: &QpOf<R>,
        write: impl FnOnce(&mut [u8]) -> Result<usize, EncodeError>,
    ) -> bool {
        let mut current = self.session.current.lock();
        let current = (*current).as_mut();
        current.is_some_and(|current| current.post((qp, R::CONTROL), write).is_ok())
    }

    /// Notifies the session of the number of Receives that are not enlarged yet, if that has
    /// changed.
    #[cold]
    pub(super) fn count_receives(&self, qp: &QpOf<R>) {
        let count = |current: &mut Current, _| {
            // The number is read with the lock held, so that no earlier number overwrites a later
            // one. The queue pair may have begun to grow again, which `receives_posted` has not
            // recorded yet.
            let smaller = qp.smaller_receives().min(current.smaller);
            let gone = current.smaller.saturating_sub(smaller);
            current.smaller = smaller;
            current.session.on_consumed(gone);
            self.session.growing.store(smaller != 0, Relaxed);
            gone != 0
        };
        let counted = self.with_current(&mut self.session.current.lock(), count);
        if counted.unwrap_or(false) {
            self.pump(qp);
        }
    }

    /// Posts the messages that the session sends, and returns its next other output.
    fn poll(&self, qp: &QpOf<R>) -> Option<Output> {
        let mut current = self.session.current.lock();
        let current = (*current).as_mut()?;
        loop {
            if let Some(control) = current.unsent.take() {
                let credits = R::credits(self, control.direction);
                match current.post((qp, R::CONTROL), |out| control.encode(out, credits)) {
                    Ok(()) => {
                        trace::control_sent(traced::peer(self.owner()), &control);
                        current.session.on_posted(&control);
                    }
                    Err(PostError::Full) => {
                        current.unsent = Some(control);
                        return None;
                    }
                    // The next message that is posted meets the failure, and the connection is
                    // closed.
                    Err(PostError::Invalid | PostError::Broken(_)) => {}
                }
            }
            let output = current.session.poll(super::millis(self.session.made));
            self.publish(&current.session);
            match output {
                Some(Output::Send(control)) => current.unsent = Some(control),
                Some(Output::Post { size }) => {
                    current.wanted = Some(size);
                    return output;
                }
                other => return other,
            }
        }
    }
}

impl Current {
    /// Posts a message that `write` puts into the buffer. The Send is signalled, so that the buffer
    /// becomes free even if the connection sends nothing else.
    ///
    /// # Errors
    ///
    /// [`PostError::Full`] while buffer or send queue are full: the end of a work request makes
    /// space.
    fn post<C: Completions>(
        &mut self,
        (qp, tag): (&Qp<C>, Tag),
        write: impl FnOnce(&mut [u8]) -> Result<usize, EncodeError>,
    ) -> Result<(), PostError> {
        if self.out.in_flight() {
            return Err(PostError::Full);
        }
        let len = write(self.out.as_mut_slice()).map_err(|_| PostError::Invalid)?;
        let no_regions = core::iter::empty();
        qp.post_send(tag, no_regions, &mut self.out, len, true)
            .map(drop)
    }
}

fn trace_output(owner: &impl XprtRef, output: &Output) {
    match *output {
        Output::Settled(version) => trace::version_settled(traced::peer(owner), version),
        Output::Remember(memory) => trace::peer_remembered(traced::peer(owner), memory),
        Output::Close(reason) => trace::session_closed(traced::peer(owner), reason),
        // Other trace events show these.
        Output::Resend { .. } | Output::Void { .. } | Output::Post { .. } | Output::Send(_) => {}
        Output::Room | Output::Operated => {}
    }
}

/// Returns whether a message concerns the session alone.
const fn is_control(message: &Message<'_>, take: Take) -> bool {
    matches!(
        (message.body(), take),
        (Body::Optional { .. }, _) | (Body::Error(_), Take::Done)
    )
}
