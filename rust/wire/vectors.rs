// SPDX-License-Identifier: GPL-2.0

//! Golden bytes, written by hand from the XDR. The KUnit suite and the host tests run them.
//!
//! Each group has one function that runs its vectors and returns the name of the first one that
//! fails.

pub mod cm_private;
#[cfg(RPCRDMA_LEGACY)]
pub mod conf_rdma;
pub mod error;
pub mod lower;
pub mod rpc;
pub mod single;
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

/// Runs all groups.
///
/// # Errors
///
/// The name of the first vector that is decoded or encoded wrongly.
#[cfg(any(test, fuzzing))]
pub fn check_all() -> Result<(), &'static str> {
    v1::check_decode()?;
    v1::check_encode()?;
    v1::check_refuse()?;
    v1::check_lengths()?;
    cm_private::check()?;
    conf_rdma::check()?;
    v2::check()?;
    lower::check()?;
    rpc::check()?;
    xchar::check()?;
    error::check()?;
    single::check()
}
