// SPDX-License-Identifier: GPL-2.0

//! The files in `/sys/kernel/debug/rpcrdma`. `breaches` and `requester_breaches` show the module's
//! counters of protocol breaches: those of servers, and those of clients. `connections` shows the
//! connections of both roles. `peers` shows what is known of servers from earlier connections;
//! writing anything to it makes the module forget that.

use kernel::debugfs::{Dir, File, Reader, Writer};
use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::uaccess::UserSliceReader;

use super::stats::{BreachCounts, RequesterBreachCounts};

/// A table that the administrator can read.
pub(crate) trait Listing: Send + Sync + 'static {
    /// Writes one line for each entry. May sleep.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// A table that the administrator can read and clear.
pub(crate) trait Table: Listing {
    /// Removes all entries.
    fn clear(&self);
}

/// The module's debugfs directory. Dropping it removes the files, and waits for their readers.
///
/// Without `CONFIG_DEBUG_FS`, or if debugfs refuses to create a file, the file is missing; that is
/// no error.
pub(crate) struct Debugfs<P: Table, C: Listing> {
    _connections: Pin<KBox<File<Shown<C>>>>,
    _breaches: Pin<KBox<File<Breaches>>>,
    _requester_breaches: Pin<KBox<File<RequesterBreaches>>>,
    _peers: Pin<KBox<File<Clearable<P>>>>,
}

impl<P: Table, C: Listing> Debugfs<P, C> {
    /// Creates the directory and its files. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(peers: Arc<P>, connections: Arc<C>) -> Result<Self> {
        let dir = Dir::new(c"rpcrdma");
        let connections = dir.read_only_file(c"connections", Shown(connections));
        Ok(Self {
            _connections: KBox::pin_init(connections, GFP_KERNEL)?,
            _breaches: KBox::pin_init(dir.read_only_file(c"breaches", Breaches), GFP_KERNEL)?,
            _requester_breaches: KBox::pin_init(
                dir.read_only_file(c"requester_breaches", RequesterBreaches),
                GFP_KERNEL,
            )?,
            _peers: KBox::pin_init(dir.read_write_file(c"peers", Clearable(peers)), GFP_KERNEL)?,
        })
    }
}

/// The contents of a file that shows a table.
struct Shown<T>(Arc<T>);

impl<T: Listing> Writer for Shown<T> {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f)
    }
}

/// The contents of a file that shows a table. Writing to the file clears the table.
struct Clearable<P>(Arc<P>);

impl<P: Table> Writer for Clearable<P> {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f)
    }
}

impl<P: Table> Reader for Clearable<P> {
    fn read_from_slice(&self, _reader: &mut UserSliceReader) -> Result {
        self.0.clear();
        Ok(())
    }
}

/// The contents of the file `breaches`: one line for each kind of breach.
struct Breaches;

impl Writer for Breaches {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        BreachCounts::of_module().write(f)
    }
}

/// The contents of the file `requester_breaches`: one line for each kind of breach.
struct RequesterBreaches;

impl Writer for RequesterBreaches {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        RequesterBreachCounts::of_module().write(f)
    }
}
