// SPDX-License-Identifier: GPL-2.0

//! The files in `/sys/kernel/debug/rpcrdma`. They show the module's counters of protocol breaches:
//! `breaches` those of servers, `requester_breaches` those of clients.

use kernel::debugfs::{Dir, File, Writer};
use kernel::fmt;
use kernel::prelude::*;

use super::stats::{BreachCounts, RequesterBreachCounts};

/// The module's debugfs directory. Dropping it removes the files, and waits for their readers.
///
/// Without `CONFIG_DEBUG_FS`, or if debugfs refuses to create a file, the file is missing; that is
/// no error.
pub(crate) struct Debugfs {
    _breaches: Pin<KBox<File<Breaches>>>,
    _requester_breaches: Pin<KBox<File<RequesterBreaches>>>,
}

impl Debugfs {
    /// Creates the directory and its files. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let dir = Dir::new(c"rpcrdma");
        Ok(Self {
            _breaches: KBox::pin_init(dir.read_only_file(c"breaches", Breaches), GFP_KERNEL)?,
            _requester_breaches: KBox::pin_init(
                dir.read_only_file(c"requester_breaches", RequesterBreaches),
                GFP_KERNEL,
            )?,
        })
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
