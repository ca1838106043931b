// SPDX-License-Identifier: GPL-2.0

//! Optional operations of the peer, and its errors about ours.

use super::super::super::wire::message::ErrorBody;
use super::super::super::wire::v2::FIRST_MESSAGE_MAX;
use super::super::super::wire::xchar::{Characteristic, Disposition, OpType, Operation, Spec};
use super::super::super::wire::{Direction, Message, Version};
use super::{Body, Breach, Close, Control, Dispositions, Session, Verdict};

impl Session {
    /// Handles an optional operation of this type, with these arguments. An RPC message behind an
    /// unknown operation is not processed.
    //= V2-3.1-1 unknown operation answered by INVAL_OPTION
    //= XC-4-1 unsupported operations are answered by INVAL_OPTION
    pub(super) fn on_optional(
        &mut self,
        message: &Message<'_>,
        (opttype, optinfo): (u32, &[u8]),
    ) -> Verdict {
        match Operation::decode(opttype, optinfo) {
            Ok(Some(op)) if has_form(&op, message) => self.on_operation(message, &op),
            // An unknown operation breaks no rule.
            Ok(None) => self.refuse(message, ErrorBody::InvalidOption, None),
            _ => self.refuse(message, ErrorBody::BadHeader, Some(Breach::Form)),
        }
    }

    /// Answers a message with an error.
    pub(super) fn refuse(
        &mut self,
        message: &Message<'_>,
        error: ErrorBody,
        breach: Option<Breach>,
    ) -> Verdict {
        let version = message.version().number();
        let sent = self.answer(Control::reply(message.xid(), version, Body::Error(error)));
        Verdict::dropped(if sent { breach } else { Some(Breach::TooMany) })
    }

    /// Appends an answer to the peer. Returns `false` if there are too many: the connection is then
    /// closed, so that the peer does not wait for this answer.
    #[must_use]
    pub(super) fn answer(&mut self, control: Control) -> bool {
        let room = self.queue.answer(control);
        if !room {
            self.news.close = Some(Close::TooMany);
        }
        room
    }

    fn on_operation(&mut self, message: &Message<'_>, op: &Operation<'_>) -> Verdict {
        let fault = self.peer.on_operation(message.xid(), op).err();
        match op {
            Operation::Request { want } => return self.on_request(message, want),
            Operation::Response(_) if fault.is_none() => self.queue.on_answered(),
            Operation::Init { .. } => self.on_announced(None),
            Operation::Update { now, .. } => self.on_announced(Some(now)),
            Operation::Response(_) => {}
        }
        Verdict::done(fault.map(Breach::Operation))
    }

    /// Answers a REQ_XCHAR of the peer. If the answer could exceed the length that every peer can
    /// receive, the request is refused as a whole, which rejects each element (section 3).
    fn on_request(&mut self, message: &Message<'_>, want: &Spec<'_>) -> Verdict {
        if want.count() > Dispositions::MAX {
            return self.refuse(message, ErrorBody::InvalidOption, None);
        }
        let outcome = Dispositions {
            count: want.count(),
            decided: self.decide(want),
        };
        let (version, outcome) = (Version::Two.number(), Body::Response(outcome));
        let sent = self.answer(Control::reply(message.xid(), version, outcome));
        Verdict::done((!sent).then_some(Breach::TooMany))
    }

    /// Decides on the last element of a request that names the size of Receives, the only
    /// characteristic that can change on request. Earlier such elements are superseded.
    //= XC-4.3-5 unknown are rejected
    fn decide(&mut self, want: &Spec<'_>) -> Option<(u32, Disposition)> {
        let sizes = (0..)
            .zip(want.values())
            .filter_map(|(n, value)| match value {
                Characteristic::ReceiveBufferSize(size) => Some((n, size)),
                _ => None,
            });
        let (element, size) = sizes.last()?;
        Some((element, self.on_wanted_size(size)))
    }

    fn on_wanted_size(&mut self, size: u32) -> Disposition {
        // No more than the current setting.
        let range = (FIRST_MESSAGE_MAX, self.settings.receive);
        let disposition = self.receives.on_request(size, range);
        if disposition == Disposition::Done {
            self.settings.heard = self.settings.heard.min(size);
            // RESP_XCHAR notifies the peer.
            self.queue.told = self.queue.told.map(|_| size);
        }
        disposition
    }

    /// Handles an error of the peer. Returns whether it is about an operation of ours, not about a
    /// call.
    //= XC-4-4 each operation may be unsupported
    pub(super) fn on_option_error(&mut self, xid: u32, error: ErrorBody) -> bool {
        if matches!(error, ErrorBody::Vers { .. }) {
            return false;
        }
        let Some(op) = self.queue.on_error(xid) else {
            return false;
        };
        self.peer.on_unsupported(op);
        if !self.peer.supports(OpType::Request) && self.peer.request().is_some() {
            self.queue.asked = None;
            self.peer.on_unsupported(OpType::Request);
        }
        true
    }
}

/// Returns whether an operation has the form of Table 2: no RPC message follows. A request is a
/// call, a response a reply; the other two have the direction of their sender's role.
//= XC-4-5 no RPC message follows these operations
fn has_form(op: &Operation<'_>, message: &Message<'_>) -> bool {
    let direction = match op {
        Operation::Request { .. } => Some(Direction::Call),
        Operation::Response(_) => Some(Direction::Reply),
        Operation::Init { .. } | Operation::Update { .. } => message.direction(),
    };
    message.payload().is_empty() && message.direction() == direction
}
