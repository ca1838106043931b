// SPDX-License-Identifier: GPL-2.0

//! Plans for typical calls of NFS, and for calls at the limits.

use super::super::super::wire::ListProc;
use super::super::super::wire::Version;
use super::super::inline::Thresholds;
use super::super::requester::plan::{
    CallKind, CallOptions, CallShape, Extents, Forms, InlineSpace, PlanError, ReplyKind, ReplyShape,
};
use super::ensure;

type Check = Result<(), &'static str>;

/// The conditions of the connection and the upper layer for a plan.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// The connection's inline thresholds.
    pub thresholds: Thresholds,
    /// RPCSEC_GSS integrity or privacy is in use.
    pub data_touch: bool,
    /// Maximum number of segments that registering any one chunk of the call may take.
    pub max_segs: u32,
    /// Calls may have read chunks.
    pub read_chunks: bool,
}

impl Conditions {
    /// Chooses the forms of one call.
    ///
    /// # Errors
    ///
    /// See [`Forms::choose`].
    pub fn plan(&self, call: &CallShape, reply: &ReplyShape) -> Result<Forms, PlanError> {
        let options = CallOptions {
            read_chunks: self.read_chunks,
            align: 0,
        };
        let space = InlineSpace::new(&self.thresholds, self.max_segs, options);
        Forms::choose(call, reply, &space, || self.data_touch)
    }
}

const COND: Conditions = Conditions {
    thresholds: Thresholds {
        client_to_server: 4096,
        server_to_client: 4096,
        remote_invalidation: true,
        version: Version::One,
    },
    data_touch: false,
    max_segs: 16,
    read_chunks: true,
};

const GSS: Conditions = Conditions {
    data_touch: true,
    ..COND
};

/// A call without page data.
const SMALL_CALL: CallShape = CallShape {
    head_len: 120,
    page_len: 0,
    tail_len: 0,
    payload_in_pages: false,
};

const SMALL_REPLY: ReplyShape = ReplyShape {
    head_len: 300,
    page_len: 0,
    tail_len: 0,
    buflen: 300,
    payload_in_pages: false,
};

const fn write_call(page_len: u32, tail_len: u32) -> CallShape {
    CallShape {
        head_len: 148,
        page_len,
        tail_len,
        payload_in_pages: true,
    }
}

const fn read_reply(page_len: u32) -> ReplyShape {
    ReplyShape {
        head_len: 128,
        page_len,
        tail_len: 4,
        buflen: page_len.saturating_add(132),
        payload_in_pages: true,
    }
}

const fn readdir_reply(page_len: u32) -> ReplyShape {
    ReplyShape {
        payload_in_pages: false,
        ..read_reply(page_len)
    }
}

fn plan(call: &CallShape, reply: &ReplyShape, cond: &Conditions) -> Result<Forms, &'static str> {
    cond.plan(call, reply).map_err(|_| "no plan")
}

fn kinds(call: &CallShape, reply: &ReplyShape, cond: &Conditions) -> Option<(CallKind, ReplyKind)> {
    let plan = cond.plan(call, reply).ok()?;
    Some((plan.call, plan.reply))
}

/// Runs the cases.
///
/// # Errors
///
/// The name of the first case that fails.
pub fn check() -> Check {
    check_inline()?;
    check_calls()?;
    check_replies()?;
    check_edges()?;
    check_parts()?;
    check_no_read_chunks()?;
    check_errors()
}

fn check_inline() -> Check {
    let p = plan(&SMALL_CALL, &SMALL_REPLY, &COND)?;
    ensure!(p.is_inline() && p.proc() == ListProc::Msg, "small call");
    ensure!(p.call == CallKind::Inline, "small call is inline");
    ensure!(
        p.call.inline_parts(&SMALL_CALL).len() == 120,
        "all of a small call"
    );
    Ok(())
}

//~ 5666-3.4-1 upper layer decides which data
//~ 5666-4-1 too long moves as a chunk
//~ 8267-2-1 data chunks; none under integrity
fn check_calls() -> Check {
    let inline = ReplyKind::Inline;
    let read = CallKind::ReadChunk { position: 148 };
    let zero = CallKind::PositionZero;
    let copied = CallKind::Inline;
    let large = write_call(1 << 20, 0);
    ensure!(
        kinds(&large, &SMALL_REPLY, &COND) == Some((read, inline)),
        "write"
    );
    ensure!(
        kinds(&large, &SMALL_REPLY, &GSS) == Some((zero, inline)),
        "write, krb5i"
    );
    let small = write_call(512, 0);
    ensure!(
        kinds(&small, &SMALL_REPLY, &COND) == Some((copied, inline)),
        "short write"
    );
    ensure!(
        kinds(&small, &SMALL_REPLY, &GSS) == Some((copied, inline)),
        "short, krb5i"
    );
    let symlink = CallShape {
        payload_in_pages: false,
        ..write_call(4096, 8)
    };
    ensure!(
        kinds(&symlink, &SMALL_REPLY, &COND) == Some((zero, inline)),
        "payload not marked"
    );
    let odd = CallShape {
        head_len: 149,
        ..large
    };
    ensure!(
        kinds(&odd, &SMALL_REPLY, &COND) == Some((zero, inline)),
        "odd position"
    );
    let rest = CallShape {
        head_len: 4000,
        ..large
    };
    ensure!(
        kinds(&rest, &SMALL_REPLY, &COND) == Some((zero, inline)),
        "rest too long"
    );
    Ok(())
}

//~ 5666-3.4-2 call may offer write chunks
//~ 5666-3.4-8 calls do not leave out write list
//~ 5666-3.8-6 replies have no read chunks
//~ 5666-5.2-1 reply chunk for the whole reply
//~ 8166-3.4-1 XDR padding into write chunks
fn check_replies() -> Check {
    let copied = CallKind::Inline;
    let write = ReplyKind::WriteChunk;
    let reply = ReplyKind::ReplyChunk;
    let large = read_reply(1 << 20);
    ensure!(
        kinds(&SMALL_CALL, &large, &COND) == Some((copied, write)),
        "read"
    );
    ensure!(
        kinds(&SMALL_CALL, &large, &GSS) == Some((copied, reply)),
        "read, krb5p"
    );
    let odd = read_reply(4097);
    ensure!(
        kinds(&SMALL_CALL, &odd, &COND) == Some((copied, write)),
        "odd read: nothing is offered for the padding"
    );
    let short = read_reply(512);
    let inline = ReplyKind::Inline;
    ensure!(
        kinds(&SMALL_CALL, &short, &COND) == Some((copied, inline)),
        "short read"
    );
    let readdir = readdir_reply(32768);
    ensure!(
        kinds(&SMALL_CALL, &readdir, &COND) == Some((copied, reply)),
        "readdir"
    );
    let head = ReplyShape {
        head_len: 4000,
        ..large
    };
    ensure!(
        kinds(&SMALL_CALL, &head, &COND) == Some((copied, reply)),
        "long head"
    );
    let buflen = ReplyShape {
        buflen: 5000,
        ..SMALL_REPLY
    };
    ensure!(
        kinds(&SMALL_CALL, &buflen, &COND) == Some((copied, reply)),
        "buflen"
    );
    Ok(())
}

/// Checks that the longest inline message is inline, and that one more byte makes it a chunk.
//~ 8166-3.5-1 does not fit inline
fn check_edges() -> Check {
    let call = |head_len| CallShape {
        head_len,
        ..SMALL_CALL
    };
    let reply = |buflen| ReplyShape {
        head_len: buflen,
        buflen,
        ..SMALL_REPLY
    };
    let copied =
        |n, r: &ReplyShape| kinds(&call(n), r, &COND).is_some_and(|(c, _)| c == CallKind::Inline);
    let inline =
        |n| kinds(&SMALL_CALL, &reply(n), &COND).is_some_and(|(_, r)| r == ReplyKind::Inline);
    ensure!(copied(4096 - 28, &SMALL_REPLY), "longest inline call");
    ensure!(!copied(4096 - 27, &SMALL_REPLY), "one byte too many");
    ensure!(
        inline(4096 - 28) && !inline(4096 - 27),
        "longest inline reply"
    );
    // Sixteen segments of a write chunk, or of a reply chunk, in the call's header.
    let read = read_reply(1 << 20);
    ensure!(copied(4096 - 28 - 264, &read), "call with write chunk");
    ensure!(
        !copied(4096 - 28 - 263, &read),
        "call with write chunk, a byte too many"
    );
    let readdir = readdir_reply(1 << 20);
    ensure!(copied(4096 - 28 - 260, &readdir), "call with reply chunk");
    ensure!(
        !copied(4096 - 28 - 259, &readdir),
        "call with reply chunk, a byte too many"
    );
    check_rest_of_a_call()
}

/// Checks the inline part beside a read chunk of sixteen segments. The padding does not count.
fn check_rest_of_a_call() -> Check {
    let call = |tail_len| CallShape {
        head_len: 4096 - 28 - 384 - 12,
        ..write_call(4097, tail_len)
    };
    let kind = |tail| kinds(&call(tail), &SMALL_REPLY, &COND).map(|(call, _)| call);
    let position = call(0).head_len;
    ensure!(
        kind(3 + 12) == Some(CallKind::ReadChunk { position }),
        "longest rest"
    );
    ensure!(
        kind(3 + 13) == Some(CallKind::PositionZero),
        "rest, a byte too many"
    );
    Ok(())
}

/// Checks which bytes are inline beside a chunk.
//~ 5666-3.6-2 one chunk, for the pages
//~ 5666-3.7-2 round-up not in a read chunk
fn check_parts() -> Check {
    // 4097 bytes of payload: the tail begins with three bytes of padding.
    let call = write_call(4097, 11);
    let p = plan(&call, &SMALL_REPLY, &COND)?;
    let inline = p.call.inline_parts(&call);
    ensure!(parts(&inline) == (148, 0, (3, 8)), "inline rest");
    ensure!(!p.is_inline(), "a chunk");
    let short = write_call(4097, 3);
    let inline = plan(&short, &SMALL_REPLY, &COND)?.call.inline_parts(&short);
    ensure!(parts(&inline) == (148, 0, (3, 0)), "tail of padding only");
    let p = plan(&call, &SMALL_REPLY, &GSS)?;
    let inline = p.call.inline_parts(&call);
    ensure!(
        inline.len() == 0 && p.proc() == ListProc::Nomsg,
        "long call with inline data"
    );
    let p = plan(&SMALL_CALL, &readdir_reply(8192), &COND)?;
    ensure!(!p.is_inline(), "a chunk for the reply");
    Ok(())
}

/// Returns the bytes of the head, those of the pages, and the part of the tail.
fn parts(extents: &Extents) -> (u32, u32, (u32, u32)) {
    let (head, tail) = (extents.head(), extents.tail());
    let pages = extents.len().saturating_sub(head).saturating_sub(tail.1);
    (head, pages, tail)
}

fn check_no_read_chunks() -> Check {
    let cond = Conditions {
        read_chunks: false,
        ..COND
    };
    let write = cond.plan(&write_call(1 << 20, 0), &SMALL_REPLY);
    ensure!(write == Err(PlanError::NoReadChunk), "write");
    let long = CallShape {
        head_len: 5000,
        ..SMALL_CALL
    };
    let long = cond.plan(&long, &SMALL_REPLY);
    ensure!(long == Err(PlanError::NoReadChunk), "long call");
    for reply in [SMALL_REPLY, read_reply(1 << 20), readdir_reply(32768)] {
        let (may, not) = (
            cond.plan(&SMALL_CALL, &reply),
            COND.plan(&SMALL_CALL, &reply),
        );
        ensure!(may.is_ok() && may == not, "calls without read chunks");
    }
    Ok(())
}

fn check_errors() -> Check {
    let long = write_call(u32::MAX, 0);
    let got = COND.plan(&long, &SMALL_REPLY);
    ensure!(got == Err(PlanError::MessageTooLong), "call above 4 GiB");
    let longest = write_call(u32::MAX - 148, 0);
    let got = COND.plan(&longest, &SMALL_REPLY);
    ensure!(got.is_ok(), "call one byte below 4 GiB");
    let got = COND.plan(
        &SMALL_CALL,
        &ReplyShape {
            tail_len: 1,
            ..read_reply(0)
        },
    );
    ensure!(got.is_ok(), "empty pages");
    let reply = ReplyShape {
        head_len: u32::MAX,
        ..read_reply(1)
    };
    let got = COND.plan(&SMALL_CALL, &reply);
    ensure!(got == Err(PlanError::MessageTooLong), "reply above 4 GiB");
    let many = Conditions {
        max_segs: 200,
        ..COND
    };
    let got = many.plan(&write_call(1 << 20, 0), &SMALL_REPLY);
    ensure!(got == Err(PlanError::NoReadChunk), "too many segments");
    let absurd = Conditions {
        max_segs: u32::MAX,
        ..COND
    };
    let got = absurd.plan(&write_call(1 << 20, 0), &read_reply(1 << 20));
    ensure!(
        got == Err(PlanError::NoReadChunk),
        "largest number of segments"
    );
    Ok(())
}
