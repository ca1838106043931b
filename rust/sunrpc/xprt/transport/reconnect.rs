// SPDX-License-Identifier: GPL-2.0

//! Connecting and reconnecting: the operations of a transport that makes its own connections.

use super::super::handle::Xprt;
use super::super::rqst::Rqst;
use super::{ConnectError, Outage, Supported, Transport};

/// Connecting, reconnecting and supervision of the connection.
///
/// # Examples
///
/// ```ignore
/// impl Reconnect for Null {
///     fn connect(&self, xprt: &Xprt<Self>) -> Result<(), ConnectError> {
///         if self.refuse {
///             return Err(ConnectError::Refused);
///         }
///         xprt.reset_congestion();
///         Ok(())
///     }
/// }
/// ```
pub(crate) trait Reconnect: Transport<Reconnect = Supported> {
    /// Minimum RPC time-out, in seconds, that the NFS client can set in order to detect a dead
    /// server within its lease time.
    const TIMEOUT_MIN: u32 = 10;
    /// Maximum time from the start of one connection attempt to the start of the next, in seconds.
    const RECONNECT_MAX: u32 = 60;
    /// Seconds of idleness after which SUNRPC closes the connection.
    const IDLE_TIMEOUT: u32 = 300;
    /// Seconds between two calls of [`Self::check_liveness`]; 0 for none.
    const LIVENESS_INTERVAL: u32 = 0;

    /// Connects. Send lock held, `memalloc_nofs` scope.
    ///
    /// On success everything is in place for [`Rpc::send`](super::Rpc::send),
    /// [`Xprt::reset_congestion`] has been called, and SUNRPC regards the transport as connected
    /// when this returns. After an error [`Transport::close`] is called next, so this method may
    /// return with a partly established connection.
    ///
    /// Long waits should check [`Xprt::is_abandoned`] periodically, because umount waits for this
    /// method.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    fn connect(&self, xprt: &Xprt<Self>) -> Result<(), ConnectError>;

    /// Returns when the next connection attempt is to start, on the clock of `outage`. If that time
    /// has passed, the attempt starts at once. `random` is a fresh random number.
    ///
    /// Called when RPCs ask for a connection, except for the first attempt of an outage. Send lock
    /// held; must not sleep.
    fn next_attempt(&self, outage: &Outage, _random: u32) -> u32 {
        outage.attempt.saturating_add(5_000)
    }

    /// Returns when to retry after an attempt failed with `error`, on the clock of `outage`, or
    /// `None` to report the error to the waiting RPCs first. `random` is a fresh random number.
    /// Send lock held; must not sleep.
    fn retry_unreported(
        &self,
        _xprt: &Xprt<Self>,
        _error: ConnectError,
        _outage: &Outage,
        _random: u32,
    ) -> Option<u32> {
        None
    }

    /// Checks whether the peer still responds. Called every [`Self::LIVENESS_INTERVAL`] seconds
    /// while there is a connection, from a worker that does not hold the send lock:
    /// [`Transport::close`] may run at the same time.
    fn check_liveness(&self, _xprt: &Xprt<Self>) {}

    /// Handles the time-out of an RPC that waits for its reply. If `fails`, the RPC ends with this
    /// time-out, as on a soft mount. Otherwise SUNRPC sends the call again or continues to wait,
    /// either of which requires a new connection. The transport may have made that already. Must
    /// not sleep.
    fn timer(&self, xprt: &Xprt<Self>, _rqst: Rqst<'_, Self>, fails: bool) {
        if !fails {
            xprt.force_disconnect();
        }
    }

    /// Records that SUNRPC asked for a connection: [`Self::connect`] will be called in `delay`
    /// jiffies. Send lock held; must not sleep.
    fn connect_scheduled(&self, _xprt: &Xprt<Self>, _delay: usize) {}

    /// Records that the next call of [`Self::connect`] begins in `delay` milliseconds, whether
    /// SUNRPC has asked for it or [`Self::retry_unreported`] has. Send lock held; must not sleep.
    fn attempt_planned(&self, _xprt: &Xprt<Self>, _delay: u32) {}

    /// Records that SUNRPC shortened its time-outs for connecting and reconnecting, in jiffies.
    /// Must not sleep.
    fn timeouts_changed(&self, _xprt: &Xprt<Self>, _connect: usize, _reconnect: usize) {}
}
