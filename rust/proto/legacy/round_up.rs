// SPDX-License-Identifier: GPL-2.0

//! Replies whose write chunk has a length that includes the XDR round-up.
//!
//! A responder of RFC 5666 increases the length of a write chunk that it returns by the round-up of
//! the data (section 3.7), although it writes none.

use super::super::super::wire::message::Body;
use super::super::super::wire::Segment;
use super::super::requester::reply::{check_chunk, Offer, Outcome, Violation};

/// Checks a reply with a write chunk that is longer than offered, whose responder may be one of RFC
/// 5666: it has sent no private data. The last segment may be up to three bytes too long, if the
/// chunk then ends at a multiple of four. These bytes are not part of the length that is returned,
/// and they cannot have been written.
///
/// # Errors
///
/// The first [`Violation`] found.
//= 5666-3.7-3 returned length includes the round-up
pub fn check_rounded_up(body: &Body<'_>, offer: &Offer<'_>) -> Result<Outcome, Violation> {
    let (Body::Msg { lists, payload }, Some(offered)) = (body, offer.write_chunk) else {
        return Err(Violation::SegmentLength);
    };
    if lists.read_list().next().is_some() {
        return Err(Violation::ReadList);
    }
    if lists.reply_chunk().is_some() {
        return Err(Violation::ExtraReplyChunk);
    }
    let mut chunks = lists.write_list();
    let (Some(chunk), None) = (chunks.next(), chunks.next()) else {
        return Err(Violation::ExtraWriteChunk);
    };
    let excess = excess(chunk.total_len(), offered);
    let last = offered.len().saturating_sub(1);
    let returned = chunk.segments().enumerate().map(|(n, mut segment)| {
        if n == last {
            segment.length = segment.length.saturating_sub(excess);
        }
        segment
    });
    Ok(Outcome::Inline {
        inline_len: u32::try_from(payload.len()).map_err(|_| Violation::Overflow)?,
        write_len: check_chunk(returned, offered.iter().copied())?,
    })
}

/// Returns by how many bytes, if they can be round-up, a chunk of `returned` bytes is longer than
/// what was offered.
fn excess(returned: u64, offered: &[Segment]) -> u32 {
    let room = offered
        .iter()
        .fold(0u64, |sum, s| sum.saturating_add(u64::from(s.length)));
    match returned.checked_sub(room) {
        // CAST: at most 3.
        Some(excess @ 1..4) if returned % 4 == 0 => excess as u32,
        _ => 0,
    }
}
