// SPDX-License-Identifier: GPL-2.0

//! The files in `/sys/kernel/debug/rpcrdma`. `breaches` and `requester_breaches` show the module's
//! counters of protocol breaches: those of servers, and those of clients. `connections` shows the
//! connections of both roles. `peers` shows what is known of servers from earlier connections;
//! writing anything to it makes the module forget that.
//!
//! While a process has one of the files open, the module is in use and cannot be unloaded.

use kernel::fmt;
use kernel::sync::Arc;

use super::stats::{BreachCounts, RequesterBreachCounts};

mod dir;

use dir::{Dir, Operations};

/// A table that the administrator can read.
pub(crate) trait Listing: Send + Sync + 'static {
    /// Writes one line for each entry. May sleep.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// A table that the administrator can read and clear.
pub(crate) trait Table: Listing {
    /// Removes all entries. May sleep.
    fn clear(&self);
}

/// The module's debugfs directory. Dropping it removes the files, and waits for their readers.
///
/// Without `CONFIG_DEBUG_FS`, or if debugfs refuses to create a file, the file is missing; that is
/// no error.
pub(crate) struct Debugfs<P: Table, C: Listing> {
    // Dropped first: the files show the other fields.
    _dir: Dir,
    _peers: Arc<P>,
    _connections: Arc<C>,
}

impl<P: Table, C: Listing> Debugfs<P, C> {
    /// Creates the directory and its files. Process context, may sleep.
    ///
    /// A module does this last in its initialisation. If that fails, the module is unloaded
    /// without regard to files that are open.
    pub(crate) fn new(peers: Arc<P>, connections: Arc<C>) -> Self {
        let dir = Dir::new(c"rpcrdma");
        // SAFETY: The counters are statics, and the fields below keep the tables until the
        // directory has been dropped.
        unsafe {
            dir.file(c"connections", 0o400, &*connections, &Operations::SHOW);
            dir.file(
                c"breaches",
                0o400,
                BreachCounts::of_module(),
                &Operations::SHOW,
            );
            let requesters = RequesterBreachCounts::of_module();
            dir.file(c"requester_breaches", 0o400, requesters, &Operations::SHOW);
            dir.file(c"peers", 0o600, &*peers, &Operations::SHOW_AND_CLEAR);
        }
        Self {
            _dir: dir,
            _peers: peers,
            _connections: connections,
        }
    }
}

impl Listing for BreachCounts {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)
    }
}

impl Listing for RequesterBreachCounts {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)
    }
}
