// SPDX-License-Identifier: GPL-2.0

//! CM private data, RFC 8797 section 4.

use super::super::cm_private::{decode, encode, Settings, Size};
use super::ensure;

/// Remote invalidation, send 4096, receive 65536.
const PLAIN: [u8; 8] = [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 63];

const SETTINGS: Settings = Settings {
    remote_invalidation: true,
    send: Size::from_bytes(4096),
    receive: Size::from_bytes(65536),
};

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
    };
    ensure!(decode(&EMBEDDED) == Some(embedded), "embedded");
    ensure!(decode(&FOREIGN).is_none(), "other layers' data alone");
    let second = Settings {
        receive: Size::from_bytes(2048),
        ..Settings::DEFAULT
    };
    ensure!(decode(&TWO_FORMATS) == Some(second), "two formats");
    check_absent()?;
    check_sizes()
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
