// SPDX-License-Identifier: GPL-2.0

//! The transport's line of `/proc/self/mountstats`.

use kernel::bindings as k;
use kernel::seq_file::SeqFile;
use kernel::seq_print;

use super::transport::Transport;
use super::xprt::Xprt;

/// Where a transport writes its statistics; see [`Transport::stats`].
pub(crate) struct StatsWriter<'a, T: Transport> {
    pub(super) xprt: &'a Xprt<T>,
    pub(super) out: &'a SeqFile,
}

impl<T: Transport> StatsWriter<'_, T> {
    /// Writes the line: `xprt:`, the transport's name, the ten numbers that all transports have, and
    /// `more`.
    ///
    /// The ten: local port (0), binds, connects, seconds spent connecting, seconds of idleness,
    /// calls sent, replies received, replies without a call, and the sums over all calls sent of the
    /// number of calls on the wire and of the length of the backlog.
    pub(crate) fn line(&self, more: &[u64]) {
        let xprt = self.xprt.as_raw();
        // SAFETY: The transport is alive. These are counters that SUNRPC, too, reads without a lock.
        let (stat, last_used) = unsafe { (&(*xprt).stat, (*xprt).last_used) };
        let hz = u64::from(k::HZ);
        let idle = if self.xprt.is_connected() {
            super::connect::now().wrapping_sub(last_used) as u64 / hz
        } else {
            0
        };
        seq_print!(
            self.out,
            "\txprt:\t{} 0 {} {} {} {} {} {} {} {} {}",
            T::PROTO,
            stat.bind_count,
            stat.connect_count,
            stat.connect_time as u64 / hz,
            idle,
            stat.sends,
            stat.recvs,
            stat.bad_xids,
            stat.req_u,
            stat.bklog_u
        );
        for value in more {
            seq_print!(self.out, " {}", value);
        }
        seq_print!(self.out, "\n");
    }
}
