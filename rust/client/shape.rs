// SPDX-License-Identifier: GPL-2.0

//! The lengths of the buffers of a call and of its reply, for the decisions of `proto`.

use crate::proto::requester::plan::{CallShape, ReplyShape};
use crate::sunrpc::xdr_buf::XdrBuf;

/// Returns the lengths of a call as it was encoded.
#[inline]
pub(super) fn call(buf: &XdrBuf<'_>) -> CallShape {
    CallShape {
        head_len: buf.head_len(),
        page_len: buf.page_len(),
        tail_len: buf.tail_len(),
        payload_in_pages: buf.may_write(),
    }
}

/// Returns the lengths of the buffer for a reply.
#[inline]
pub(super) fn reply(buf: &XdrBuf<'_>) -> ReplyShape {
    ReplyShape {
        head_len: buf.head_len(),
        page_len: buf.page_len(),
        tail_len: buf.tail_len(),
        buflen: buf.buflen(),
        payload_in_pages: buf.may_read(),
    }
}
