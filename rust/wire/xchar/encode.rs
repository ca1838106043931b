// SPDX-License-Identifier: GPL-2.0

//! Encodes the four operations.
//!
//! The caller passes no subsets: each element says whether it belongs to one. A subset therefore
//! cannot name an element that its list lacks, and the three subsets of a response cannot overlap
//! or omit an element.

use super::super::v2::{self, OptionalWriter};
use super::super::{Direction, EncodeError};
use super::subset::bit;
use super::{Characteristic, Disposition, OpType};

/// An element of INIT_XCHAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
//= XC-4.1-5 not expected to change
pub struct Initial<'a> {
    /// The characteristic.
    pub value: Characteristic<'a>,
    /// Whether it is not expected to change while the connection lasts.
    pub fixed: bool,
}

/// Writes INIT_XCHAR (section 4.1). Returns the length. As the first message of a connection
/// it must not be longer than [`v2::FIRST_MESSAGE_MAX`]: give it a buffer of that size.
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
pub fn init(
    buf: &mut [u8],
    xid: u32,
    credits: u32,
    direction: Direction,
    start: &[Initial<'_>],
) -> Result<usize, EncodeError> {
    let mut w = v2::optional(buf, xid, credits, direction, OpType::Init.number())?;
    spec(&mut w, start.iter().map(|i| i.value))?;
    subset(&mut w, start.iter().map(|i| i.fixed))?;
    w.finish()
}

/// Writes REQ_XCHAR (section 4.2). Returns the length.
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
//= V2-4.2.2-5 without an RPC message
pub fn request(
    buf: &mut [u8],
    xid: u32,
    credits: u32,
    want: &[Characteristic<'_>],
) -> Result<usize, EncodeError> {
    let op = OpType::Request.number();
    let mut w = v2::optional(buf, xid, credits, Direction::Call, op)?;
    spec(&mut w, want.iter().copied())?;
    w.finish()
}

/// Writes RESP_XCHAR (section 4.3), one disposition for each element of the request. `xid` is the
/// request's. Returns the length.
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
pub fn respond(
    buf: &mut [u8],
    xid: u32,
    credits: u32,
    dispositions: impl DoubleEndedIterator<Item = Disposition> + ExactSizeIterator + Clone,
) -> Result<usize, EncodeError> {
    let op = OpType::Response.number();
    let mut w = v2::optional(buf, xid, credits, Direction::Reply, op)?;
    for which in [
        Disposition::Done,
        Disposition::Rejected,
        Disposition::Pending,
    ] {
        subset(&mut w, dispositions.clone().map(|d| d == which))?;
    }
    w.finish()
}

/// Writes UPD_XCHAR (section 4.4). Returns the length.
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
pub fn update(
    buf: &mut [u8],
    xid: u32,
    credits: u32,
    direction: Direction,
    now: &Characteristic<'_>,
    pending_cleared: bool,
) -> Result<usize, EncodeError> {
    let mut w = v2::optional(buf, xid, credits, direction, OpType::Update.number())?;
    value(&mut w, now)?;
    w.word(u32::from(pending_cleared))?;
    w.finish()
}

fn spec<'a>(
    w: &mut OptionalWriter<'_>,
    values: impl ExactSizeIterator<Item = Characteristic<'a>>,
) -> Result<(), EncodeError> {
    w.word(u32::try_from(values.len()).map_err(|_| EncodeError::NoRoom)?)?;
    for v in values {
        value(w, &v)?;
    }
    Ok(())
}

fn value(w: &mut OptionalWriter<'_>, value: &Characteristic<'_>) -> Result<(), EncodeError> {
    w.word(value.id().0)?;
    match *value {
        Characteristic::ReceiveBufferSize(bytes) | Characteristic::PreferredThreshold(bytes) => {
            w.opaque(&bytes.to_be_bytes())
        }
        Characteristic::RemoteInvalidation(ready) => w.opaque(&u32::from(ready).to_be_bytes()),
        // CAST: the discriminants of a `repr(u32)` enum.
        Characteristic::BackwardSupport(level) => w.opaque(&(level as u32).to_be_bytes()),
        Characteristic::Other { data, .. } => w.opaque(data),
    }
}

/// Writes the subset of the elements that are `true`, without words after the last one.
fn subset(
    w: &mut OptionalWriter<'_>,
    elements: impl DoubleEndedIterator<Item = bool> + ExactSizeIterator + Clone,
) -> Result<(), EncodeError> {
    let last = elements.clone().rposition(|member| member);
    let words = last.map_or(0, |last| (last / 32).saturating_add(1));
    w.word(u32::try_from(words).map_err(|_| EncodeError::NoRoom)?)?;
    let mut elements = elements;
    for _ in 0..words {
        let word =
            (0..32).zip(elements.by_ref()).fold(
                0,
                |mask, (n, member)| if member { mask | bit(n) } else { mask },
            );
        w.word(word)?;
    }
    Ok(())
}
