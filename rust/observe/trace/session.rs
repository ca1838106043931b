// SPDX-License-Identifier: GPL-2.0

//! Events of the session that agrees on version and characteristics. Both roles have them.

use core::fmt;

use kernel::prelude::*;

use super::{Peer, StackString};
use crate::proto::session::{Body, Breach, Close, Control, Terms};
use crate::proto::version::Memory;
use crate::proto::xchar::Fault;
use crate::wire::message::{self, ErrorBody};
use crate::wire::xchar::{BackwardSupport, Characteristic, Disposition, OpType, Operation};
use crate::wire::{Direction, Message, Version};

events! {
    /// Traces that the first message of a connection, or its answer, settled the version.
    fn version_settled(peer: Peer, version: Version) => xprtrdma_version_settled {
        peer(peer),
        version: version.number(),
    }

    /// Traces the terms of a connection, which are new or changed.
    fn terms_changed(peer: Peer, terms: &'a Terms) => xprtrdma_terms_changed {
        peer(peer),
        generation: terms.generation,
        version: terms.version.number(),
        settled: terms.settled,
        watch: terms.watch,
        send: terms.send,
        recv: terms.receive,
        expected: terms.expected,
        may_inv: terms.may_invalidate,
        expect_inv: terms.expect_invalidation,
        backward: level_name(terms.backward),
    }

    /// Traces that a control message was posted.
    fn control_sent(peer: Peer, control: &'a Control) => xprtrdma_control_sent {
        peer(peer),
        xid: control.xid,
        direction: direction_name(Some(control.direction)),
        operation: sent_name(&control.body),
        values: StackString::new(&Sent(&control.body)),
    }

    /// Traces that a control message arrived.
    fn control_received(peer: Peer, message: &'a Message<'a>) => xprtrdma_control_received {
        peer(peer),
        xid: message.xid(),
        direction: direction_name(message.direction()),
        operation: received_name(message.body()),
        values: StackString::new(&Received(message.body())),
    }

    /// Traces that a message broke a rule by which the peers agree on version and characteristics.
    fn session_breach(peer: Peer, xid: u32, breach: &'a Breach) => xprtrdma_session_breach {
        peer(peer),
        xid: xid,
        what: StackString::new(&Broken(breach)),
    }

    /// Traces why the session closes the connection.
    fn session_closed(peer: Peer, reason: Close) => xprtrdma_session_closed {
        peer(peer),
        reason: close_name(reason),
    }

    /// Traces the knowledge about the peer that the module keeps for later connections.
    fn peer_remembered(peer: Peer, memory: Memory) => xprtrdma_peer_remembered {
        peer(peer),
        what: memory_name(memory),
    }

    /// Traces that Receives of `size` bytes are posted from now on. `posted` is the number of
    /// smaller Receives that are left, or the reason why the size does not change.
    fn recvs_grow(peer: Peer, size: u32, posted: Result<u32>) => xprtrdma_recvs_grow {
        peer(peer),
        size: size,
        smaller: posted.unwrap_or(0),
        rc: posted.map_or_else(Error::to_errno, |_| 0),
    }
}

/// The text of a control message that is sent.
struct Sent<'a>(&'a Body);

impl fmt::Display for Sent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Body::Init(own) => list(f, own.initial().into_iter().map(|initial| initial.value)),
            Body::Request(size) => value(f, &Characteristic::ReceiveBufferSize(*size)),
            Body::Response(outcome) => outcomes(f, (0..).zip(outcome.iter())),
            Body::Update {
                now,
                pending_cleared,
            } => update(f, now, *pending_cleared),
            Body::Error(error) => range(f, *error),
        }
    }
}

/// The text of a control message that arrived.
struct Received<'a>(&'a message::Body<'a>);

impl fmt::Display for Received<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self.0 {
            message::Body::Optional {
                opttype, optinfo, ..
            } => match Operation::decode(opttype, optinfo) {
                Ok(Some(operation)) => received(f, &operation),
                // The operation is unknown or malformed.
                _ => write!(f, "code {opttype}, {} bytes", optinfo.len()),
            },
            message::Body::Error(error) => range(f, error),
            _ => Ok(()),
        }
    }
}

/// The text of a breach.
struct Broken<'a>(&'a Breach);

impl fmt::Display for Broken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Breach::Version(version) => write!(f, "version {version}"),
            Breach::Undecodable(error) => write!(f, "{error}"),
            Breach::Reply => f.write_str("first reply without its RPC message"),
            Breach::Form => f.write_str("operation with an RPC message, or wrong direction"),
            Breach::Operation(Fault::Unasked) => f.write_str("response to no request"),
            Breach::Operation(Fault::Coverage(n)) => write!(f, "no single outcome of element {n}"),
            Breach::Operation(Fault::TooSmall(size)) => write!(f, "receive size {size}"),
            Breach::TooMany => f.write_str("more messages than can be answered"),
        }
    }
}

fn received(f: &mut fmt::Formatter<'_>, operation: &Operation<'_>) -> fmt::Result {
    match operation {
        Operation::Init { start: spec, .. } | Operation::Request { want: spec } => {
            list(f, spec.values())
        }
        // The request was one of this module, which are short.
        Operation::Response(response) => {
            let outcome = |n| Some((n, response.disposition(n)?));
            outcomes(f, (0..32).filter_map(outcome))
        }
        Operation::Update {
            now,
            pending_cleared,
        } => update(f, now, *pending_cleared),
    }
}

fn list<'a>(
    f: &mut fmt::Formatter<'_>,
    values: impl Iterator<Item = Characteristic<'a>>,
) -> fmt::Result {
    for (n, one) in values.enumerate() {
        if n != 0 {
            f.write_str(" ")?;
        }
        value(f, &one)?;
    }
    Ok(())
}

fn value(f: &mut fmt::Formatter<'_>, value: &Characteristic<'_>) -> fmt::Result {
    match *value {
        Characteristic::ReceiveBufferSize(size) => write!(f, "size={size}"),
        Characteristic::RemoteInvalidation(ready) => write!(f, "reminv={}", u32::from(ready)),
        Characteristic::BackwardSupport(level) => write!(f, "backward={}", level_text(level)),
        Characteristic::PreferredThreshold(size) => write!(f, "preferred={size}"),
        Characteristic::Other { id, data } => write!(f, "{}={} bytes", id.0, data.len()),
    }
}

fn update(f: &mut fmt::Formatter<'_>, now: &Characteristic<'_>, cleared: bool) -> fmt::Result {
    value(f, now)?;
    f.write_str(if cleared { " pending cleared" } else { "" })
}

/// Writes the outcomes of the elements of a request.
fn outcomes(
    f: &mut fmt::Formatter<'_>,
    outcomes: impl Iterator<Item = (u32, Disposition)>,
) -> fmt::Result {
    for (n, outcome) in outcomes {
        let space = if n == 0 { "" } else { " " };
        write!(f, "{space}{n}={}", outcome_text(outcome))?;
    }
    Ok(())
}

fn range(f: &mut fmt::Formatter<'_>, error: ErrorBody) -> fmt::Result {
    match error {
        ErrorBody::Vers { low, high } => write!(f, "{low}..{high}"),
        ErrorBody::BadHeader | ErrorBody::InvalidOption => Ok(()),
    }
}

const fn outcome_text(outcome: Disposition) -> &'static str {
    match outcome {
        Disposition::Done => "done",
        Disposition::Rejected => "rejected",
        Disposition::Pending => "pending",
    }
}

const fn sent_name(body: &Body) -> &'static CStr {
    match body {
        Body::Init(_) => operation_name(OpType::Init),
        Body::Request(_) => operation_name(OpType::Request),
        Body::Response(_) => operation_name(OpType::Response),
        Body::Update { .. } => operation_name(OpType::Update),
        Body::Error(error) => error_name(*error),
    }
}

fn received_name(body: &message::Body<'_>) -> &'static CStr {
    match *body {
        message::Body::Optional { opttype, .. } => {
            OpType::from_u32(opttype).map_or(c"unknown", operation_name)
        }
        message::Body::Error(error) => error_name(error),
        _ => c"RPC",
    }
}

const fn operation_name(operation: OpType) -> &'static CStr {
    match operation {
        OpType::Init => c"INIT_XCHAR",
        OpType::Request => c"REQ_XCHAR",
        OpType::Response => c"RESP_XCHAR",
        OpType::Update => c"UPD_XCHAR",
    }
}

const fn error_name(error: ErrorBody) -> &'static CStr {
    match error {
        ErrorBody::Vers { .. } => c"ERR_VERS",
        ErrorBody::BadHeader => c"ERR_BAD_HEADER",
        ErrorBody::InvalidOption => c"ERR_INVAL_OPTION",
    }
}

const fn direction_name(direction: Option<Direction>) -> &'static CStr {
    match direction {
        Some(Direction::Call) => c"call",
        Some(Direction::Reply) => c"reply",
        None => c"-",
    }
}

const fn close_name(reason: Close) -> &'static CStr {
    match reason {
        Close::Unanswered => c"first message not answered",
        Close::NoVersion => c"no version in common",
        Close::TooMany => c"more messages than can be answered",
    }
}

const fn memory_name(memory: Memory) -> &'static CStr {
    match memory {
        Memory::OneOnly => c"version one only",
        Memory::Doubt => c"doubt",
        Memory::Forget => c"nothing",
    }
}

const fn level_name(level: BackwardSupport) -> &'static CStr {
    match level {
        BackwardSupport::Unknown => c"unknown",
        BackwardSupport::None => c"none",
        BackwardSupport::SizeLimited => c"inline",
        BackwardSupport::General => c"general",
    }
}

/// Returns the name of a level as a string slice.
fn level_text(level: BackwardSupport) -> &'static str {
    level_name(level).to_str().unwrap_or_default()
}
