// SPDX-License-Identifier: GPL-2.0

//! How trace events name the task of an RPC.

use super::transport::Client;
use crate::observe::trace::{Lazy, Task};
use crate::sunrpc::xprt::rqst::Rqst;

/// Returns the task of an RPC. Nothing is looked up unless the event is enabled.
#[inline(always)]
pub(super) fn task<'a, 'b>(
    rqst: &'a Rqst<'b, Client>,
) -> Lazy<impl FnOnce() -> Task + Copy + use<'a, 'b>> {
    Lazy(|| Task {
        task_id: rqst.task_id(),
        client_id: rqst.client_id(),
    })
}
