// SPDX-License-Identifier: GPL-2.0

//! CM Private Data for RPC-over-RDMA version one: RFC 8797.
//!
//! ```text
//! byte  0 1 2 3      4        5                    6          7
//!       f6 ab 0e 18  version  reserved (7), R (1)  send size  receive size
//! ```
//!
//! A size byte `b` stands for `(b + 1) * 1024` bytes. The eight bytes may lie at any offset within
//! the private data. Data of other layers may surround them: some transports put their own data in
//! front, and all append padding.
//!
//! A second format may follow, which names the versions of RPC-over-RDMA that the sender supports
//! (file `cm_private/versions.rs`).

use super::Version;

mod versions;

pub use versions::{Versions, LEN as VERSIONS_LEN};

/// Format identifier, first word of the message (section 4).
pub const MAGIC: u32 = 0xf6ab_0e18;

/// The only format version that this module knows (section 4).
pub const FORMAT_VERSION: u8 = 1;

/// Length of the message in bytes.
//= 8797-4-4 exactly eight octets
pub const LEN: usize = 8;

const FLAG_REMOTE_INVALIDATION: u8 = 1;

/// The settings that a peer announces when a connection is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// R: the peer supports remote invalidation (section 4.1).
    pub remote_invalidation: bool,
    /// The maximum length of a message that the peer sends.
    pub send: Size,
    /// The maximum length of a message that the peer can receive.
    pub receive: Size,
    /// The versions of RPC-over-RDMA that the peer supports. `None` if the peer has sent no valid
    /// second format.
    pub versions: Option<Versions>,
}

impl Settings {
    /// The settings to assume for a peer that sends no valid message (section 5.1).
    //= 8797-5.1-1 without a valid message both 1024
    pub const DEFAULT: Self = Self {
        remote_invalidation: false,
        send: Size::MIN,
        receive: Size::MIN,
        versions: None,
    };

    /// Returns whether the peer has announced version two.
    pub fn supports_two(&self) -> bool {
        self.versions
            .is_some_and(|versions| versions.contains(Version::Two))
    }

    /// Returns the peer's send size and receive size in version two from the first message on, if
    /// they hold there. Neither is below the default of version two.
    pub fn in_version_two(&self) -> Option<(u32, u32)> {
        let holds = self.versions.is_some_and(Versions::hold_sizes);
        let least = Version::Two.default_inline();
        holds.then(|| {
            (
                self.send.bytes().max(least),
                self.receive.bytes().max(least),
            )
        })
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A message size that the format can express: a multiple of 1024 from 1024 to 262144 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(u8);

impl Size {
    /// 1024 bytes.
    pub const MIN: Self = Self(0);

    /// 262144 bytes.
    pub const MAX: Self = Self(u8::MAX);

    /// Returns the largest expressible size not above `bytes`, but at least [`Size::MIN`], which
    /// every version-one peer must support.
    //= 8797-4.2-1 sizes from 1024 to 262144
    pub const fn from_bytes(bytes: u32) -> Self {
        let kilo = bytes / 1024;
        if kilo == 0 {
            Self::MIN
        } else if kilo > 256 {
            Self::MAX
        } else {
            // CAST: 1..=256 less one fits.
            Self((kilo.wrapping_sub(1)) as u8)
        }
    }

    /// Returns the size with this encoding (section 4.2).
    pub const fn from_code(code: u8) -> Self {
        Self(code)
    }

    /// Returns the encoding of this size.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Returns the size in bytes.
    pub const fn bytes(self) -> u32 {
        // CAST: widening; `From` is not const. 256 * 1024 fits.
        (self.0 as u32).wrapping_add(1).wrapping_mul(1024)
    }
}

/// Encodes the first format alone, without the versions.
//= 8797-4-2 senders set reserved bits to zero
//= 8797-4-5 takes up the first eight octets
pub const fn encode(settings: Settings) -> [u8; LEN] {
    let [m0, m1, m2, m3] = MAGIC.to_be_bytes();
    let flags = if settings.remote_invalidation {
        FLAG_REMOTE_INVALIDATION
    } else {
        0
    };
    let (send, receive) = (settings.send.code(), settings.receive.code());
    [m0, m1, m2, m3, FORMAT_VERSION, flags, send, receive]
}

/// Maximum number of bytes of [`PrivateData`].
pub const MAX_LEN: usize = LEN.wrapping_add(VERSIONS_LEN);

/// Encoded private data: the first format, and the second one if the settings have versions.
#[derive(Clone, Copy, Debug)]
pub struct PrivateData {
    bytes: [u8; MAX_LEN],
    len: usize,
}

impl PrivateData {
    /// Encodes `settings`. Without versions the bytes are those of [`encode`].
    pub fn new(settings: Settings) -> Self {
        let second = settings.versions.map(versions::encode);
        let both = encode(settings)
            .into_iter()
            .chain(second.unwrap_or_default());
        let mut bytes = [0; MAX_LEN];
        for (to, from) in bytes.iter_mut().zip(both) {
            *to = from;
        }
        let len = if second.is_some() { MAX_LEN } else { LEN };
        Self { bytes, len }
    }

    /// Returns the bytes to pass to the connection manager.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }
}

/// Finds and decodes the settings in a connection's private data.
///
/// Takes the first match that is complete and has a known version. An identifier that is followed
/// by another version is skipped, since it may be other layers' data (sections 5.2 and 7). Reserved
/// flags are ignored. `None` means that [`Settings::DEFAULT`] applies. The versions are those of
/// the second format, which is searched behind the first one in the same way.
//= 8797-4-6 field too short for message
//= 8797-5-1 other layers are passed over
//= 8797-5.2-1 format identifier at any offset
//= 8797-5.2-2 without the identifier no private data
//= 8797-6-1 later formats are passed over
pub fn decode(private_data: &[u8]) -> Option<Settings> {
    let mut places = private_data.windows(LEN).enumerate();
    let (at, first) = places.find_map(|(at, window)| Some((at, decode_here(window)?)))?;
    let behind = private_data.get(at.wrapping_add(LEN)..).unwrap_or_default();
    Some(Settings {
        versions: versions::decode(behind),
        ..first
    })
}

//= 8797-4-3 receivers ignore reserved bits
//= 8797-5.2-3 version number and length are checked
fn decode_here(window: &[u8]) -> Option<Settings> {
    let &[m0, m1, m2, m3, version, flags, send, receive] = window else {
        return None;
    };
    let found = u32::from_be_bytes([m0, m1, m2, m3]) == MAGIC && version == FORMAT_VERSION;
    found.then_some(Settings {
        remote_invalidation: flags & FLAG_REMOTE_INVALIDATION != 0,
        send: Size::from_code(send),
        receive: Size::from_code(receive),
        versions: None,
    })
}
