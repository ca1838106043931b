// SPDX-License-Identifier: GPL-2.0

//! What is known of peers from earlier connections: which of them speak version one only.
//!
//! One table serves all transports of the module and outlives them, so that a mount with several
//! connections, or one that connects again, tries version two once.

use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};
use kernel::time::{Instant, Monotonic};

use crate::mem::{NetRef, SockAddr};
use crate::observe::debugfs::Table;
use crate::proto::peers::{Entry, Key, Peers, CAPACITY, TTL_MS};
use crate::proto::version::Memory;

/// The table of the module. All methods are for process context and do not sleep.
#[pin_data]
pub(crate) struct PeerTable {
    #[pin]
    peers: SpinLock<Peers>,
    /// The table's time begins here.
    made: Instant<Monotonic>,
}

impl PeerTable {
    /// Makes an empty table. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                peers <- new_spinlock!(Peers::new(), "rpcrdma::PeerTable::peers"),
                made: Instant::now(),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns whether version one has to be used with a peer.
    pub(crate) fn is_one_only(&self, net: NetRef<'_>, peer: &SockAddr) -> bool {
        self.peers.lock().is_one_only(&key(net, peer), self.now())
    }

    /// Notes what a connection has shown about a peer.
    pub(crate) fn note(&self, net: NetRef<'_>, peer: &SockAddr, memory: Memory) {
        let now = self.now();
        self.peers.lock().note(&key(net, peer), memory, now, TTL_MS);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.made.elapsed().as_millis()).unwrap_or(0)
    }
}

impl Table for PeerTable {
    /// Writes for each peer: network namespace, address, port, what is known, and the seconds until
    /// that is forgotten.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = self.now();
        for n in 0..CAPACITY {
            // The formatter may sleep, so it works on a copy.
            let entry = self.peers.lock().entries(now).nth(n).copied();
            match entry {
                Some(entry) => line(f, &entry, now)?,
                None => break,
            }
        }
        Ok(())
    }

    fn clear(&self) {
        self.peers.lock().clear();
    }
}

/// Returns the name of a peer in the table.
fn key(net: NetRef<'_>, peer: &SockAddr) -> Key {
    Key {
        net: net.cookie(),
        address: peer.ip(),
        port: peer.port(),
    }
}

/// Writes the line of one peer.
fn line(f: &mut fmt::Formatter<'_>, entry: &Entry, now: u64) -> fmt::Result {
    let Key { net, address, port } = entry.key;
    let address = core::net::Ipv6Addr::from(address).to_canonical();
    let known = if entry.one_only { "version-1" } else { "doubt" };
    let seconds = entry.until.saturating_sub(now).div_ceil(1000);
    writeln!(f, "{net} {address} {port} {known} {seconds}")
}
