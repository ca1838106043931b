// SPDX-License-Identifier: GPL-2.0

//! Calls of RDMA_MSGP with the arguments of every procedure of NFS whose arguments are known, from
//! the XDR of RFC 1094, 1813, 7530 and 8881. Each opaque item has 16 bytes, and padding before it.

use super::super::legacy::binding;
use super::ensure;
use super::padded::{outcome, rpc, Words, NFS, OTHER};

type Check = Result<(), &'static str>;

/// The header of these messages, but for the XID: their alignment and their threshold are 16.
const HEADER: [u32; 9] = [0, 1, 32, 2, 16, 16, 0, 0, 0];

/// The number of a procedure, and its arguments. One letter stands for one item:
///
/// - `o` opaque data, `n` a counted array of two words, `f` 32 bytes, `s` 16 bytes, `h` 8 bytes;
/// - `w` any word, a digit a word with this value, which says what follows.
type Procedure = (u32, &'static str);

const TWO: [Procedure; 15] = [
    (1, "f"),
    (2, "ff"),
    (4, "fo"),
    (5, "f"),
    (6, "fwww"),
    (8, "fwwwo"),
    (9, "fof"),
    (10, "fo"),
    (11, "fofo"),
    (12, "ffo"),
    (13, "foof"),
    (14, "fof"),
    (15, "fo"),
    (16, "fww"),
    (17, "f"),
];

/// Attributes that are set: all, none, and the server's time.
const THREE: [Procedure; 24] = [
    (1, "o"),
    (2, "o1w1w1w1h2h2h1h"),
    (2, "o0000000"),
    (2, "o1w000110"),
    (3, "oo"),
    (4, "ow"),
    (5, "o"),
    (6, "ohw"),
    (7, "ohwwo"),
    // CREATE: unchecked, guarded, exclusive.
    (8, "oo01w00000"),
    (8, "oo1000000"),
    (8, "oo2h"),
    (9, "oo1w00000"),
    (10, "oo1w00000o"),
    (12, "oo"),
    (13, "oo"),
    (14, "oooo"),
    (15, "ooo"),
    (16, "ohhw"),
    (17, "ohhww"),
    (18, "o"),
    (19, "o"),
    (20, "o"),
    (21, "ohw"),
];

/// Operations of a COMPOUND.
const OPERATIONS: [Procedure; 29] = [
    (3, "w"),
    (4, "ws"),
    (5, "hw"),
    // CREATE: a folder, a device of either kind, and a link with its text.
    (6, "2ono"),
    (6, "3hono"),
    (6, "4hono"),
    (6, "5oono"),
    (9, "n"),
    (10, ""),
    (11, "o"),
    (15, "o"),
    (16, ""),
    (17, "no"),
    (22, "o"),
    (23, ""),
    (24, ""),
    (25, "shw"),
    (26, "hhwwn"),
    (27, ""),
    (28, "o"),
    (29, "oo"),
    (30, "h"),
    (31, ""),
    (32, ""),
    (33, "o"),
    (34, "sno"),
    (37, "no"),
    (38, "shwo"),
    (53, "shh"),
];

/// A call with padding, and the same call without.
struct Pair {
    padded: Words,
    plain: Words,
}

impl Pair {
    fn new(version: u32, procedure: u32) -> Self {
        let mut pair = Self {
            padded: Words::new(),
            plain: Words::new(),
        };
        let header = rpc(NFS, version, procedure);
        let [xid, ..] = header;
        let [_, rest @ ..] = HEADER;
        pair.padded.add(&[xid]);
        pair.padded.add(&rest);
        pair.plain.add(&[xid, 1, 32, 0, 0, 0, 0]);
        pair.add(&header);
        pair
    }

    fn add(&mut self, words: &[u32]) {
        self.padded.add(words);
        self.plain.add(words);
    }

    fn items(&mut self, items: &str) {
        for item in items.bytes() {
            match item {
                b'o' => {
                    self.add(&[16]);
                    while self.padded.len() % 4 != 0 {
                        self.padded.add(&[0x5555_5555]);
                    }
                    self.add(&[1, 2, 3, 4]);
                }
                b'n' => self.add(&[2, 6, 7]),
                b'f' => self.add(&[9; 8]),
                b's' => self.add(&[9; 4]),
                b'h' => self.add(&[9; 2]),
                b'0'..=b'9' => self.add(&[u32::from(item.wrapping_sub(b'0'))]),
                _ => self.add(&[9]),
            }
        }
    }

    fn agrees(&self) -> bool {
        outcome(&self.padded, &self.plain) == Ok(true)
    }
}

/// Checks all procedures.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 5666-3.9-2 skips the padding before opaque data
pub fn check() -> Check {
    for (version, procedures) in [(2, &TWO[..]), (3, &THREE)] {
        for &(procedure, items) in procedures {
            let mut pair = Pair::new(version, procedure);
            pair.items(items);
            ensure!(pair.agrees(), "arguments of versions 2 and 3");
        }
    }
    for (operation, items) in OPERATIONS {
        // An empty tag, minor version 1, the operation, and PUTFH behind it.
        let mut pair = Pair::new(4, 1);
        pair.add(&[0, 1, 2, operation]);
        pair.items(items);
        pair.add(&[22]);
        pair.items("o");
        ensure!(pair.agrees(), "arguments of an operation");
    }
    let null = [(NFS, 3), (NFS, 9), (OTHER, 1)];
    let known = |(program, version)| binding::arguments(program, version, 0) == Some(&[]);
    ensure!(null.into_iter().all(known), "NULL has no arguments");
    Ok(())
}
