// SPDX-License-Identifier: GPL-2.0

//! Errors that are sent to a requester (RFC 8166 section 4.5).

use kernel::prelude::*;

use super::call::Call;
use super::endpoint::Endpoint;
use super::flights::Outgoing;
use crate::proto::responder::intake::{Refusal, Remedy};
use crate::proto::responder::reply::Cannot;
use crate::wire::message::ErrorBody;
use crate::wire::Version;

/// Answers a message that is not served, if the protocol has an answer. May sleep.
#[cold]
pub(super) fn message(ep: &Endpoint, refusal: &Refusal) {
    if let Remedy::Answer {
        version,
        xid,
        error,
    } = refusal.remedy
    {
        let credits = ep.role().grant.lock().posted();
        send(ep, version, (xid, credits), error);
    }
}

/// Answers a call whose reply cannot be sent. May sleep.
#[cold]
pub(super) fn reply(ep: &Endpoint, call: &Call, _why: Cannot, credits: u32) {
    send(
        ep,
        call.version(),
        (call.xid(), credits),
        ErrorBody::BadHeader,
    );
}

/// Sends an error. Without memory the connection is closed.
fn send(ep: &Endpoint, version: Version, (xid, credits): (u32, u32), error: ErrorBody) {
    let written = ep.send_buffer().and_then(|mut buf| {
        let len = version
            .error(buf.as_mut_slice(), xid, credits, error)
            .map_err(|_| EMSGSIZE)?;
        Ok((buf, len))
    });
    let Ok((buf, len)) = written else {
        return ep.shared().force_close();
    };
    let out = Outgoing {
        buf,
        len,
        source: None,
        rkey: None,
    };
    ep.send(out);
}
