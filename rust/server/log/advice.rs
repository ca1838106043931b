// SPDX-License-Identifier: GPL-2.0

//! What the log says about a listener that failed: the cause and the next step.
//!
//! The rows of [`ADVICE`] are also in section ERRORS of Documentation/admin-guide.rst:
//! tools/checks/errors_table.py writes them there.

use kernel::error::code::{EADDRINUSE, EADDRNOTAVAIL};
use kernel::prelude::*;

/// What is said about an error.
pub(super) struct Advice {
    error: Error,
    /// What a write to portlist prints.
    _write: &'static str,
    pub(super) cause: &'static str,
    pub(super) next: &'static str,
}

const fn row(
    error: Error,
    _write: &'static str,
    cause: &'static str,
    next: &'static str,
) -> Advice {
    Advice {
        error,
        _write,
        cause,
        next,
    }
}

/// What is said about each error.
const ADVICE: [Advice; 4] = [
    row(
        EADDRINUSE,
        "Address already in use",
        "another listener has the address and the port",
        "cat /proc/fs/nfsd/portlist, and rdma resource show cm_id",
    ),
    row(
        EADDRNOTAVAIL,
        "Cannot assign requested address",
        "another listener has the port, or no interface of this host has the address",
        "cat /proc/fs/nfsd/portlist, rdma resource show cm_id, and ip address",
    ),
    row(
        ENODEV,
        "No such device",
        "the interface that has the address belongs to no RDMA device",
        "ip address, and rdma link",
    ),
    row(
        ENOMEM,
        "Cannot allocate memory",
        "there is no memory for the listener",
        "free memory, and try again",
    ),
];

/// What is said about all other errors.
const OTHER: Advice = row(
    ENODEV,
    "",
    "the connection manager refuses it",
    "look for messages of the device's driver before this one",
);

/// Returns what is said about an error.
pub(super) fn of(error: Error) -> &'static Advice {
    let same = |advice: &&Advice| advice.error.to_errno() == error.to_errno();
    ADVICE.iter().find(same).unwrap_or(&OTHER)
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_server_log_advice)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_own_advice() {
        for advice in &ADVICE {
            assert!(core::ptr::eq(of(advice.error), advice));
        }
        assert!(core::ptr::eq(of(EPERM), &OTHER));
    }
}
