// SPDX-License-Identifier: GPL-2.0

//! Completions of a connection, which go to the role.

use super::role::{ConnOf, Incoming, Role};
use super::traced;
use crate::observe::stats::Breach;
use crate::observe::trace;
use crate::rdma::qp::{Completions, Qp, Tag, WcError};

impl<R: Role> Completions for ConnOf<R> {
    const HOLDS: bool = R::HOLDS;

    #[inline(always)]
    fn received(&self, qp: &Qp<Self>, msg: Incoming<'_, R>) {
        self.set_heard();
        if R::ANSWERS && self.is_first_message() {
            qp.note_established();
            R::established(self);
        }
        let terms = self.terms();
        R::received(self, qp, msg, terms);
        // Receives grow as the session wants.
        if terms.concerns_session() && self.session().receives_are_growing() {
            self.count_receives(qp);
        }
    }

    #[inline(always)]
    fn sent(&self, qp: &Qp<Self>, tag: Tag, outcome: Result<(), WcError>) {
        match outcome {
            Ok(()) if tag == R::CONTROL => {
                self.pump(qp);
                R::control_sent(self, qp);
            }
            outcome => R::completed(self, qp, tag, outcome),
        }
    }

    fn room(&self, qp: &Qp<Self>) {
        R::room(self, qp);
        self.pump(qp);
    }

    fn broken(&self, qp: &Qp<Self>, error: WcError) {
        R::broken(self, qp, &error);
        self.mark_broken();
    }

    fn event(&self, event: u32) {
        R::device_event(self, event);
    }

    fn not_a_send(&self, _qp: &Qp<Self>, opcode: u32) {
        trace::not_a_send(traced::peer(self.owner()), opcode);
        self.breach(Breach::NotASend);
        self.mark_broken();
    }
}
