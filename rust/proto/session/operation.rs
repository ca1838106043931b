// SPDX-License-Identifier: GPL-2.0

//! Optional operations of the peer, and its errors about ours.

use super::super::super::wire::message::ErrorBody;
use super::super::super::wire::xchar::{Characteristic, Disposition, OpType, Operation, Spec};
use super::super::super::wire::{Direction, Limits, Message, Version};
use super::super::xchar::answer_option;
use super::{Body, Breach, Control, Dispositions, Session, Take, Verdict};

/// An RDMA2_OPTIONAL.
pub(super) struct Optional<'a> {
    pub(super) opttype: u32,
    pub(super) optinfo: &'a [u8],
    pub(super) payload: &'a [u8],
}

impl Session {
    /// Handles an optional operation. If it is not known, an RPC message behind it is not
    /// processed.
    pub(super) fn on_optional(&mut self, message: &Message<'_>, option: &Optional<'_>) -> Verdict {
        let limits = Limits {
            characteristics: Dispositions::MAX as u32,
            ..Limits::NONE
        };
        let decoded = Operation::decode(option.opttype, option.optinfo, &limits);
        if let Some(error) = answer_option(&decoded) {
            // An operation that is not known here breaks no rule.
            let malformed = error == ErrorBody::BadHeader;
            return self.refuse(message, error, malformed.then_some(Breach::Form));
        }
        match decoded {
            Ok(Some(op)) if has_form(&op, message, option.payload) => {
                self.on_operation(message, &op)
            }
            _ => self.refuse(message, ErrorBody::BadHeader, Some(Breach::Form)),
        }
    }

    /// Answers a message by an error.
    pub(super) fn refuse(
        &mut self,
        message: &Message<'_>,
        error: ErrorBody,
        breach: Option<Breach>,
    ) -> Verdict {
        let sent = self.queue.answer(Control {
            xid: message.xid(),
            version: message.version().number(),
            direction: Direction::Reply,
            body: Body::Error(error),
        });
        let breach = if sent { breach } else { Some(Breach::TooMany) };
        Verdict::dropped(breach)
    }

    fn on_operation(&mut self, message: &Message<'_>, op: &Operation<'_>) -> Verdict {
        let fault = self.peer.on_operation(message.xid(), op).err();
        match op {
            Operation::Request { want } => return self.on_request(message, want),
            Operation::Response(_) if fault.is_none() => self.queue.on_answered(),
            Operation::Init { .. } | Operation::Response(_) | Operation::Update { .. } => {}
        }
        Verdict {
            take: Take::Done,
            grant: false,
            breach: fault.map(Breach::Operation),
        }
    }

    /// Answers a REQ_XCHAR of the peer.
    fn on_request(&mut self, message: &Message<'_>, want: &Spec<'_>) -> Verdict {
        if !self.queue.has_room() {
            return Verdict::dropped(Some(Breach::TooMany));
        }
        let mut outcome = Dispositions::default();
        for value in want.values() {
            let disposition = self.on_wanted(&value);
            outcome.push(disposition);
        }
        let sent = self.queue.answer(Control {
            xid: message.xid(),
            version: Version::Two.number(),
            direction: Direction::Reply,
            body: Body::Response(outcome),
        });
        Verdict {
            take: Take::Done,
            grant: false,
            breach: (!sent).then_some(Breach::TooMany),
        }
    }

    /// Decides on one element of a request. Only the size of Receives can change on request.
    //= XC-4.3-5 unknown are rejected
    fn on_wanted(&mut self, want: &Characteristic<'_>) -> Disposition {
        match *want {
            Characteristic::ReceiveBufferSize(size) => self.on_wanted_size(size),
            _ => Disposition::Rejected,
        }
    }

    fn on_wanted_size(&mut self, size: u32) -> Disposition {
        let disposition = self.receives.on_request(size, self.config.range);
        if let (Disposition::Done, Some(told)) = (disposition, &mut self.queue.told) {
            // RESP_XCHAR tells the peer.
            told.size = size;
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
            self.queue.cancel_request();
            self.peer.on_unsupported(OpType::Request);
        }
        true
    }
}

/// Returns whether an operation has the form of Table 2: no RPC message follows. A request is a
/// call, a response a reply; the other two have the direction of their sender's role.
//= XC-4-5 no RPC message follows these operations
fn has_form(op: &Operation<'_>, message: &Message<'_>, payload: &[u8]) -> bool {
    let direction = match op {
        Operation::Request { .. } => Some(Direction::Call),
        Operation::Response(_) => Some(Direction::Reply),
        Operation::Init { .. } | Operation::Update { .. } => message.direction(),
    };
    payload.is_empty() && message.direction() == direction
}
