// SPDX-License-Identifier: GPL-2.0

//! Replies of a responder of RFC 5666, which may have read chunks.
//!
//! State: RFC 5666 only.

use super::super::super::wire::Lists;
use super::super::requester::reply::{check_written, Lengths, Violation};

/// Checks a reply's lists against the lists of its call, as
/// [`check_lists`](super::super::requester::reply::check_lists) does, but accepts read chunks. Once
/// they have been read, RDMA_DONE has to be sent ([`super::done`]).
/// [`super::super::responder::reassembly`] inserts them into the message.
///
/// # Errors
///
/// The first [`Violation`] found.
//= 5666-3.4-7 results may come as read chunks
//= 5666-3.8-5 replies may carry read chunks
//= 5666-5.2-2 long reply may come as read chunk
pub fn check_lists(returned: &Lists<'_>, offered: &Lists<'_>) -> Result<Lengths, Violation> {
    check_written(returned, offered)
}
