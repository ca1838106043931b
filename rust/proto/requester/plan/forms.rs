// SPDX-License-Identifier: GPL-2.0

//! Chooses the forms of a call and its reply.

use super::super::super::super::wire::ListProc;
use super::space::InlineSpace;
use super::{pad_of, CallKind, CallShape, PlanError, ReplyKind, ReplyShape};

/// The forms of a call and of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forms {
    /// How the call's RPC message travels.
    pub call: CallKind,
    /// The memory that the call offers for the reply.
    pub reply: ReplyKind,
}

impl Forms {
    /// Chooses the forms of a call. `data_touch` returns whether RPCSEC_GSS integrity or privacy is
    /// in use (`RPCAUTH_AUTH_DATATOUCH`). It is called only if the result matters.
    ///
    /// # Errors
    ///
    /// See [`PlanError`]. Neither occurs with thresholds of at least 1024 bytes, at most 16
    /// segments, and messages below 4 GiB.
    //= 8166-3.5-1 does not fit inline
    #[inline(always)]
    pub fn choose(
        call: &CallShape,
        reply: &ReplyShape,
        space: &InlineSpace,
        data_touch: impl Fn() -> bool,
    ) -> Result<Self, PlanError> {
        let reply = reply_form(reply, space, &data_touch)?;
        let call = call_form(call, reply, space, &data_touch)?;
        Ok(Self { call, reply })
    }

    /// Returns the message type that follows from the form of the call.
    #[inline]
    //= 5666-4-1 too long moves as a chunk
    pub const fn proc(&self) -> ListProc {
        match self.call {
            CallKind::PositionZero => ListProc::Nomsg,
            _ => ListProc::Msg,
        }
    }

    /// Returns whether no memory has to be registered.
    #[inline]
    pub const fn is_inline(&self) -> bool {
        matches!(
            (self.call, self.reply),
            (CallKind::Inline, ReplyKind::Inline)
        )
    }
}

//= 5666-3.4-2 call may offer write chunks
//= 5666-3.4-8 calls do not leave out write list
//= 5666-3.8-6 replies have no read chunks
//= 8267-2-1 data chunks; none under integrity
#[inline(always)]
fn reply_form(
    s: &ReplyShape,
    space: &InlineSpace,
    data_touch: impl Fn() -> bool,
) -> Result<ReplyKind, PlanError> {
    let total = total(s.head_len, s.page_len, s.tail_len)?;
    if space.reply.takes(total.max(s.buflen.into())) {
        return Ok(ReplyKind::Inline);
    }
    let may = s.payload_in_pages && s.page_len != 0 && !data_touch();
    if may && space.written.takes(sum(s.head_len, s.tail_len)) {
        return Ok(ReplyKind::WriteChunk);
    }
    Ok(ReplyKind::ReplyChunk)
}

//= 5666-3.4-1 upper layer decides which data
//= 8267-2-1 data chunks; none under integrity
#[inline(always)]
fn call_form(
    s: &CallShape,
    reply: ReplyKind,
    space: &InlineSpace,
    data_touch: impl Fn() -> bool,
) -> Result<CallKind, PlanError> {
    let calls = space.calls(reply);
    if calls
        .inline
        .takes(total(s.head_len, s.page_len, s.tail_len)?)
    {
        return Ok(CallKind::Inline);
    }
    if !calls.read.takes(0) {
        return Err(PlanError::NoReadChunk);
    }
    let may = s.payload_in_pages && s.page_len != 0 && s.head_len % 4 == 0 && !data_touch();
    let rest = s.tail_len.saturating_sub(pad_of(s.page_len));
    if may && calls.read.takes(sum(s.head_len, rest)) {
        return Ok(CallKind::ReadChunk {
            position: s.head_len,
        });
    }
    Ok(CallKind::PositionZero)
}

/// Returns the length of a message, which must be below 4 GiB.
#[inline(always)]
fn total(head: u32, pages: u32, tail: u32) -> Result<u64, PlanError> {
    let total = u64::from(pages).wrapping_add(sum(head, tail));
    if total > u32::MAX.into() {
        return Err(PlanError::MessageTooLong);
    }
    Ok(total)
}

/// Returns the sum of two lengths.
#[inline(always)]
fn sum(a: u32, b: u32) -> u64 {
    u64::from(a).wrapping_add(b.into())
}
