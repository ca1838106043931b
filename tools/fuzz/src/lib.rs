// SPDX-License-Identifier: GPL-2.0

//! What the fuzz targets share.

use rpcrdma_proto::wire::{EncodeError, Lists, ReadListWriter};

/// Writes decoded chunk lists out again.
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
pub fn encode_lists(
    writer: Result<ReadListWriter<'_>, EncodeError>,
    lists: &Lists<'_>,
) -> Result<usize, EncodeError> {
    let mut w = writer?;
    for r in lists.read_list() {
        w.segment(r.position, r.segment)?;
    }
    let mut w = w.write_list()?;
    for chunk in lists.write_list() {
        let mut c = w.chunk()?;
        for s in chunk.segments() {
            c.segment(s)?;
        }
        w = c.end();
    }
    let w = w.reply_chunk()?;
    let Some(chunk) = lists.reply_chunk() else {
        return w.finish();
    };
    let mut c = w.chunk()?;
    for s in chunk.segments() {
        c.segment(s)?;
    }
    Ok(c.finish())
}
