// SPDX-License-Identifier: GPL-2.0

//! Headers of RPC calls: where the arguments begin, and whether they are wrapped.

use super::super::rpc::CallHeader;
use super::ensure;

/// Bytes of the longest header of the cases.
const BUF: usize = 1024;

/// Credential and verifier: flavor and length of each. The length of the header, if it is one.
type Lengths = ((u32, u32), (u32, u32), Option<u32>);

const LENGTHS: [Lengths; 9] = [
    ((0, 0), (0, 0), Some(40)),
    ((1, 24), (0, 0), Some(64)),
    // Bodies are padded to whole words.
    ((1, 21), (0, 1), Some(68)),
    ((6, 24), (6, 37), Some(104)),
    ((1, 400), (6, 400), Some(840)),
    ((1, 401), (0, 0), None),
    ((1, 0), (6, 401), None),
    ((1, u32::MAX), (0, 0), None),
    ((1, 0), (0, u32::MAX), None),
];

/// Credentials of RPCSEC_GSS: procedure, service, and whether the arguments are wrapped.
const SERVICES: [(u32, u32, bool); 6] = [
    (0, 1, false),
    (0, 2, true),
    (0, 3, true),
    (0, 4, false),
    (1, 1, true),
    (3, 3, true),
];

/// Writes words to `buf` from byte `at` on.
fn write(buf: &mut [u8; BUF], at: usize, words: &[u32]) {
    let places = buf.get_mut(at..).unwrap_or_default().chunks_exact_mut(4);
    for (place, word) in places.zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
}

/// Runs the cases.
///
/// # Errors
///
/// The name of the first case that fails.
pub fn check() -> Result<(), &'static str> {
    for ((flavor, body), (other, verifier), want) in LENGTHS {
        let mut buf = [0; BUF];
        write(&mut buf, 24, &[flavor, body]);
        // CAST: `usize` has at least 32 bits.
        let at = body.min(400).next_multiple_of(4).saturating_add(32) as usize;
        write(&mut buf, at, &[other, verifier]);
        let header = CallHeader::peek(&buf);
        ensure!(header.map(|header| header.len) == want, "length");
        for len in 0..at.saturating_add(8) {
            let cut = CallHeader::peek(buf.get(..len).unwrap_or_default());
            ensure!(cut.is_none(), "cut off");
        }
        // The body of the verifier need not be there.
        let short = buf.get(..at.saturating_add(8)).unwrap_or_default();
        ensure!(CallHeader::peek(short) == header, "without the last body");
    }
    check_services()
}

fn check_services() -> Result<(), &'static str> {
    for (procedure, service, wrapped) in SERVICES {
        for (flavor, gss) in [(6, true), (1, false)] {
            let mut buf = [0; BUF];
            write(&mut buf, 24, &[flavor, 24, 1, procedure, 7, service, 4, 9]);
            let header = CallHeader::peek(&buf).map(|header| header.wrapped);
            ensure!(header == Some(gss && wrapped), "wrapped arguments");
        }
    }
    Ok(())
}
