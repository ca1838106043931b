// SPDX-License-Identifier: GPL-2.0

//! What both peers of a connection have agreed on, and the messages that they agree by.
//!
//! [`proto::session`](crate::proto::session) decides. This file keeps the session behind a lock,
//! publishes its terms for readers without the lock, and sends its messages. They go out of one
//! buffer, one at a time, so that they never wait for memory.

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, SpinLock};
use kernel::time::{Instant, Monotonic};

use super::live::Live;
use super::owner::Owner;
use super::traced;
use crate::observe::trace;
use crate::proto::session::{Config, Control, Output, Session};
use crate::rdma::qp::{Completions, PostError, Qp, Tag};
use crate::rdma::send::SendBuf;
use crate::wire::v2::FIRST_MESSAGE_MAX;
use crate::wire::EncodeError;

/// The length of the buffer for the session's messages, in bytes. The first call fits as well,
/// which may have to be sent again.
// CAST: `usize` has at least 32 bits.
pub(crate) const BUFFER: usize = FIRST_MESSAGE_MAX as usize;

/// The agreement of one connection.
#[pin_data]
pub(super) struct Agreement {
    pub(super) live: Live,
    /// The session's time begins here.
    made: Instant<Monotonic>,
    /// Receives are to become larger.
    growing: Atomic<bool>,
    #[pin]
    inner: SpinLock<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Present from the handshake until the connection is closed.
    current: Option<Current>,
}

struct Current {
    session: Session,
    out: SendBuf,
    /// A message that could not be posted yet.
    unsent: Option<Control>,
    /// The size of Receives that the session wants to be posted, in bytes.
    wanted: Option<u32>,
    /// The number of Receives that are still to become larger.
    smaller: u32,
}

/// What came of sending a message of the session.
enum Sent {
    /// It is on its way.
    Posted,
    /// The connection is broken.
    Lost,
    /// The buffer or the send queue has no room now. The end of a work request makes room.
    Waits,
}

impl Agreement {
    /// Makes the agreement of a connection before its handshake.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            live: Live::new(),
            made: Instant::now(),
            growing: Atomic::new(false),
            inner <- new_spinlock!(Inner::default(), "rpcrdma::Agreement::inner"),
        })
    }

    /// Begins the session of a connection of `owner`. `out` has [`BUFFER`] bytes.
    pub(super) fn begin(&self, owner: &impl Owner, config: Config, out: SendBuf) {
        let session = Session::new(config);
        let mut inner = self.inner.lock();
        self.publish(owner, &session);
        inner.current = Some(Current {
            session,
            out,
            unsent: None,
            wanted: None,
            smaller: 0,
        });
    }

    /// Ends the session, and frees its buffer. May sleep.
    pub(super) fn end(&self) {
        let ended = self.inner.lock().current.take();
        drop(ended);
    }

    /// Returns the session's time, in milliseconds.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.made.elapsed().as_millis()).unwrap_or(0)
    }

    /// Publishes the terms of the session, if they have changed. The caller holds the lock.
    fn publish(&self, owner: &impl Owner, session: &Session) {
        let terms = session.terms();
        if self.live.publish(terms) {
            trace::terms_changed(traced::peer(owner), terms);
        }
    }

    /// Calls `post`, which posts a message. With `watched`, `note` then tells the session, which
    /// stays locked in between. Neither may sleep.
    #[inline(always)]
    pub(super) fn post_noted<T>(
        &self,
        owner: &impl Owner,
        watched: bool,
        post: impl FnOnce() -> T,
        note: impl FnOnce(&T, &mut Session, u64),
    ) -> T {
        // One call of `post` for both ways, so that it is inlined.
        let mut inner = watched.then(|| self.inner.lock());
        let posted = post();
        if let Some(inner) = &mut inner {
            self.act(owner, inner, |session, now| note(&posted, session, now));
        }
        posted
    }

    /// Calls `act` with the session and its time, and publishes the terms afterwards. `None` if
    /// there is no session. `act` must not sleep.
    pub(super) fn with<T>(
        &self,
        owner: &impl Owner,
        act: impl FnOnce(&mut Session, u64) -> T,
    ) -> Option<T> {
        self.act(owner, &mut self.inner.lock(), act)
    }

    #[cold]
    fn act<T>(
        &self,
        owner: &impl Owner,
        inner: &mut Inner,
        act: impl FnOnce(&mut Session, u64) -> T,
    ) -> Option<T> {
        let session = &mut inner.current.as_mut()?.session;
        let result = act(session, self.now());
        self.publish(owner, session);
        Some(result)
    }

    /// Returns the next thing to do, except for messages: it posts these itself, with `tag`.
    pub(super) fn poll<C: Completions>(
        &self,
        owner: &impl Owner,
        (qp, tag): (&Qp<C>, Tag),
        credits: impl Fn(&Control) -> u32,
    ) -> Option<Output> {
        let mut inner = self.inner.lock();
        let current = inner.current.as_mut()?;
        loop {
            if let Some(control) = current.unsent.take() {
                match current.send((qp, tag), &control, credits(&control)) {
                    Sent::Posted => {
                        trace::control_sent(traced::peer(owner), &control);
                        current.session.on_posted(&control);
                    }
                    Sent::Lost => {}
                    Sent::Waits => {
                        current.unsent = Some(control);
                        return None;
                    }
                }
            }
            let output = current.session.poll(self.now());
            self.publish(owner, &current.session);
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

    /// Posts a message that `write` puts into the buffer; `write` returns its length. Returns
    /// `false` if that was not possible.
    pub(super) fn post<C: Completions>(
        &self,
        (qp, tag): (&Qp<C>, Tag),
        write: impl FnOnce(&mut [u8]) -> Result<usize, EncodeError>,
    ) -> bool {
        let mut inner = self.inner.lock();
        let Some(current) = inner.current.as_mut() else {
            return false;
        };
        !current.out.in_flight()
            && write(current.out.as_mut_slice())
                .is_ok_and(|len| current.post((qp, tag), len).is_ok())
    }

    /// Returns whether Receives are to become larger.
    #[inline]
    pub(super) fn receives_are_growing(&self) -> bool {
        self.growing.load(Relaxed)
    }

    /// Returns the size of Receives that the session wants to be posted, in bytes.
    pub(super) fn wanted_receives(&self) -> Option<u32> {
        self.inner.lock().current.as_ref()?.wanted
    }

    /// Tells the session how many Receives are still to become larger. Returns whether that has
    /// changed.
    pub(super) fn receives_grow<C: Completions>(&self, owner: &impl Owner, qp: &Qp<C>) -> bool {
        let mut inner = self.inner.lock();
        let Some(current) = inner.current.as_mut() else {
            return false;
        };
        // It is read with the lock held, so that no earlier number counts after a later one. The
        // queue pair may have begun to grow once more, which `receives_posted` has not noted yet.
        let smaller = qp.smaller_receives().min(current.smaller);
        let gone = current.smaller.saturating_sub(smaller);
        current.smaller = smaller;
        current.session.on_consumed(gone);
        self.growing.store(smaller != 0, Relaxed);
        self.publish(owner, &current.session);
        gone != 0
    }

    /// Notes that Receives of `size` bytes are being posted, `smaller` of which are still to become
    /// as large; or that this failed. If the reason may pass, the session still wants this size.
    pub(super) fn receives_posted(&self, owner: &impl Owner, size: u32, smaller: Result<u32>) {
        let mut inner = self.inner.lock();
        let Some(current) = inner.current.as_mut() else {
            return;
        };
        // An earlier growth has not ended, or there is no memory now.
        if matches!(smaller, Err(EBUSY | ENOMEM)) {
            return;
        }
        // The session may have changed its mind meanwhile.
        current.wanted = current.wanted.filter(|wanted| *wanted != size);
        match smaller {
            Ok(smaller) => {
                current.smaller = smaller;
                self.growing.store(smaller != 0, Relaxed);
                current.session.on_posting(size, smaller);
            }
            Err(_) => current.session.on_post_failed(),
        }
        self.publish(owner, &current.session);
    }
}

impl Current {
    fn send<C: Completions>(
        &mut self,
        queue: (&Qp<C>, Tag),
        control: &Control,
        credits: u32,
    ) -> Sent {
        if self.out.in_flight() {
            return Sent::Waits;
        }
        // The buffer is long enough for every message of the session.
        let Ok(len) = control.encode(self.out.as_mut_slice(), credits) else {
            return Sent::Lost;
        };
        match self.post(queue, len) {
            Ok(_) => Sent::Posted,
            Err(PostError::Full) => Sent::Waits,
            // A queue pair that has failed has its connection closed.
            Err(PostError::Invalid | PostError::Broken(_)) => Sent::Lost,
        }
    }

    /// Posts what is in the buffer. The Send is signalled, so that the buffer becomes free however
    /// quiet the connection is.
    fn post<C: Completions>(
        &mut self,
        (qp, tag): (&Qp<C>, Tag),
        len: usize,
    ) -> Result<u64, PostError> {
        let no_regions = core::iter::empty();
        qp.post_send(tag, no_regions, &mut self.out, len, true)
    }
}
