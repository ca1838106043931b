// SPDX-License-Identifier: GPL-2.0

//! The four operations, section 4.

use super::super::cursor::Cursor;
use super::super::DecodeError;
use super::{Characteristic, Response, Spec, Subset};

/// Operation codes of this extension: values of `rdma_opttype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum OpType {
    /// ROPT_INITXCH.
    Init = 1,
    /// ROPT_REQXCH.
    Request = 2,
    /// ROPT_RESPXCH.
    Response = 3,
    /// ROPT_UPDXCH.
    Update = 4,
}

impl OpType {
    /// Returns the operation with this code. A responder answers any other code with
    /// RDMA2_ERR_INVAL_OPTION (version two, section 3.1).
    //= V2-3.3-1 all are known, or none
    pub const fn from_u32(n: u32) -> Option<Self> {
        match n {
            1 => Some(Self::Init),
            2 => Some(Self::Request),
            3 => Some(Self::Response),
            4 => Some(Self::Update),
            _ => None,
        }
    }

    /// Returns the code in `rdma_opttype`.
    pub const fn number(self) -> u32 {
        // CAST: the discriminants of a `repr(u32)` enum.
        self as u32
    }
}

/// A decoded operation. None of them carries an RPC message (Table 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// INIT_XCHAR: the sender's characteristics, and the ones that it will not change.
    Init {
        /// The characteristics.
        start: Spec<'a>,
        /// The ones that are not expected to change while the connection lasts.
        no_change: Subset<'a>,
    },
    /// REQ_XCHAR: the sender wants the receiver to change its characteristics.
    Request {
        /// The values wanted.
        want: Spec<'a>,
    },
    /// RESP_XCHAR: the outcome of the request with the same XID.
    Response(Response<'a>),
    /// UPD_XCHAR: a characteristic of the sender has changed.
    Update {
        /// The new value.
        now: Characteristic<'a>,
        /// Whether a request to change it is no longer pending.
        pending_cleared: bool,
    },
}

impl<'a> Operation<'a> {
    /// Decodes the data of an optional operation. Returns `Ok(None)` for an operation that this
    /// extension does not define. Offsets in errors count from the start of `optinfo`.
    ///
    /// # Errors
    ///
    /// A [`DecodeError`] that names the first item that is truncated or malformed, or bytes after
    /// the last item.
    pub fn decode(opttype: u32, optinfo: &'a [u8]) -> Result<Option<Self>, DecodeError> {
        let Some(op) = OpType::from_u32(opttype) else {
            return Ok(None);
        };
        let mut c = Cursor::new(optinfo);
        let operation = match op {
            OpType::Init => Self::decode_init(&mut c)?,
            OpType::Request => Self::Request {
                want: Spec::decode(&mut c)?,
            },
            OpType::Response => Self::Response(Response {
                done: Subset::decode(&mut c)?,
                rejected: Subset::decode(&mut c)?,
                pending: Subset::decode(&mut c)?,
            }),
            OpType::Update => Self::Update {
                now: Characteristic::decode(&mut c)?,
                pending_cleared: c.boolean()?,
            },
        };
        c.end()?;
        Ok(Some(operation))
    }

    fn decode_init(c: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let start = Spec::decode(c)?;
        let no_change = Subset::decode(c)?;
        Ok(Self::Init { start, no_change })
    }
}
