// SPDX-License-Identifier: GPL-2.0

//! Completions of a connection: each message is decoded once, and goes to the role.

use super::owner::Owner;
use super::role::{ConnOf, Incoming, Role};
use super::traced;
use crate::observe::stats::{breach, Breach};
use crate::observe::trace::{self, WcStatus};
use crate::proto::backward;
use crate::rdma::qp::{Completions, Qp, Tag, WcError};
use crate::wire::Message;

impl<R: Role> Completions for ConnOf<R> {
    fn received(&self, qp: &Qp<Self>, msg: Incoming<'_, R>) {
        self.set_heard();
        let bytes = msg.bytes();
        trace::wc_receive(traced::cid(qp, msg.index()), bytes.len(), WcStatus::SUCCESS);
        // The result is long, so it is not moved out of its place.
        let decoded = Message::decode_as(self.version(), bytes, &R::LIMITS);
        match &decoded {
            Ok(header) if backward::is_call(header) => R::call(self, &msg, header),
            Ok(header) => R::answer(self, qp, &msg, header),
            Err(error) => R::undecodable(self, qp, &msg, error),
        }
    }

    fn sent(&self, qp: &Qp<Self>, tag: Tag, outcome: Result<(), WcError>) {
        R::completed(self, qp, tag, outcome);
    }

    fn room(&self, _qp: &Qp<Self>) {
        self.owner().wake_senders();
    }

    fn broken(&self, qp: &Qp<Self>, error: WcError) {
        trace::wc_receive(traced::cid(qp, u32::MAX), 0, traced::status(&error));
        self.mark_broken();
    }

    fn not_a_send(&self, _qp: &Qp<Self>, opcode: u32) {
        trace::not_a_send(traced::peer(self.owner()), opcode);
        breach(Breach::NotASend);
        self.mark_broken();
    }
}
