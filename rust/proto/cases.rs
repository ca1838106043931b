// SPDX-License-Identifier: GPL-2.0

//! Tables of decisions. The KUnit suite and the host tests run them.
//!
//! Each group has one function that runs its cases and returns the name of the first one that
//! fails.

pub mod answers;
#[cfg(RPCRDMA_LEGACY)]
pub mod arguments;
pub mod backward;
pub mod conn;
pub mod flow;
pub mod grant;
pub mod hostile;
pub mod intake;
#[cfg(RPCRDMA_LEGACY)]
pub mod legacy;
pub mod operations;
#[cfg(RPCRDMA_LEGACY)]
pub mod padded;
mod pair;
pub mod plan;
pub mod reassembly;
pub mod reply;
pub mod respond;
#[cfg(RPCRDMA_LEGACY)]
pub mod service;
pub mod session;
pub mod settings;
pub mod single;
pub mod terms;
pub mod version;
pub mod window;
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
/// The name of the first case with a wrong decision.
#[cfg(any(test, fuzzing))]
pub fn check_all() -> Result<(), &'static str> {
    flow::check_credits()?;
    flow::check_inline()?;
    flow::check_backoff()?;
    flow::check_liveness()?;
    backward::check()?;
    conn::check()?;
    plan::check()?;
    reply::check()?;
    reply::check_invalidate()?;
    reassembly::check()?;
    intake::check()?;
    respond::check()?;
    single::check()?;
    grant::check()?;
    hostile::check()?;
    hostile::check_reasons()?;
    version::check()?;
    session::check()?;
    terms::check()?;
    operations::check()?;
    settings::check()?;
    answers::check()?;
    xchar::check_peer()?;
    xchar::check_receives()?;
    legacy::check_done()?;
    legacy::check_padding()?;
    legacy::check_conf()?;
    legacy::check_round_up()?;
    arguments::check()?;
    legacy::check_reads()?;
    padded::check()?;
    service::check()
}
