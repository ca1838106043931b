// SPDX-License-Identifier: GPL-2.0

//! The peer's characteristics, and requests to the peer to change them: sections 3 and 4.
//!
//! State: for version two.

use super::super::super::wire::v2::{DEFAULT_INLINE, FIRST_MESSAGE_MAX};
use super::super::super::wire::xchar::{
    BackwardSupport, Characteristic, Disposition, Operation, Response,
};

/// A characteristic that this module knows, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Receive Buffer Size in bytes.
    ReceiveBufferSize(u32),
    /// Requester Remote Invalidation.
    RemoteInvalidation(bool),
    /// Backward Request Support.
    BackwardSupport(BackwardSupport),
}

impl Known {
    /// Returns whether both are values of the same characteristic.
    fn same_kind(&self, other: &Self) -> bool {
        core::mem::discriminant(self) == core::mem::discriminant(other)
    }

    /// Returns the known characteristic in a decoded value. `None` for an unknown one, which is
    /// skipped.
    //= XC-2.1-4 unknown characteristics are skipped without error
    pub const fn from_value(value: &Characteristic<'_>) -> Option<Self> {
        match *value {
            Characteristic::ReceiveBufferSize(n) => Some(Self::ReceiveBufferSize(n)),
            Characteristic::RemoteInvalidation(b) => Some(Self::RemoteInvalidation(b)),
            Characteristic::BackwardSupport(l) => Some(Self::BackwardSupport(l)),
            Characteristic::Other { .. } => None,
        }
    }

    /// Returns the value to encode.
    pub const fn value(self) -> Characteristic<'static> {
        match self {
            Self::ReceiveBufferSize(n) => Characteristic::ReceiveBufferSize(n),
            Self::RemoteInvalidation(b) => Characteristic::RemoteInvalidation(b),
            Self::BackwardSupport(l) => Characteristic::BackwardSupport(l),
        }
    }
}

/// A request to change one characteristic of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// XID of the REQ_XCHAR.
    pub xid: u32,
    /// The value wanted.
    pub want: Known,
    /// Whether the peer has promised to change it later.
    pub pending: bool,
}

/// Why a RESP_XCHAR does not answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadResponse {
    /// No request with this XID is unanswered.
    Unasked,
    /// The subsets overlap, leave out, or exceed the elements of the request; the first such
    /// element.
    Coverage(u32),
}

/// The characteristics of one peer on this connection: announced, or default.
///
/// At most one request is unanswered or pending at a time, for one characteristic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    receive_size: u32,
    remote_invalidation: bool,
    backward: BackwardSupport,
    /// The support that backward-direction requests of the peer have shown.
    shown: Option<BackwardSupport>,
    request: Option<Request>,
    /// The peer has answered an operation of this extension with INVAL_OPTION.
    unsupported: bool,
}

impl Peer {
    /// Returns the defaults of Table 1, for a peer that has announced nothing.
    //= XC-3-1 defaults assumed of a peer
    pub const fn new() -> Self {
        Self {
            receive_size: DEFAULT_INLINE,
            remote_invalidation: false,
            backward: BackwardSupport::SizeLimited,
            shown: None,
            request: None,
            unsupported: false,
        }
    }

    /// Applies a decoded operation of the peer. The caller decides on requests of the peer (see
    /// [`super::Receives::on_request`]); they change nothing here.
    ///
    /// # Errors
    ///
    /// [`BadResponse`] for a RESP_XCHAR that answers no request.
    //= XC-4-2 sends REQ_XCHAR supports RESP_XCHAR
    //= XC-4-3 supports RESP_XCHAR or UPD_XCHAR
    //= XC-4.1-3 unknown characteristics are ignored
    pub fn on_operation(&mut self, xid: u32, op: &Operation<'_>) -> Result<(), BadResponse> {
        match op {
            Operation::Init { start, .. } => {
                for known in start.values().filter_map(|v| Known::from_value(&v)) {
                    self.set(known);
                }
                Ok(())
            }
            Operation::Request { .. } => Ok(()),
            Operation::Response(response) => self.on_response(xid, response),
            Operation::Update {
                now,
                pending_cleared,
            } => {
                if let Some(known) = Known::from_value(now) {
                    self.on_update(known, *pending_cleared);
                }
                Ok(())
            }
        }
    }

    //= XC-4.3-3 change done counts from then
    fn set(&mut self, known: Known) {
        match known {
            // Every peer can receive the messages that it had to receive before the version was
            // settled.
            Known::ReceiveBufferSize(n) => self.receive_size = n.max(FIRST_MESSAGE_MAX),
            Known::RemoteInvalidation(b) => self.remote_invalidation = b,
            Known::BackwardSupport(l) => self.backward = l,
        }
    }

    //= XC-4.4-1 UPD_XCHAR may clear pending request
    //= XC-4.4-3 XID unrelated to any request
    //= XC-4.4-4 clear a request without a change
    fn on_update(&mut self, known: Known, pending_cleared: bool) {
        self.set(known);
        let cleared = |r: &Request| pending_cleared && r.pending && r.want.same_kind(&known);
        if self.request.as_ref().is_some_and(cleared) {
            self.request = None;
        }
    }

    //= XC-4.3-1 XID is that of the request
    //= XC-4.3-4 pending change is announced later
    fn on_response(&mut self, xid: u32, response: &Response<'_>) -> Result<(), BadResponse> {
        let asked = self.request.filter(|r| r.xid == xid && !r.pending);
        let request = asked.ok_or(BadResponse::Unasked)?;
        response.check(1).map_err(BadResponse::Coverage)?;
        match response.disposition(0) {
            Some(Disposition::Done) => {
                self.set(request.want);
                self.request = None;
            }
            Some(Disposition::Pending) => {
                self.request = Some(Request {
                    pending: true,
                    ..request
                });
            }
            Some(Disposition::Rejected) | None => self.request = None,
        }
        Ok(())
    }

    /// Notes a request that is about to be sent as REQ_XCHAR. Returns `false` if another one is
    /// unanswered or pending, or if the peer does not support the extension.
    #[must_use]
    pub fn try_request(&mut self, xid: u32, want: Known) -> bool {
        if self.unsupported || self.request.is_some() {
            return false;
        }
        self.request = Some(Request {
            xid,
            want,
            pending: false,
        });
        true
    }

    /// Notes that the peer has answered an operation of this extension with INVAL_OPTION. It counts
    /// as a rejection of every request (section 3).
    //= XC-3-3 peer does not support REQ_XCHAR
    //= XC-4-4 each operation may be unsupported
    //= XC-4.1-1 does not assume characteristics were noted
    pub fn on_unsupported(&mut self) {
        self.unsupported = true;
        self.request = None;
    }

    /// Returns the request that is unanswered or pending.
    pub const fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }

    /// Returns the most bytes that may be sent in one message. After a request for smaller Receives
    /// the smaller size counts, until the peer rejects the request or has changed its size (section
    /// 3.1).
    //= XC-3.1-3 asks for a smaller size
    pub fn send_limit(&self) -> u32 {
        match self.request.map(|r| r.want) {
            Some(Known::ReceiveBufferSize(want)) => self.receive_size.min(want),
            _ => self.receive_size,
        }
    }

    /// Returns whether a reply to the peer may be sent by Send With Invalidate. If not, plain Send
    /// must be used (section 3.2). The request must have had chunks, too.
    //= XC-3.2-1 requester not ready sent plain Sends
    //= XC-3.2-2 may be sent Send With Invalidate
    pub const fn may_invalidate(&self) -> bool {
        self.remote_invalidation
    }

    /// Notes a backward-direction request of this peer. It shows that the peer can receive the
    /// reply (section 3.3). A request with chunks shows general support.
    //= XC-3.3-2 backward request shows support
    pub fn on_backward_request(&mut self, has_chunks: bool) {
        let general = has_chunks || self.shown == Some(BackwardSupport::General);
        self.shown = Some(if general {
            BackwardSupport::General
        } else {
            BackwardSupport::SizeLimited
        });
    }

    /// Returns which backward-direction messages may be sent to the peer. UNKNOWN means the support
    /// that the peer's own requests have shown. Without such requests it means no support, unless
    /// the upper layer presumes support (`presumed`), as NFSv4.1 does.
    //= XC-3.3-1 UNKNOWN means no backward support
    pub const fn backward_support(&self, presumed: bool) -> BackwardSupport {
        match (self.backward, self.shown) {
            (BackwardSupport::Unknown, Some(shown)) => shown,
            (BackwardSupport::Unknown, None) if presumed => BackwardSupport::SizeLimited,
            (BackwardSupport::Unknown, None) => BackwardSupport::None,
            (said, _) => said,
        }
    }
}

impl Default for Peer {
    fn default() -> Self {
        Self::new()
    }
}
