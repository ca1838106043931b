// SPDX-License-Identifier: GPL-2.0

//! One message type for both versions, so that callers do not branch on them.

use super::encode::ReadListWriter;
use super::{
    peek, v1, v2, DecodeError, Direction, EncodeError, Limits, ListProc, Lists, Version, What,
};

/// What was wrong with an earlier message. Version two has every error that version one has.
pub use super::v2::ErrorBody;

/// A decoded message of either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    version: Version,
    xid: u32,
    credits: u32,
    direction: Option<Direction>,
    header_len: usize,
    body: Body<'a>,
}

/// What a message is for, in terms common to the versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// An RPC message, inline: RDMA_MSG, RDMA2_MSG.
    Msg {
        /// The chunk lists.
        lists: Lists<'a>,
        /// The RPC message, less what the read chunks stand for.
        payload: &'a [u8],
    },
    /// An RPC message in a chunk: RDMA_NOMSG, RDMA2_NOMSG.
    Nomsg {
        /// The chunk lists.
        lists: Lists<'a>,
    },
    /// An RPC message with padding: RDMA_MSGP, version one only.
    Msgp {
        /// Padding alignment in bytes.
        align: u32,
        /// Size in bytes at or above which opaque data is padded.
        thresh: u32,
        /// The chunk lists.
        lists: Lists<'a>,
        /// The RPC message with its padding.
        payload: &'a [u8],
    },
    /// A reply's read chunks have been read: RDMA_DONE, version one only.
    Done,
    /// An earlier message could not be processed.
    Error(ErrorBody),
    /// An optional operation: RDMA2_OPTIONAL, version two only.
    Optional {
        /// The operation.
        opttype: u32,
        /// Its data.
        optinfo: &'a [u8],
        /// All, part or nothing of an RPC message.
        payload: &'a [u8],
    },
}

impl<'a> Message<'a> {
    /// Decodes a message of either version.
    ///
    /// # Errors
    ///
    /// See [`v1::decode`] and [`v2::decode`]; [`What::Version`] for any other version.
    #[inline]
    pub fn decode(bytes: &'a [u8], limits: &Limits) -> Result<Self, DecodeError> {
        let version = peek(bytes)?.version;
        match Version::from_u32(version) {
            Some(Version::One) => v1::decode(bytes, limits).map(Self::from),
            Some(Version::Two) => v2::decode(bytes, limits).map(Self::from),
            None => Err(DecodeError::new(What::Version(version), 4)),
        }
    }

    /// The version of the message.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Transaction ID.
    pub const fn xid(&self) -> u32 {
        self.xid
    }

    /// Credits requested or granted, as sent.
    pub const fn credits(&self) -> u32 {
        self.credits
    }

    /// The direction that the header names, or that follows from the message type. `None` for
    /// version-one messages with chunk lists: there the RPC message tells.
    pub const fn direction(&self) -> Option<Direction> {
        self.direction
    }

    /// Length of the header in bytes.
    pub const fn header_len(&self) -> usize {
        self.header_len
    }

    /// What the message is for.
    pub const fn body(&self) -> &Body<'a> {
        &self.body
    }

    /// The chunk lists, if the message has any.
    pub const fn lists(&self) -> Option<&Lists<'a>> {
        match &self.body {
            Body::Msg { lists, .. } | Body::Nomsg { lists } | Body::Msgp { lists, .. } => {
                Some(lists)
            }
            Body::Done | Body::Error(_) | Body::Optional { .. } => None,
        }
    }

    /// The inline part of the RPC message; empty when there is none.
    pub const fn payload(&self) -> &'a [u8] {
        match self.body {
            Body::Msg { payload, .. }
            | Body::Msgp { payload, .. }
            | Body::Optional { payload, .. } => payload,
            Body::Nomsg { .. } | Body::Done | Body::Error(_) => &[],
        }
    }

    /// The direction of the message, from the header or else from the RPC message behind it.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] when header and RPC message disagree (version two, section 4.2.2), or
    /// when the XID of an inline RPC message differs from the header's (RFC 5666 section 4.1), or when
    /// a message that must carry an RPC message carries none (section 4.2.1).
    //= 5666-4.1-1 5666-4.1-6 V2-4.2.1-1 V2-4.2.2-2
    pub fn check_direction(&self) -> Result<Option<Direction>, Mismatch> {
        let rpc = match self.body {
            Body::Msg { payload, .. } | Body::Msgp { payload, .. } => payload,
            Body::Optional { payload, .. } => return self.check_partial(payload),
            Body::Nomsg { .. } | Body::Done | Body::Error(_) => return Ok(self.direction),
        };
        let xid = rpc.first_chunk().ok_or(Mismatch::NoMessage)?;
        if u32::from_be_bytes(*xid) != self.xid {
            return Err(Mismatch::Xid);
        }
        let direction = Direction::of_rpc(rpc).ok_or(Mismatch::Direction)?;
        match self.direction {
            Some(said) if said != direction => Err(Mismatch::Direction),
            _ => Ok(Some(direction)),
        }
    }
}

impl Message<'_> {
    /// Direction of an optional operation, behind which there may be the beginning of an RPC
    /// message, or any other part of one. It is a beginning if it starts with the same XID.
    //= V2-4.2.2-4
    fn check_partial(&self, rpc: &[u8]) -> Result<Option<Direction>, Mismatch> {
        let begins = rpc.first_chunk().map(|xid| u32::from_be_bytes(*xid)) == Some(self.xid);
        match (self.direction, Direction::of_rpc(rpc)) {
            (Some(said), Some(found)) if begins && said != found => Err(Mismatch::Direction),
            _ => Ok(self.direction),
        }
    }
}

/// How a header and the RPC message behind it can disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// There is no RPC message where there must be one.
    NoMessage,
    /// Their XIDs differ.
    Xid,
    /// Their directions differ, or the RPC message has none.
    Direction,
}

impl<'a> From<v1::Header<'a>> for Message<'a> {
    #[inline]
    fn from(h: v1::Header<'a>) -> Self {
        let (direction, body) = match *h.body() {
            v1::Body::Msg { lists, payload } => (None, Body::Msg { lists, payload }),
            v1::Body::Nomsg { lists } => (None, Body::Nomsg { lists }),
            v1::Body::Msgp {
                align,
                thresh,
                lists,
                payload,
            } => {
                let body = Body::Msgp {
                    align,
                    thresh,
                    lists,
                    payload,
                };
                (None, body)
            }
            v1::Body::Done => (Some(Direction::Call), Body::Done),
            v1::Body::Error(e) => (Some(Direction::Reply), Body::Error(e.into())),
        };
        Self {
            version: Version::One,
            xid: h.xid(),
            credits: h.credits(),
            direction,
            header_len: h.header_len(),
            body,
        }
    }
}

impl<'a> From<v2::Header<'a>> for Message<'a> {
    #[inline]
    fn from(h: v2::Header<'a>) -> Self {
        let body = match *h.body() {
            v2::Body::Msg { lists, payload, .. } => Body::Msg { lists, payload },
            v2::Body::Nomsg { lists, .. } => Body::Nomsg { lists },
            v2::Body::Error(e) => Body::Error(e),
            v2::Body::Optional {
                opttype,
                optinfo,
                payload,
                ..
            } => Body::Optional {
                opttype,
                optinfo,
                payload,
            },
        };
        Self {
            version: Version::Two,
            xid: h.xid(),
            credits: h.credits(),
            direction: Some(h.direction()),
            header_len: h.header_len(),
            body,
        }
    }
}

impl From<v1::ErrorBody> for ErrorBody {
    fn from(e: v1::ErrorBody) -> Self {
        match e {
            v1::ErrorBody::Vers { low, high } => Self::Vers { low, high },
            v1::ErrorBody::Chunk => Self::BadHeader,
        }
    }
}

impl DecodeError {
    /// What a responder answers to a message that it could not decode. `versions` is the
    /// inclusive range it supports.
    //= 5666-4.2-2 5666-4.2-5 V2-4.2.3-1
    pub const fn answer(&self, versions: (u32, u32)) -> ErrorBody {
        match self.what {
            What::Version(_) => ErrorBody::Vers {
                low: versions.0,
                high: versions.1,
            },
            _ => ErrorBody::BadHeader,
        }
    }
}

impl Version {
    /// Starts a header with chunk lists in this version. Version one has no place for the
    /// direction, which is then that of the RPC message alone.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    #[inline]
    pub fn begin(
        self,
        buf: &mut [u8],
        xid: u32,
        credits: u32,
        direction: Direction,
        proc: ListProc,
    ) -> Result<ReadListWriter<'_>, EncodeError> {
        match self {
            Self::One => v1::begin(buf, xid, credits, proc),
            Self::Two => v2::begin(buf, xid, credits, direction, proc),
        }
    }

    /// Writes an error in this version. [`ErrorBody::InvalidOption`] becomes ERR_CHUNK in
    /// version one, which has no optional operations. Returns the length.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    //= 5666-4.2-4
    pub fn error(
        self,
        buf: &mut [u8],
        xid: u32,
        credits: u32,
        error: ErrorBody,
    ) -> Result<usize, EncodeError> {
        match self {
            Self::One => {
                let error = match error {
                    ErrorBody::Vers { low, high } => v1::ErrorBody::Vers { low, high },
                    ErrorBody::BadHeader | ErrorBody::InvalidOption => v1::ErrorBody::Chunk,
                };
                v1::error(buf, xid, credits, error)
            }
            Self::Two => v2::error(buf, xid, credits, error),
        }
    }
}
