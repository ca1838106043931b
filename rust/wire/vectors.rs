// SPDX-License-Identifier: GPL-2.0

//! Golden bytes, written by hand from the XDR, for the KUnit suite and the host tests alike.
//!
//! Each group has one function that goes through its vectors and names the first one that fails.

pub mod cm_private;
pub mod conf_rdma;
pub mod v1;
pub mod v2;
pub mod xchar;

/// Fails with a message unless a condition holds.
macro_rules! ensure {
    ($cond:expr, $what:expr) => {
        if !$cond {
            return Err($what);
        }
    };
}
use ensure;

/// All groups, one after the other.
///
/// # Errors
///
/// The name of the first vector that is decoded or encoded otherwise than it should.
pub fn check_all() -> Result<(), &'static str> {
    v1::check_decode()?;
    v1::check_encode()?;
    v1::check_refuse()?;
    v1::check_lengths()?;
    cm_private::check()?;
    conf_rdma::check()?;
    v2::check()?;
    xchar::check()
}
