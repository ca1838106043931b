// SPDX-License-Identifier: GPL-2.0

//! Calls of the Connection Configuration Protocol, of RFC 5666, which the service does not see.

use kernel::prelude::*;

use super::config::{align, CONF};
use super::endpoint::Endpoint;
use super::flights::lane;
use super::outgoing::Outgoing;
use super::session;
use crate::conn::traced;
use crate::observe::trace;
use crate::proto::legacy::service::{self, Answer, MAX};
use crate::proto::responder::call::Call;
use crate::wire::conf_rdma;
use crate::wire::Direction;

/// Returns whether a call is one of this program. A call with read chunks is left to the service,
/// which has no such program.
#[inline]
pub(super) fn concerns(call: &Call<'_>) -> bool {
    service::is_ours(call.inline()) && call.pulled() == 0
}

/// Answers a call of this program. It takes no credit, as its answer is sent at once. May sleep.
#[cold]
pub(super) fn answer(ep: &Endpoint, call: &Call<'_>) {
    let role = ep.role();
    CONF.add(lane(ep.qp()), 1);
    let most = role.configured.inline();
    let ours = conf_rdma::Reply {
        maxcall_sendsize: most,
        align: align(),
        maxrdmaread: role.configured.reads(),
    };
    let answer = Answer::to(call.inline(), &ours);
    let Ok(out) = write(ep, call, &answer) else {
        return ep.shared().force_close();
    };
    ep.send(out);
    session::replied(ep);
    if let Some(request) = answer.request() {
        let reply = service::max_reply(request, most);
        trace::server::conf_call(traced::peer(ep.shared().owner()), call.xid(), reply);
        role.configured.set_max_reply(reply);
        role.bound_reads(request.maxrdmaread);
    }
}

/// Writes the message of an answer.
fn write(ep: &Endpoint, call: &Call<'_>, answer: &Answer) -> Result<Outgoing> {
    let version = call.version();
    let header = version.min_header();
    // CAST: a small number.
    let mut buf = ep.send_buffer((header + MAX) as u32)?;
    let credits = ep.role().calls.granted();
    let bytes = buf.as_mut_slice();
    let at = version.inline(bytes, call.xid(), credits, Direction::Reply);
    let at = at.map_err(|_| EMSGSIZE)?;
    let len = at + answer.bytes().len();
    bytes
        .get_mut(at..len)
        .ok_or(EMSGSIZE)?
        .copy_from_slice(answer.bytes());
    Ok(Outgoing::inline(buf, len, None))
}
