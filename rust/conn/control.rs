// SPDX-License-Identifier: GPL-2.0

//! Carrying out what the session of a connection decides.

use super::owner::Owner;
use super::role::{ConnOf, QpOf, Role};
use super::shared::Shared;
use super::traced;
use crate::observe::trace;
use crate::proto::session::{Output, Take, Verdict};
use crate::wire::message::Body;
use crate::wire::{EncodeError, Message};

impl<R: Role> Shared<R, R::Owner> {
    /// Carries out what the session has decided, until nothing is left to do now. Call it after
    /// each input to the session. Process context, without spinlocks; does not sleep.
    pub(crate) fn pump(&self, qp: &QpOf<R>) {
        let credits = |control: &_| credits::<R>(self, control);
        let (owner, queue) = (self.owner(), (qp, R::CONTROL));
        while let Some(output) = self.agreement().poll(owner, queue, credits) {
            trace_output(owner, &output);
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
        self.agreement().post((qp, R::CONTROL), write)
    }

    /// Traces what the session has made of a message of these `bytes`: it is a control message, or
    /// it broke a rule. `message` is `None` if it cannot be decoded.
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

    /// Tells the session if Receives have become larger.
    #[cold]
    pub(super) fn count_receives(&self, qp: &QpOf<R>) {
        if self.agreement().receives_grow(self.owner(), qp) {
            self.pump(qp);
        }
    }
}

fn trace_output(owner: &impl Owner, output: &Output) {
    match *output {
        Output::Settled(version) => trace::version_settled(traced::peer(owner), version),
        Output::Remember(memory) => trace::peer_remembered(traced::peer(owner), memory),
        Output::Close(reason) => trace::session_closed(traced::peer(owner), reason),
        // Other events show these.
        Output::Resend { .. } | Output::Void { .. } | Output::Post { .. } | Output::Send(_) => {}
        Output::Room | Output::Operated => {}
    }
}

/// Returns whether a message concerns the session alone.
const fn is_control(message: &Message<'_>, take: Take) -> bool {
    match message.body() {
        Body::Optional { .. } => true,
        Body::Error(_) => matches!(take, Take::Done),
        _ => false,
    }
}

fn credits<R: Role>(conn: &ConnOf<R>, control: &crate::proto::session::Control) -> u32 {
    R::credits(conn, control.direction)
}
