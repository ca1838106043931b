// SPDX-License-Identifier: GPL-2.0

//! SUNRPC's counters of a transport.

use kernel::fmt;
use kernel::prelude::*;

use super::super::time::{now, HZ};
use super::handle::Xprt;
use super::transport::Transport;
use crate::compat::casts::usize_as_u64;

/// The counters that SUNRPC keeps for every transport (`struct rpc_xprt`, member `stat`).
///
/// Displayed as the values with which each transport's line of `/proc/self/mountstats` begins,
/// after its protocol: local port (0), then the counters in the order of the fields.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Number of the transport, as in `/sys/kernel/sunrpc`. Not displayed.
    pub(crate) xprt: u32,
    /// Number of queries to rpcbind for the port.
    pub(crate) binds: u64,
    /// Number of connections made.
    pub(crate) connects: u64,
    /// Seconds spent waiting for connections.
    pub(crate) connect_secs: u64,
    /// Seconds since the last use; zero while not connected.
    pub(crate) idle_secs: u64,
    /// Number of calls sent.
    pub(crate) sends: u64,
    /// Number of replies received.
    pub(crate) recvs: u64,
    /// Number of replies for which no call was waiting.
    pub(crate) bad_xids: u64,
    /// Sum over all calls sent of the number of calls in flight.
    pub(crate) req_u: u64,
    /// Sum over all calls sent of the length of the backlog.
    pub(crate) bklog_u: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (binds, connects) = (self.binds, self.connects);
        f.write_fmt(fmt!("0 {binds} {connects} {}", self.connect_secs))?;
        f.write_fmt(fmt!(" {} {} {}", self.idle_secs, self.sends, self.recvs))?;
        f.write_fmt(fmt!(" {} {} {}", self.bad_xids, self.req_u, self.bklog_u))
    }
}

impl<T: Transport> Xprt<T> {
    /// Reads SUNRPC's counters. They are not read atomically: two counters may be of slightly
    /// different times.
    pub(crate) fn counts(&self) -> Counts {
        let xprt = self.as_raw();
        // SAFETY: The transport is alive. SUNRPC reads these counters without a lock as well.
        let (stat, last_used, id) = unsafe { (&(*xprt).stat, (*xprt).last_used, (*xprt).id) };
        let secs = |jiffies: usize| usize_as_u64(jiffies / HZ);
        let idle = secs(now().wrapping_sub(last_used));
        Counts {
            xprt: id,
            binds: usize_as_u64(stat.bind_count),
            connects: usize_as_u64(stat.connect_count),
            connect_secs: secs(stat.connect_time),
            idle_secs: if self.is_connected() { idle } else { 0 },
            sends: usize_as_u64(stat.sends),
            recvs: usize_as_u64(stat.recvs),
            bad_xids: usize_as_u64(stat.bad_xids),
            req_u: stat.req_u,
            bklog_u: stat.bklog_u,
        }
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_sunrpc_stats)]
mod tests {
    use super::*;
    use crate::text::StackString;

    #[test]
    fn each_counter_is_displayed_in_its_place() {
        let counts = Counts {
            xprt: 1,
            binds: 2,
            connects: 3,
            connect_secs: 4,
            idle_secs: 5,
            sends: 6,
            recvs: 7,
            bad_xids: 8,
            req_u: 9,
            bklog_u: 10,
        };
        assert!(StackString::<64>::new(&fmt!("{counts}")).as_bytes() == b"0 2 3 4 5 6 7 8 9 10");
    }
}
