// SPDX-License-Identifier: GPL-2.0

//! A second format of private data: the versions of RPC-over-RDMA that the sender supports.
//!
//! ```text
//! byte  0 1 2 3      4           5                    6       7
//!       b5 42 a3 2c  version=1   reserved (7), S (1)  lowest  highest
//! ```
//!
//! S: the sizes of the first format hold in version two as well, from the first message on
//! (Documentation/wire.rst, "Versions in private data").
//!
//! RFC 8797 section 6 permits new formats with their own identifiers. This format is experimental:
//! it has no entry in the registry of section 8. It follows the eight bytes of the first format, at
//! any offset. Peers that know only the first format read its eight bytes and nothing else. Both
//! formats take 16 bytes. The field is smallest in a request of the InfiniBand connection manager,
//! with 56 bytes.
//!
//! The identifier is the first four bytes of the SHA-256 digest of the text "RPC-over-RDMA CM
//! private data: supported versions". It cannot be confused with the bytes around it: it shares no
//! byte with the first format's identifier, none of its bytes is zero as padding is, and its first
//! byte differs from all fixed bytes of the first format.
//!
//! A format that is absent, truncated, of another format version, or with an impossible range is
//! ignored. The peer is then treated as one that knows only the first format.

use super::super::Version;

/// Format identifier, first word of the format.
pub const MAGIC: u32 = 0xb542_a32c;

/// The only version of this format.
pub const FORMAT_VERSION: u8 = 1;

/// Length of the format in bytes.
pub const LEN: usize = 8;

const FLAG_SIZES: u8 = 1;

/// An inclusive range of versions of RPC-over-RDMA. It is not empty and does not begin with zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    low: u8,
    high: u8,
    /// S: the sizes of the first format hold in version two as well.
    sizes: bool,
}

impl Versions {
    /// All versions that this implementation supports, with sizes that hold in all of them.
    pub const ALL: Self = Self {
        // CAST: the numbers are 1 and 2.
        low: Version::One.number() as u8,
        high: Version::Two.number() as u8,
        sizes: true,
    };

    /// Returns the range from `low` to `high`. `None` if it is empty or begins with zero.
    pub const fn new(low: u8, high: u8, sizes: bool) -> Option<Self> {
        if low == 0 || low > high {
            return None;
        }
        Some(Self { low, high, sizes })
    }

    /// Returns whether the sizes of the first format hold in version two as well.
    pub const fn hold_sizes(self) -> bool {
        self.sizes && self.contains(Version::Two)
    }

    /// Returns whether the range contains `version`.
    pub const fn contains(self, version: Version) -> bool {
        let number = version.number();
        // CAST: widening; `From` is not const.
        self.low as u32 <= number && number <= self.high as u32
    }
}

/// Encodes the format.
pub(super) const fn encode(versions: Versions) -> [u8; LEN] {
    let [m0, m1, m2, m3] = MAGIC.to_be_bytes();
    let Versions { low, high, sizes } = versions;
    let flags = if sizes { FLAG_SIZES } else { 0 };
    [m0, m1, m2, m3, FORMAT_VERSION, flags, low, high]
}

/// Finds and decodes the format in the bytes behind the first format. Reserved bits are ignored.
pub(super) fn decode(behind: &[u8]) -> Option<Versions> {
    behind.windows(LEN).find_map(decode_here)
}

fn decode_here(window: &[u8]) -> Option<Versions> {
    let &[m0, m1, m2, m3, version, flags, low, high] = window else {
        return None;
    };
    if u32::from_be_bytes([m0, m1, m2, m3]) != MAGIC || version != FORMAT_VERSION {
        return None;
    }
    Versions::new(low, high, flags & FLAG_SIZES != 0)
}
