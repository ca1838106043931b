// SPDX-License-Identifier: GPL-2.0

//! Control messages: their encoding, and those that wait to be sent.

use super::super::super::wire::message::ErrorBody;
use super::super::super::wire::xchar::{
    self, BackwardSupport, Characteristic, Disposition, Initial, OpType,
};
use super::super::super::wire::{error_as, Direction, EncodeError};

/// The number of answers to the peer that can wait: the initial credits that a server grants. A
/// peer that sends more operations without waiting for an answer loses the connection.
const ANSWERS: usize = 16;

/// The characteristics of this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// Receive Buffer Size in bytes.
    pub size: u32,
    /// Requester Remote Invalidation.
    pub invalidation: bool,
    /// Backward Request Support.
    pub backward: BackwardSupport,
}

impl Own {
    /// Returns all characteristics, as INIT_XCHAR announces them. The support of backward messages
    /// does not change.
    //= XC-4.1-2 first message fits smallest receive buffer
    //= XC-4.1-4 all characteristics sender is aware of
    //= XC-4.1-5 not expected to change
    pub fn initial(&self) -> [Initial<'static>; 3] {
        [
            Characteristic::ReceiveBufferSize(self.size),
            Characteristic::RemoteInvalidation(self.invalidation),
            Characteristic::BackwardSupport(self.backward),
        ]
        .map(|value| Initial {
            value,
            fixed: matches!(value, Characteristic::BackwardSupport(_)),
        })
    }
}

/// A characteristic of this end that changes while the connection lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Receive Buffer Size in bytes.
    Size(u32),
    /// Preferred inline threshold in bytes.
    Threshold(u32),
}

impl Change {
    /// Returns the characteristic with its new value.
    pub const fn value(self) -> Characteristic<'static> {
        match self {
            Self::Size(size) => Characteristic::ReceiveBufferSize(size),
            Self::Threshold(threshold) => Characteristic::PreferredThreshold(threshold),
        }
    }
}

/// The outcome of each element of a REQ_XCHAR. One element may be accepted; all others are
/// rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dispositions {
    pub(super) count: u32,
    pub(super) decided: Option<(u32, Disposition)>,
}

impl Dispositions {
    /// The maximum number of elements. Their RESP_XCHAR, with two subsets of 123 words and an empty
    /// one, fits the smallest Receive.
    pub const MAX: u32 = 123 * 32;

    /// Iterates over the outcomes.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Disposition> + ExactSizeIterator + Clone {
        let decided = self.decided;
        (0..self.count).map(move |n| match decided {
            Some((element, outcome)) if element == n => outcome,
            _ => Disposition::Rejected,
        })
    }
}

/// The content of a control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// INIT_XCHAR.
    Init(Own),
    /// UPD_XCHAR.
    Update {
        /// The new value.
        now: Change,
        /// A request of the peer is no longer pending.
        pending_cleared: bool,
    },
    /// REQ_XCHAR, for Receives of this size.
    Request(u32),
    /// RESP_XCHAR.
    Response(Dispositions),
    /// RDMA2_ERROR.
    Error(ErrorBody),
}

impl Body {
    /// Returns the operation, unless it is an error.
    pub const fn op_type(&self) -> Option<OpType> {
        match self {
            Self::Init(_) => Some(OpType::Init),
            Self::Update { .. } => Some(OpType::Update),
            Self::Request(_) => Some(OpType::Request),
            Self::Response(_) => Some(OpType::Response),
            Self::Error(_) => None,
        }
    }
}

/// A message of the session. It carries no RPC message and has no credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Its XID, in the XID space of the direction.
    pub xid: u32,
    /// The version word. That of an error is the one of the message that it answers, known or not.
    pub version: u32,
    /// Its direction. Its credits are those of the direction: requested (CALL) or granted (REPLY).
    pub direction: Direction,
    /// Its content.
    pub body: Body,
}

impl Control {
    /// Makes a reply to the message with this XID, in a version.
    pub(super) const fn reply(xid: u32, version: u32, body: Body) -> Self {
        Self {
            xid,
            version,
            direction: Direction::Reply,
            body,
        }
    }

    /// Writes the message. `credits` are those of its direction. Returns its length.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    pub fn encode(&self, buf: &mut [u8], credits: u32) -> Result<usize, EncodeError> {
        let (xid, direction) = (self.xid, self.direction);
        match &self.body {
            Body::Init(own) => xchar::init(buf, xid, credits, direction, &own.initial()),
            Body::Update {
                now,
                pending_cleared,
            } => xchar::update(buf, xid, credits, direction, &now.value(), *pending_cleared),
            Body::Request(size) => {
                let want = Characteristic::ReceiveBufferSize(*size);
                xchar::request(buf, xid, credits, &[want])
            }
            Body::Response(outcome) => xchar::respond(buf, xid, credits, outcome.iter()),
            Body::Error(error) => error_as(self.version, buf, xid, credits, *error),
        }
    }

    /// Returns whether this message answers the peer.
    pub(super) const fn is_answer(&self) -> bool {
        matches!(self.body, Body::Response(_) | Body::Error(_))
    }
}

/// A request that waits to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    xid: u32,
    want: u32,
    /// Messages that exceed the requested size may still be posted.
    held: bool,
}

/// The messages that wait, and the XIDs of those that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    next: u32,
    answers: [Option<Control>; ANSWERS],
    pub(super) asked: Option<Asked>,
    /// The size of our Receives that was announced to the peer, once INIT_XCHAR was sent.
    pub(super) told: Option<u32>,
    init: Option<u32>,
    update: Option<u32>,
    request: Option<u32>,
    /// The time at which the next unsolicited message may be sent.
    pub(super) ready_at: u64,
}

impl Queue {
    pub(super) const fn new(xid: u32) -> Self {
        Self {
            next: xid,
            answers: [None; ANSWERS],
            asked: None,
            told: None,
            init: None,
            update: None,
            request: None,
            ready_at: 0,
        }
    }

    /// Returns a new XID.
    pub(super) const fn next_xid(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    /// Appends an answer to the peer. Returns `false` if the queue is full.
    #[must_use]
    pub(super) fn answer(&mut self, control: Control) -> bool {
        let free = self.answers.iter_mut().find(|slot| slot.is_none());
        free.map(|slot| *slot = Some(control)).is_some()
    }

    /// Returns whether no answer waits.
    pub(super) fn is_empty(&self) -> bool {
        self.answers.iter().all(Option::is_none)
    }

    /// Takes the first answer.
    pub(super) fn take_answer(&mut self) -> Option<Control> {
        let first = self.answers.first_mut()?.take();
        self.answers.rotate_left(1);
        first
    }

    /// Appends a request. It waits for [`Queue::release`].
    pub(super) fn ask(&mut self, xid: u32, want: u32) {
        self.asked = Some(Asked {
            xid,
            want,
            held: true,
        });
    }

    /// Lets the request be sent.
    pub(super) fn release(&mut self) {
        if let Some(asked) = &mut self.asked {
            asked.held = false;
        }
    }

    /// Returns the request that may be sent.
    pub(super) fn released(&self) -> Option<(u32, u32)> {
        let asked = self.asked.filter(|asked| !asked.held)?;
        Some((asked.xid, asked.want))
    }

    /// Records that an unsolicited message is sent. The next one waits.
    pub(super) fn on_sent(&mut self, control: &Control, now: u64) {
        self.ready_at = now.saturating_add(super::PAUSE_MS);
        match control.body.op_type() {
            Some(OpType::Init) => self.init = Some(control.xid),
            Some(OpType::Update) => self.update = Some(control.xid),
            Some(OpType::Request) => {
                self.request = Some(control.xid);
                self.asked = None;
            }
            Some(OpType::Response) | None => {}
        }
    }

    /// Returns the operation that an error with this XID answers. The next unsolicited message need
    /// not wait any longer.
    pub(super) fn on_error(&mut self, xid: u32) -> Option<OpType> {
        let slots = [
            (&mut self.init, OpType::Init),
            (&mut self.update, OpType::Update),
            (&mut self.request, OpType::Request),
        ];
        let found = slots.into_iter().find(|(sent, _)| **sent == Some(xid));
        let (sent, op) = found?;
        *sent = None;
        self.ready_at = 0;
        Some(op)
    }

    /// Records that our request was answered.
    pub(super) fn on_answered(&mut self) {
        self.request = None;
        self.ready_at = 0;
    }
}
