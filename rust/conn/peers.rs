// SPDX-License-Identifier: GPL-2.0

//! The module's table of peers that speak version one only, and its file in debugfs.
//!
//! [`proto::peers`](crate::proto::peers) decides. The table serves all client transports and
//! outlives them.

use kernel::debugfs::Reader;
use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};
use kernel::time::{Instant, Monotonic};
use kernel::uaccess::UserSliceReader;

use crate::mem::{Net, SockAddr};
use crate::proto::peers::{Entry, Key, Peers, CAPACITY, TTL_MS};
use crate::proto::version::Memory;

/// The table of the module. All methods are for process context and do not sleep.
#[pin_data]
pub(crate) struct PeerTable {
    #[pin]
    peers: SpinLock<Peers>,
    /// The origin of the table's time.
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

    /// Returns whether version one must be used with a peer.
    pub(crate) fn is_one_only(&self, net: &Net, peer: &SockAddr) -> bool {
        self.peers
            .lock()
            .is_one_only(&key(net, peer), super::millis(self.made))
    }

    /// Stores the knowledge that a connection has gained about a peer.
    pub(crate) fn note(&self, net: &Net, peer: &SockAddr, memory: Memory) {
        let now = super::millis(self.made);
        self.peers.lock().note(&key(net, peer), memory, now, TTL_MS);
    }
}

impl fmt::Display for PeerTable {
    /// Writes for each peer: network namespace, address, port, version, and the seconds until the
    /// entry expires.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = super::millis(self.made);
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
}

impl Reader for PeerTable {
    /// Clears the table on any write. Does not sleep.
    fn read_from_slice(&self, _: &mut UserSliceReader) -> Result {
        self.peers.lock().clear();
        Ok(())
    }
}

/// Returns the name of a peer in the table.
fn key(net: &Net, peer: &SockAddr) -> Key {
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

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_conn_peers)]
mod tests {
    use super::*;
    use crate::text::StackString;

    const ADDRESS: [u8; 4] = [192, 0, 2, 1];

    /// Returns whether version one must be used with the peer at `ADDRESS` and `port`.
    fn is_one_only(table: &PeerTable, port: u16) -> bool {
        table.is_one_only(Net::init(), &SockAddr::new(ADDRESS, port))
    }

    fn note(table: &PeerTable, port: u16, memory: Memory) {
        table.note(Net::init(), &SockAddr::new(ADDRESS, port), memory);
    }

    #[test]
    fn a_server_is_known_by_its_address_and_port() -> Result {
        let table = PeerTable::new()?;
        assert!(!is_one_only(&table, 20049));
        note(&table, 20049, Memory::OneOnly);
        assert!(is_one_only(&table, 20049) && !is_one_only(&table, 20050));
        let other = SockAddr::new([192, 0, 2, 2], 20049);
        assert!(!table.is_one_only(Net::init(), &other));
        note(&table, 20049, Memory::Forget);
        assert!(!is_one_only(&table, 20049));
        Ok(())
    }

    #[test]
    fn doubts_of_one_incident_count_once() -> Result {
        let table = PeerTable::new()?;
        note(&table, 20049, Memory::Doubt);
        note(&table, 20049, Memory::Doubt);
        assert!(!is_one_only(&table, 20049));
        Ok(())
    }

    #[test]
    fn the_file_has_a_line_for_each_server() -> Result {
        let table = PeerTable::new()?;
        note(&table, 20049, Memory::OneOnly);
        note(&table, 20050, Memory::Doubt);
        let shown = StackString::<128>::new(&fmt!("{}", *table));
        let mut lines = shown.as_bytes().split(|byte| *byte == b'\n');
        let net = Net::init().cookie();
        for known in ["20049 version-1", "20050 doubt"] {
            let expected = StackString::<64>::new(&fmt!("{net} 192.0.2.1 {known} "));
            let seconds = lines
                .next()
                .and_then(|line| line.strip_prefix(expected.as_bytes()));
            assert!(seconds.is_some_and(|text| !text.is_empty() && text.len() <= 3));
        }
        assert!(lines.next() == Some(&[][..]) && lines.next().is_none());
        Ok(())
    }

    #[test]
    fn an_administrator_can_clear_the_table() -> Result {
        let table = PeerTable::new()?;
        note(&table, 20049, Memory::OneOnly);
        table.peers.lock().clear();
        assert!(!is_one_only(&table, 20049));
        assert!(StackString::<64>::new(&fmt!("{}", *table))
            .as_bytes()
            .is_empty());
        Ok(())
    }
}
