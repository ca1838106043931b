// SPDX-License-Identifier: GPL-2.0

//! Replies of a responder of RFC 5666, which may put read chunks into them.

use super::super::super::wire::Lists;
use super::super::requester::reply::{check_written, Lengths, Violation};

/// Checks a reply's lists against the lists of its call, as
/// [`check_lists`](super::super::requester::reply::check_lists) does, but accepts read chunks. Once
/// they have been read, RDMA_DONE is due ([`super::done`]); how they fit into the message,
/// [`super::super::responder::reassembly`] finds out.
///
/// # Errors
///
/// The first [`Violation`] found.
//= 5666-3.4-7 5666-3.8-5 5666-5.2-2
pub fn check_lists(returned: &Lists<'_>, offered: &Lists<'_>) -> Result<Lengths, Violation> {
    check_written(returned, offered)
}
