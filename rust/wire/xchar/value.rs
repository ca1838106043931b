// SPDX-License-Identifier: GPL-2.0

//! One characteristic: `struct xcharval`, section 3.

use super::super::cursor::Cursor;
use super::super::{DecodeError, What};

/// Number of a characteristic: `xcharid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
//= XC-6.1-1 not taken to be small
pub struct Id(pub u32);

impl Id {
    /// XCHAR_RBSIZ, section 3.1.
    pub const RECEIVE_BUFFER_SIZE: Self = Self(1);
    /// XCHAR_RQREMINV, section 3.2.
    pub const REMOTE_INVALIDATION: Self = Self(2);
    /// XCHAR_BRS, section 3.3.
    pub const BACKWARD_SUPPORT: Self = Self(3);
    /// The threshold that the sender prefers. It is this module's own, in the range for experiments
    /// (section 6.2), and has this meaning only between peers whose private data say so.
    pub const PREFERRED_THRESHOLD: Self = Self(0xffff_ffb5);
}

/// Backward Request Support: `enum bkrqsup`, section 3.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum BackwardSupport {
    /// The support has to be determined in another way.
    Unknown = 0,
    /// No backward-direction messages.
    None = 1,
    /// Backward-direction messages that fit inline, without chunks (RFC 8167). The default of Table
    /// 1.
    #[default]
    SizeLimited = 2,
    /// Backward-direction messages like forward ones.
    General = 3,
}

impl BackwardSupport {
    /// Returns the level with this number.
    pub const fn from_u32(n: u32) -> Option<Self> {
        match n {
            0 => Some(Self::Unknown),
            1 => Some(Self::None),
            2 => Some(Self::SizeLimited),
            3 => Some(Self::General),
            _ => None,
        }
    }
}

/// A characteristic and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Characteristic<'a> {
    /// The sender has posted Receives of at least this many bytes (section 3.1).
    ReceiveBufferSize(u32),
    /// As a requester, the sender is prepared for Send With Invalidate (section 3.2).
    RemoteInvalidation(bool),
    /// The sender's support of backward-direction messages (section 3.3).
    BackwardSupport(BackwardSupport),
    /// The longest message that the sender prefers to receive, and sends inline to a peer that can
    /// receive it. See [`Id::PREFERRED_THRESHOLD`].
    PreferredThreshold(u32),
    /// A characteristic that this module does not know. Experimental ones are among these.
    Other {
        /// Its number. In a decoded value it is never that of a known characteristic.
        id: Id,
        /// Its data, uninterpreted.
        data: &'a [u8],
    },
}

impl<'a> Characteristic<'a> {
    /// Returns the number of the characteristic.
    pub const fn id(&self) -> Id {
        match self {
            Self::ReceiveBufferSize(_) => Id::RECEIVE_BUFFER_SIZE,
            Self::RemoteInvalidation(_) => Id::REMOTE_INVALIDATION,
            Self::BackwardSupport(_) => Id::BACKWARD_SUPPORT,
            Self::PreferredThreshold(_) => Id::PREFERRED_THRESHOLD,
            Self::Other { id, .. } => *id,
        }
    }

    /// Decodes one `xcharval`.
    pub(super) fn decode(c: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let id = Id(c.word()?);
        let at = c.offset();
        let data = c.opaque()?;
        Self::interpret(id, data).ok_or_else(|| DecodeError::new(What::Characteristic(id.0), at))
    }

    /// Interprets opaque data by the type that belongs to the id. Returns `None` if they are too
    /// short, or not a value of that type. Bytes behind the value are ignored (section 2.1).
    //= XC-2.1-2 data not of its type
    //= XC-2.1-3 known characteristic with too few data
    //= XC-6.2-1 never taken for known ones
    fn interpret(id: Id, data: &'a [u8]) -> Option<Self> {
        let word = || data.first_chunk().copied().map(u32::from_be_bytes);
        match id {
            Id::RECEIVE_BUFFER_SIZE => word().map(Self::ReceiveBufferSize),
            Id::REMOTE_INVALIDATION => match word()? {
                0 => Some(Self::RemoteInvalidation(false)),
                1 => Some(Self::RemoteInvalidation(true)),
                _ => None,
            },
            Id::BACKWARD_SUPPORT => word()
                .and_then(BackwardSupport::from_u32)
                .map(Self::BackwardSupport),
            // Other implementations may use the number differently.
            Id::PREFERRED_THRESHOLD if data.len() == 4 => word().map(Self::PreferredThreshold),
            _ => Some(Self::Other { id, data }),
        }
    }
}
