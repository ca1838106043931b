// SPDX-License-Identifier: GPL-2.0

//! The transport's line of `/proc/self/mountstats`, and what SUNRPC counts for it.

use core::fmt;

use kernel::seq_file::SeqFile;
use kernel::seq_print;

use super::handle::Xprt;
use super::time::{now, HZ};
use super::transport::Transport;

/// What SUNRPC counts for every transport (`struct rpc_xprt`, member `stat`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// Times that rpcbind was asked for the port.
    pub(crate) binds: u64,
    /// Connections made.
    pub(crate) connects: u64,
    /// Seconds spent waiting for connections.
    pub(crate) connect_secs: u64,
    /// Seconds since the last use; zero while not connected.
    pub(crate) idle_secs: u64,
    /// Calls sent.
    pub(crate) sends: u64,
    /// Replies received.
    pub(crate) recvs: u64,
    /// Replies for which no call was waiting.
    pub(crate) bad_xids: u64,
    /// Sum over all calls sent of the number of calls on the wire.
    pub(crate) req_u: u64,
    /// Sum over all calls sent of the length of the backlog.
    pub(crate) bklog_u: u64,
}

impl<T: Transport> Xprt<T> {
    /// SUNRPC's counters. Each is true by itself; they may be of slightly different moments.
    pub(crate) fn counts(&self) -> Counts {
        let xprt = self.as_raw();
        // SAFETY: The transport is alive. These are counters that SUNRPC, too, reads without a lock.
        let (stat, last_used) = unsafe { (&(*xprt).stat, (*xprt).last_used) };
        // CAST: small.
        let hz = HZ as u64;
        // CAST: `unsigned long` has 64 bits at most.
        let idle = now().wrapping_sub(last_used) as u64 / hz;
        Counts {
            binds: stat.bind_count as u64,
            connects: stat.connect_count as u64,
            connect_secs: stat.connect_time as u64 / hz,
            idle_secs: if self.is_connected() { idle } else { 0 },
            sends: stat.sends as u64,
            recvs: stat.recvs as u64,
            bad_xids: stat.bad_xids as u64,
            req_u: stat.req_u,
            bklog_u: stat.bklog_u,
        }
    }
}

/// Where a transport writes its statistics, see [`Transport::stats`].
pub(crate) struct StatsWriter<'a>(pub(super) &'a SeqFile);

impl fmt::Write for StatsWriter<'_> {
    /// Never fails: `seq_file` tries again with a larger buffer by itself.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        seq_print!(self.0, "{}", text);
        Ok(())
    }
}
