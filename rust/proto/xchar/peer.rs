// SPDX-License-Identifier: GPL-2.0

//! The peer's characteristics, and requests for Receives of another size: sections 3 and 4.

use super::super::super::wire::v2::{DEFAULT_INLINE, FIRST_MESSAGE_MAX};
use super::super::super::wire::xchar::{
    BackwardSupport, Characteristic, Disposition, OpType, Operation, Response, Spec, Subset,
};

/// A request to change the size of the peer's Receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// XID of the REQ_XCHAR.
    pub xid: u32,
    /// The size wanted, in bytes.
    pub want: u32,
    /// Whether the peer has promised to change it later.
    pub pending: bool,
}

/// How an operation of the peer breaks the rules. The rest of the operation is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A RESP_XCHAR, but no request with this XID is unanswered.
    Unasked,
    /// The subsets of a RESP_XCHAR overlap, omit, or exceed the elements of the request; this is
    /// the first such element.
    Coverage(u32),
    /// A receive buffer size below 1024 bytes. Every peer had to receive messages of this length
    /// before the version was settled. The size is ignored.
    TooSmall(u32),
}

/// Why a request is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// The peer does not support REQ_XCHAR, or does not expect its Receives to change.
    Refused,
    /// An earlier request is unanswered or pending.
    Busy,
}

/// The characteristics of one peer on this connection: announced, or default.
///
/// At most one request is unanswered or pending at a time.
///
/// # Invariants
///
/// `receive_size` and the size that is requested are at least [`FIRST_MESSAGE_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    receive_size: u32,
    remote_invalidation: bool,
    backward: BackwardSupport,
    /// The threshold that the peer prefers. `None` if its private data do not promise to announce
    /// it.
    preferred: Option<u32>,
    /// The peer does not expect its Receives to change.
    fixed: bool,
    request: Option<Request>,
    /// The operations that the peer has answered by an error, by [`bit`].
    unsupported: u32,
}

impl Peer {
    /// Returns the defaults of Table 1, for a peer that has announced nothing.
    //= XC-3-1 defaults assumed of a peer
    pub const fn new() -> Self {
        Self {
            // INVARIANT: the default is 4096.
            receive_size: DEFAULT_INLINE,
            remote_invalidation: false,
            backward: BackwardSupport::SizeLimited,
            preferred: None,
            fixed: false,
            request: None,
            unsupported: 0,
        }
    }

    /// Returns the characteristics of a peer that has announced nothing but, if anything, the sizes
    /// of its Sends and Receives, in private data.
    //= V2-2.3-4 may tell the threshold
    pub fn begin(sizes: Option<(u32, u32)>) -> Self {
        let (send, receive) = sizes.unzip();
        Self {
            // INVARIANT: by the comparison.
            receive_size: receive.map_or(DEFAULT_INLINE, |n| n.max(FIRST_MESSAGE_MAX)),
            preferred: send,
            ..Self::new()
        }
    }

    /// Returns the threshold that the peer prefers, if it announces one.
    pub const fn preferred(&self) -> Option<u32> {
        self.preferred
    }

    /// Applies a decoded operation of the peer. The caller decides on requests of the peer (see
    /// [`super::Receives::on_request`]); they have no effect here.
    ///
    /// # Errors
    ///
    /// See [`Fault`].
    //= XC-4-2 sends REQ_XCHAR supports RESP_XCHAR
    //= XC-4-3 supports RESP_XCHAR or UPD_XCHAR
    pub fn on_operation(&mut self, xid: u32, op: &Operation<'_>) -> Result<(), Fault> {
        match op {
            Operation::Init { start, no_change } => self.on_init(start, no_change),
            Operation::Request { .. } => Ok(()),
            Operation::Response(response) => self.on_response(xid, response),
            Operation::Update {
                now,
                pending_cleared,
            } => self.on_update(now, *pending_cleared),
        }
    }

    //= XC-4.1-3 unknown characteristics are ignored
    //= XC-4.1-5 not expected to change
    fn on_init(&mut self, start: &Spec<'_>, no_change: &Subset<'_>) -> Result<(), Fault> {
        let mut fault = Ok(());
        for (n, value) in (0..).zip(start.values()) {
            fault = fault.and(self.set(&value));
            self.fixed |= is_size(&value) && no_change.contains(n);
        }
        fault
    }

    //= XC-2.1-4 unknown characteristics are skipped without error
    //= XC-3.1-7 size is at least 1024
    //= XC-4.3-3 change done counts from then
    fn set(&mut self, value: &Characteristic<'_>) -> Result<(), Fault> {
        match *value {
            Characteristic::ReceiveBufferSize(n) if n < FIRST_MESSAGE_MAX => {
                return Err(Fault::TooSmall(n));
            }
            // INVARIANT: by the comparison.
            Characteristic::ReceiveBufferSize(n) => self.receive_size = n,
            Characteristic::RemoteInvalidation(b) => self.remote_invalidation = b,
            Characteristic::BackwardSupport(l) => self.backward = l,
            // A peer that has not said what the number means may use it for something else.
            Characteristic::PreferredThreshold(n) => {
                self.preferred = self.preferred.and(Some(n.max(DEFAULT_INLINE)));
            }
            Characteristic::Other { .. } => {}
        }
        Ok(())
    }

    //= XC-4.4-1 UPD_XCHAR may clear pending request
    //= XC-4.4-3 XID unrelated to any request
    //= XC-4.4-4 clear a request without a change
    fn on_update(&mut self, now: &Characteristic<'_>, pending_cleared: bool) -> Result<(), Fault> {
        if pending_cleared && is_size(now) {
            self.request = self.request.filter(|request| !request.pending);
        }
        self.set(now)
    }

    //= XC-4.3-1 XID is that of the request
    //= XC-4.3-4 pending change is announced later
    fn on_response(&mut self, xid: u32, response: &Response<'_>) -> Result<(), Fault> {
        let asked = self.request.filter(|r| r.xid == xid && !r.pending);
        let request = asked.ok_or(Fault::Unasked)?;
        response.check(1).map_err(Fault::Coverage)?;
        self.request = None;
        match response.disposition(0) {
            Some(Disposition::Done) => {
                // INVARIANT: the size that was requested is no smaller.
                self.receive_size = request.want;
                Ok(())
            }
            Some(Disposition::Pending) => {
                self.request = Some(Request {
                    pending: true,
                    ..request
                });
                Ok(())
            }
            Some(Disposition::Rejected) | None => Ok(()),
        }
    }

    /// Records a request for Receives of `want` bytes that will be sent as REQ_XCHAR. From now on a
    /// smaller size bounds our own Sends, including those of calls prepared earlier.
    ///
    /// # Errors
    ///
    /// See [`NotSent`].
    pub fn try_request(&mut self, xid: u32, want: u32) -> Result<(), NotSent> {
        if self.fixed || !self.supports(OpType::Request) {
            return Err(NotSent::Refused);
        }
        if self.request.is_some() {
            return Err(NotSent::Busy);
        }
        self.request = Some(Request {
            xid,
            // INVARIANT: no smaller size is requested.
            want: want.max(FIRST_MESSAGE_MAX),
            pending: false,
        });
        Ok(())
    }

    /// Records that the peer has answered an operation with INVAL_OPTION or BAD_HEADER. That counts
    /// as a rejection of a request (section 3).
    //= XC-3-3 peer does not support REQ_XCHAR
    //= XC-4.1-1 does not assume characteristics were noted
    pub fn on_unsupported(&mut self, op: OpType) {
        self.unsupported |= bit(op);
        if op == OpType::Request {
            self.request = None;
        }
    }

    /// Returns whether the peer may support an operation. Each operation is OPTIONAL, but a peer
    /// without INIT_XCHAR supports none (section 4). RESP_XCHAR is sent only to a peer that has
    /// sent a request, and must support it.
    //= XC-4-4 each operation may be unsupported
    pub const fn supports(&self, op: OpType) -> bool {
        let refused = self.unsupported & (bit(op) | bit(OpType::Init)) != 0;
        matches!(op, OpType::Response) || !refused
    }

    /// Returns the request that is unanswered or pending.
    pub const fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }

    /// Returns the maximum length of a message that may be sent. After a request for smaller
    /// Receives the smaller size counts, until the peer rejects the request or has changed its size
    /// (section 3.1).
    //= XC-3.1-3 asks for a smaller size
    pub fn send_limit(&self) -> u32 {
        let wanted = self.request.map_or(u32::MAX, |request| request.want);
        self.receive_size.min(wanted)
    }

    /// Returns whether a reply to the peer may be sent by Send With Invalidate. If not, plain Send
    /// must be used (section 3.2). The request must also have had chunks.
    //= XC-3.2-1 requester not ready sent plain Sends
    //= XC-3.2-2 may be sent Send With Invalidate
    pub const fn may_invalidate(&self) -> bool {
        self.remote_invalidation
    }

    /// Returns which backward-direction messages may be sent to the peer. UNKNOWN means no support,
    /// unless the upper layer presumes support (`presumed`), as NFSv4.1 does.
    //= XC-3.3-1 UNKNOWN means no backward support
    pub const fn backward_support(&self, presumed: bool) -> BackwardSupport {
        match self.backward {
            BackwardSupport::Unknown if presumed => BackwardSupport::SizeLimited,
            BackwardSupport::Unknown => BackwardSupport::None,
            said => said,
        }
    }
}

/// Returns whether a characteristic is the size of Receives.
const fn is_size(value: &Characteristic<'_>) -> bool {
    matches!(value, Characteristic::ReceiveBufferSize(_))
}

/// Returns the bit that stands for an operation in a set of operations.
const fn bit(op: OpType) -> u32 {
    // The numbers are small.
    1u32.wrapping_shl(op.number())
}
