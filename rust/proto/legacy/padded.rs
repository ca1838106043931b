// SPDX-License-Identifier: GPL-2.0

//! The padding of an RDMA_MSGP, and its removal by the receiver: RFC 5666 section 3.9.
//!
//! The receiver must skip the padding before each opaque item of at least `thresh` bytes. The
//! length of the padding follows from the item's position, so every item before it must be found:
//! those of the RPC header, and those that [`super::binding`] knows. Positions count from the first
//! byte of the transport header, because the sender pads for the sake of the Receive buffer, which
//! begins there.
//!
//! Where the arguments are not known, or end before the message does, the rest is copied unchanged
//! if it is too short for an item of `thresh` bytes. Otherwise the message is refused: the upper
//! layer would get padding as data.
//!
//! The sender inserts bytes before opaque data of at least `thresh` bytes, so that the data begin
//! at a multiple of `align` and fall into a Receive buffer of their own. The receiver finds the
//! same two numbers in the header and skips the padding.
//!
//! The text pads at sizes "at or above" the threshold, and skips where the length "exceeds" it. By
//! these words, padding of data of exactly `thresh` bytes is inserted and not skipped. In this
//! module both sides use the first reading.

use super::super::super::wire::message::Body;
use super::super::super::wire::v1::{len, PADDING};
use super::super::super::wire::{Direction, Message, Prefix, Proc, Version};
use super::super::inline::Thresholds;
use super::binding::{self, Item};

/// Why an RDMA_MSGP is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The message is not an RDMA_MSGP with a call.
    Type,
    /// The alignment is no power of two, or less than 4.
    Align,
    /// The message has read chunks beside its padding.
    ReadList,
    /// An item is longer than the message.
    Truncated,
    /// There may be opaque data at an unknown offset.
    Unknown,
}

impl Unfit {
    /// Returns the reason in words, for a trace event.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Type => "padding in no call",
            Self::Align => "alignment that is no power of two",
            Self::ReadList => "padding beside read chunks",
            Self::Truncated => "padding or data behind the end of the call",
            Self::Unknown => "padding whose place is not known",
        }
    }
}

/// The parts of the same call without padding, as an RDMA_MSG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padded<'a> {
    bytes: &'a [u8],
    padding: Padding,
    header_len: usize,
}

/// The words `align` and `thresh` of the header.
const NUMBERS: core::ops::Range<usize> = Prefix::LEN..Prefix::LEN + 8;

impl<'a> Padded<'a> {
    /// Takes a message of these `bytes`.
    ///
    /// # Errors
    ///
    /// [`Unfit::Type`], [`Unfit::Align`], [`Unfit::ReadList`].
    //= 5666-3.9-1 consults alignment and threshold of RDMA_MSGP
    pub fn new(bytes: &'a [u8], message: &Message<'a>) -> Result<Self, Unfit> {
        let Body::Msgp {
            align,
            thresh,
            lists,
            payload,
        } = *message.body()
        else {
            return Err(Unfit::Type);
        };
        if Direction::of_rpc(payload) != Some(Direction::Call) {
            return Err(Unfit::Type);
        }
        // RFC 5666 has no rule for the position of a chunk in a message with padding.
        if lists.read_list().next().is_some() {
            return Err(Unfit::ReadList);
        }
        Ok(Self {
            bytes,
            padding: Padding::new(align, thresh).ok_or(Unfit::Align)?,
            header_len: message.header_len(),
        })
    }

    /// Calls `f` for each piece of an RDMA_MSG with the same chunk lists and the same RPC message,
    /// but no padding. After an error the pieces are useless.
    ///
    /// # Errors
    ///
    /// [`Unfit::Truncated`], [`Unfit::Unknown`].
    pub fn pieces(&self, mut f: impl FnMut(&[u8])) -> Result<(), Unfit> {
        let proc = Prefix::LEN.saturating_sub(4);
        f(self.bytes.get(..proc).unwrap_or_default());
        // CAST: the discriminant of a `repr(u32)` enum.
        f(&(Proc::Msg as u32).to_be_bytes());
        let lists = self.bytes.get(NUMBERS.end..self.header_len);
        f(lists.unwrap_or_default());
        let mut walk = Walk {
            bytes: self.bytes,
            padding: self.padding,
            at: self.header_len,
            kept: self.header_len,
            f,
        };
        walk.call()?;
        walk.end()
    }
}

/// The padding of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// `rdma_align` in bytes.
    pub align: u32,
    /// `rdma_thresh` in bytes.
    pub thresh: u32,
    /// The bytes of padding before the payload.
    pub pad: u32,
}

/// Returns the padding of a call, if the call fits the threshold with it. The call is inline, and
/// its payload lies between head and tail, whose lengths are given in this order.
///
/// The threshold of the message is one byte less than the payload. The payload is then above it as
/// well as "at or above" it, and all other opaque data are below it: they are in head and tail,
/// which are shorter than the payload and also hold a length word for each item.
//= 5666-3.9-3 data that a sender pads
//= 5666-6.2-4 pad as the server recommends
pub fn room(
    padding: &Padding,
    (head, payload, tail): (u32, u32, u32),
    thresholds: &Thresholds,
) -> Option<Room> {
    if thresholds.version != Version::One || payload < padding.thresh() {
        return None;
    }
    if head >= payload || tail >= payload {
        return None;
    }
    // CAST: a small number.
    const HEADER: u32 = (len::MIN + PADDING) as u32;
    let pad = padding.before(head.saturating_add(HEADER), payload);
    let total = [head, payload, tail, pad]
        .into_iter()
        .try_fold(HEADER, u32::checked_add)?;
    let room = Room {
        align: padding.align(),
        thresh: payload.saturating_sub(1),
        pad,
    };
    (total <= thresholds.client_to_server).then_some(room)
}

/// Walks through the items of a call.
///
/// # Invariants
///
/// `kept <= at <= bytes.len()`. The bytes between `kept` and `at` are not padding, and have not
/// been passed to `f` yet.
struct Walk<'a, F> {
    bytes: &'a [u8],
    padding: Padding,
    at: usize,
    kept: usize,
    f: F,
}

/// RPCSEC_GSS (RFC 2203).
const GSS: u32 = 6;

/// The protection of the arguments of a call by RPCSEC_GSS.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protection {
    None,
    Integrity,
    Whole,
}

impl<'a, F: FnMut(&[u8])> Walk<'a, F> {
    /// Returns the bytes that are left.
    fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// Skips and returns `len` bytes.
    fn skip(&mut self, len: usize) -> Result<&'a [u8], Unfit> {
        let end = self.at.checked_add(len).ok_or(Unfit::Truncated)?;
        let skipped = self.bytes.get(self.at..end).ok_or(Unfit::Truncated)?;
        // INVARIANT: `end` is at most the length, and at least what `at` was.
        self.at = end;
        Ok(skipped)
    }

    /// Reads a word.
    fn word(&mut self) -> Result<u32, Unfit> {
        let word = self.skip(4)?.first_chunk().ok_or(Unfit::Truncated)?;
        Ok(u32::from_be_bytes(*word))
    }

    /// Reads an opaque item, and skips the padding before its data. Returns the data.
    //= 5666-3.9-2 skips the padding before opaque data
    fn opaque(&mut self) -> Result<&'a [u8], Unfit> {
        let len = self.word()?;
        let position = u32::try_from(self.at).map_err(|_| Unfit::Truncated)?;
        let pad = self.padding.before(position, len);
        if pad != 0 {
            self.emit();
            // CAST: `usize` has at least 32 bits.
            self.skip(pad as usize)?;
            // INVARIANT: the bytes before `at` are padding, or were emitted.
            self.kept = self.at;
        }
        let data = self.skip(len as usize)?;
        // CAST: at most 3.
        self.skip((len.wrapping_neg() % 4) as usize)?;
        Ok(data)
    }

    /// Passes the kept bytes to `f`.
    fn emit(&mut self) {
        let kept = self.bytes.get(self.kept..self.at).unwrap_or_default();
        (self.f)(kept);
        self.kept = self.at;
    }

    /// Walks through the RPC header and the arguments, as far as they are known.
    fn call(&mut self) -> Result<(), Unfit> {
        // XID, direction, and the version of RPC.
        self.skip(12)?;
        let (program, version, procedure) = (self.word()?, self.word()?, self.word()?);
        let flavor = self.word()?;
        let credential = self.opaque()?;
        self.word()?;
        self.opaque()?;
        match protection(flavor, credential) {
            Protection::Integrity => self.items(binding::PROTECTED),
            Protection::Whole => self.items(binding::WHOLE),
            Protection::None => match binding::arguments(program, version, procedure) {
                Some(items) => self.items(items),
                None => Ok(()),
            },
        }
    }

    fn items(&mut self, items: &[Item]) -> Result<(), Unfit> {
        items.iter().try_for_each(|item| self.item(*item))
    }

    /// Walks through the operations of a COMPOUND, up to the first unknown one.
    fn operations(&mut self) -> Result<(), Unfit> {
        // Each operation takes a word at least, so the count is bounded by the message.
        for _ in 0..self.word()? {
            let Some(items) = binding::operation(self.word()?) else {
                return Ok(());
            };
            self.items(items)?;
        }
        Ok(())
    }

    fn item(&mut self, item: Item) -> Result<(), Unfit> {
        match item {
            // CAST: `usize` has at least 32 bits, here and below.
            Item::Fixed(len) => self.skip(len as usize).map(drop),
            Item::Opaque => self.opaque().map(drop),
            Item::Words => {
                let count = self.word()? as usize;
                self.skip(count.saturating_mul(4)).map(drop)
            }
            Item::If { value, len } => {
                if self.word()? == value {
                    self.skip(len as usize)?;
                }
                Ok(())
            }
            Item::Attributes => self.items(&binding::SATTR3),
            Item::How => match self.word()? {
                2 => self.skip(8).map(drop),
                _ => self.items(&binding::SATTR3),
            },
            Item::Kind => match self.word()? {
                3 | 4 => self.skip(8).map(drop),
                5 => self.opaque().map(drop),
                _ => Ok(()),
            },
            // No operation has operations among its arguments, so this does not nest.
            Item::Operations => self.operations(),
        }
    }

    /// Keeps the rest unchanged.
    fn end(&mut self) -> Result<(), Unfit> {
        // CAST: `usize` has at least 32 bits.
        let item = (self.padding.thresh() as usize).saturating_add(4);
        if self.padding.align() > 4 && self.left() >= item {
            return Err(Unfit::Unknown);
        }
        self.at = self.bytes.len();
        self.emit();
        Ok(())
    }
}

/// Returns what the credential says about the arguments.
fn protection(flavor: u32, credential: &[u8]) -> Protection {
    let word = |bytes: &[u8]| bytes.first_chunk().copied().map_or(0, u32::from_be_bytes);
    let mut words = credential.chunks_exact(4).map(word);
    // Version, procedure, sequence number and service.
    let (_, procedure, _, service) = (words.next(), words.next(), words.next(), words.next());
    match (flavor, procedure, service) {
        (GSS, Some(0), Some(2)) => Protection::Integrity,
        (GSS, Some(0), Some(3)) | (GSS, Some(1..), _) => Protection::Whole,
        _ => Protection::None,
    }
}

/// The two numbers of an RDMA_MSGP header.
///
/// # Invariants
///
/// `align` is a power of two of at least 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padding {
    align: u32,
    thresh: u32,
}

impl Padding {
    /// Checks the numbers of a header or of a server's recommendation. `None`: the alignment is no
    /// power of two, as the lengths of buffers are, or less than an XDR unit.
    //= 5666-3.9-1 alignment and threshold of RDMA_MSGP
    pub const fn new(align: u32, thresh: u32) -> Option<Self> {
        if align >= 4 && align.is_power_of_two() {
            Some(Self { align, thresh })
        } else {
            None
        }
    }

    /// `rdma_align` in bytes.
    pub const fn align(&self) -> u32 {
        self.align
    }

    /// `rdma_thresh` in bytes.
    pub const fn thresh(&self) -> u32 {
        self.thresh
    }

    /// Returns the bytes of padding before opaque data of `len` bytes. Without padding the data
    /// would begin at `position` in the message as sent, earlier padding included. The result is
    /// less than the alignment.
    //= 5666-3.9-2 skips the padding before opaque data
    pub const fn before(&self, position: u32, len: u32) -> u32 {
        if len < self.thresh {
            return 0;
        }
        // The alignment is a power of two by the type invariant.
        position.wrapping_neg() & self.align.wrapping_sub(1)
    }
}
