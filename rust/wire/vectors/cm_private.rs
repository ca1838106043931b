// SPDX-License-Identifier: GPL-2.0

//! CM private data, RFC 8797 section 4.

use super::super::cm_private::{decode, encode, PrivateData, Settings, Size, Versions};
use super::super::Version;
use super::ensure;

/// Remote invalidation, send 4096, receive 65536.
const PLAIN: [u8; 8] = [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 63];

const SETTINGS: Settings = Settings {
    remote_invalidation: true,
    send: Size::from_bytes(4096),
    receive: Size::from_bytes(65536),
    versions: None,
};

/// The same settings, then the second format: versions one to two.
const WITH_VERSIONS: [u8; 16] = [
    0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 63, //
    0xb5, 0x42, 0xa3, 0x2c, 1, 0, 1, 2,
];

/// The same, and the sizes hold in both versions.
const WITH_SIZES: [u8; 16] = [
    0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 63, //
    0xb5, 0x42, 0xa3, 0x2c, 1, 1, 1, 2,
];

/// Bytes of other layers around both formats and between them; the reserved bits are set, S is not.
const VERSIONS_EMBEDDED: [u8; 32] = [
    0x80, 0x10, 0x80, 0x10, 0xb5, // another layer
    0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 63, //
    0xb5, 0x42, 0xb5, 0x42, 0xa3, // another layer
    0xb5, 0x42, 0xa3, 0x2c, 1, 0xfe, 2, 255, //
    0, 0, 0, 0, 0, 0,
];

/// Six bytes of another layer before the message, padding after it.
const EMBEDDED: [u8; 20] = [
    0x40, 0x10, 0x80, 0x10, 0xf6, 0xab, //
    0xf6, 0xab, 0x0e, 0x18, 1, 0xfe, 0, 255, //
    0, 0, 0, 0, 0, 0,
];

/// Another layer's data alone, with some bytes of the identifier.
const FOREIGN: [u8; 12] = [0xf6, 0xab, 0x0e, 0x19, 1, 1, 3, 63, 0xf6, 0xab, 0x0e, 0x18];

/// A later format version, then a message of version one.
const TWO_FORMATS: [u8; 16] = [
    0xf6, 0xab, 0x0e, 0x18, 2, 1, 9, 9, //
    0xf6, 0xab, 0x0e, 0x18, 1, 0, 0, 1,
];

/// Runs the vectors.
///
/// # Errors
///
/// The name of the first vector that fails.
//~ 8797-4-2 senders set reserved bits to zero
//~ 8797-4-3 receivers ignore reserved bits
//~ 8797-4-5 takes up the first eight octets
//~ 8797-5-1 other layers are passed over
//~ 8797-6-1 later formats are passed over
pub fn check() -> Result<(), &'static str> {
    ensure!(encode(SETTINGS) == PLAIN, "encode");
    ensure!(decode(&PLAIN) == Some(SETTINGS), "plain");
    let embedded = Settings {
        remote_invalidation: false,
        send: Size::MIN,
        receive: Size::MAX,
        versions: None,
    };
    ensure!(decode(&EMBEDDED) == Some(embedded), "embedded");
    check_flags()?;
    ensure!(decode(&FOREIGN).is_none(), "other layers' data alone");
    let second = Settings {
        receive: Size::from_bytes(2048),
        ..Settings::DEFAULT
    };
    ensure!(decode(&TWO_FORMATS) == Some(second), "two formats");
    check_absent()?;
    check_sizes()?;
    check_versions()?;
    check_no_versions()?;
    check_in_version_two()
}

/// Each flag, with R and without: only R counts.
//~ 8797-4-3 receivers ignore reserved bits
fn check_flags() -> Result<(), &'static str> {
    let [m0, m1, m2, m3, version, _, send, receive] = PLAIN;
    for flags in 0..=u8::MAX {
        let bytes = [m0, m1, m2, m3, version, flags, send, receive];
        let want = Settings {
            remote_invalidation: flags % 2 == 1,
            ..SETTINGS
        };
        ensure!(decode(&bytes) == Some(want), "flags");
    }
    Ok(())
}

//~ 8797-4-4 exactly eight octets
//~ 8797-4-6 field too short for message
//~ 8797-5.1-1 without a valid message both 1024
//~ 8797-5.2-3 version number and length are checked
fn check_absent() -> Result<(), &'static str> {
    ensure!(decode(&[]).is_none(), "no private data");
    ensure!(decode(&[0; 56]).is_none(), "only padding");
    for len in 0..PLAIN.len() {
        let short = PLAIN.get(..len).unwrap_or_default();
        ensure!(decode(short).is_none(), "cut short");
    }
    let [first @ .., _, _, _, _, _, _, _, _] = &TWO_FORMATS;
    ensure!(decode(first).is_none(), "later version alone");
    ensure!(Settings::default() == Settings::DEFAULT, "default");
    Ok(())
}

/// The second format, as it is written and where it is found.
//~ 8797-4-5 takes up the first eight octets
//~ 8797-6-1 later formats are passed over
fn check_versions() -> Result<(), &'static str> {
    let one_to_two = Settings {
        versions: Versions::new(1, 2, false),
        ..SETTINGS
    };
    let later = Settings {
        versions: Versions::new(2, 255, false),
        ..SETTINGS
    };
    let encoded = PrivateData::new(one_to_two);
    ensure!(encoded.as_bytes() == WITH_VERSIONS, "encode both formats");
    let encoded = PrivateData::new(SETTINGS);
    ensure!(encoded.as_bytes() == PLAIN, "encode the first format alone");
    ensure!(encode(one_to_two) == PLAIN, "the first format of both");
    ensure!(decode(&WITH_VERSIONS) == Some(one_to_two), "both formats");
    ensure!(decode(&VERSIONS_EMBEDDED) == Some(later), "both embedded");
    let all = Settings {
        versions: Some(Versions::ALL),
        ..SETTINGS
    };
    let encoded = PrivateData::new(all);
    ensure!(encoded.as_bytes() == WITH_SIZES, "encode with sizes");
    ensure!(decode(&WITH_SIZES) == Some(all), "both, with sizes");
    let supports = |low, high| {
        let range = Versions::new(low, high, false)?;
        Some([Version::One, Version::Two].map(|version| range.contains(version)))
    };
    ensure!(supports(1, 1) == Some([true, false]), "version one only");
    ensure!(supports(1, 2) == Some([true, true]), "both versions");
    ensure!(
        supports(2, 9) == Some([false, true]),
        "version two and later"
    );
    ensure!(supports(3, 9) == Some([false, false]), "later versions");
    Ok(())
}

/// A second format that is not valid, or not behind the first one, says nothing. The first format
/// is read nevertheless.
//~ 8797-5-1 other layers are passed over
fn check_no_versions() -> Result<(), &'static str> {
    for len in 8..WITH_VERSIONS.len() {
        let short = WITH_VERSIONS.get(..len).unwrap_or_default();
        ensure!(decode(short) == Some(SETTINGS), "second format cut short");
    }
    // Offset and value of a byte: identifier, format version, lowest and highest version.
    for (at, byte) in [
        (8, 0xb4),
        (11, 0x2d),
        (12, 0),
        (12, 2),
        (14, 0),
        (14, 3),
        (15, 0),
    ] {
        let mut spoilt = WITH_VERSIONS;
        *spoilt.get_mut(at).ok_or("offset")? = byte;
        ensure!(decode(&spoilt) == Some(SETTINGS), "second format spoilt");
    }
    let mut swapped = WITH_VERSIONS;
    swapped.rotate_left(8);
    ensure!(
        decode(&swapped) == Some(SETTINGS),
        "formats in reverse order"
    );
    let [_, _, _, _, _, _, _, _, second @ ..] = &WITH_VERSIONS;
    ensure!(decode(second).is_none(), "second format alone");
    for (low, high) in [(0, 0), (0, 2), (2, 1), (255, 254)] {
        ensure!(Versions::new(low, high, true).is_none(), "impossible range");
    }
    Ok(())
}

/// The sizes hold in version two if S says so and version two is supported. None is below 4096.
//~ V2-2.3-4 may tell the threshold
fn check_in_version_two() -> Result<(), &'static str> {
    let sizes = |low, high, s| {
        let versions = Versions::new(low, high, s);
        Settings {
            versions,
            ..SETTINGS
        }
        .in_version_two()
    };
    ensure!(sizes(1, 2, true) == Some((4096, 65536)), "both versions");
    ensure!(sizes(1, 2, false).is_none(), "without S");
    ensure!(sizes(1, 1, true).is_none(), "version one only");
    ensure!(SETTINGS.in_version_two().is_none(), "no second format");
    let small = Settings {
        send: Size::MIN,
        receive: Size::MIN,
        versions: Some(Versions::ALL),
        ..SETTINGS
    };
    ensure!(small.in_version_two() == Some((4096, 4096)), "the default");
    Ok(())
}

//~ 8797-4.2-1 sizes from 1024 to 262144
fn check_sizes() -> Result<(), &'static str> {
    const CASES: [(u32, u8, u32); 9] = [
        (0, 0, 1024),
        (1023, 0, 1024),
        (1024, 0, 1024),
        (2047, 0, 1024),
        (2048, 1, 2048),
        (4096, 3, 4096),
        (262_144, 255, 262_144),
        (262_145, 255, 262_144),
        (u32::MAX, 255, 262_144),
    ];
    for (from, code, bytes) in CASES {
        let size = Size::from_bytes(from);
        ensure!(size.code() == code && size.bytes() == bytes, "size");
        ensure!(Size::from_code(code) == size, "size from code");
    }
    Ok(())
}
