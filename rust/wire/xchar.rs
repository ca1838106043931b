// SPDX-License-Identifier: GPL-2.0

//! Transport characteristics, an extension to version two: draft-dnoveck-nfsv4-rpcrdma-xcharext-01.
//!
//! Four optional operations ([`super::v2`]) carry them. Their data:
//!
//! | opttype | operation | data |
//! | --- | --- | --- |
//! | 1 | INIT_XCHAR | `start: xcharspec, nochg: xcharsubset` |
//! | 2 | REQ_XCHAR | `want: xcharspec` |
//! | 3 | RESP_XCHAR | `done, rej, pend: xcharsubset` |
//! | 4 | UPD_XCHAR | `now: xcharval, pendclr: bool` |
//!
//! An `xcharspec` is an array of characteristics, a characteristic an id with opaque data, an
//! `xcharsubset` a bit mask over the elements of an earlier `xcharspec`. Unknown ids are accepted.
//! A known id with data that are not of its type is refused (section 2.1).

mod encode;
mod operation;
mod spec;
mod subset;
pub mod value;

pub use encode::{init, request, respond, update, Initial};
pub use operation::{OpType, Operation};
pub use spec::Spec;
pub use subset::{Disposition, Response, Subset};
pub use value::{BackwardSupport, Characteristic};
