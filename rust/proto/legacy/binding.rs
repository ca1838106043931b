// SPDX-License-Identifier: GPL-2.0

//! Where opaque data lies in the calls of NFS.
//!
//! A transport does not know the arguments of a call, but RFC 5666 demands that it skips the
//! padding before each opaque item of RDMA_MSGP (section 3.9). This table has the calls that
//! clients of that generation send: NFS version 2 and 3, and the operations of version 4 that stand
//! before or beside a WRITE. The data of all other calls are not found.

/// The NFS program.
const NFS: u32 = 100_003;

/// An XDR item, as far as its length is concerned. Strings and counted arrays of bytes are opaque
/// items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// This number of bytes.
    Fixed(u32),
    /// A length, and that many bytes.
    Opaque,
    /// A count, and that many words.
    Words,
    /// A discriminant, and this number of bytes if it has this value.
    If {
        /// The value.
        value: u32,
        /// Bytes.
        len: u32,
    },
    /// The attributes that NFS version 3 sets: `sattr3`.
    Attributes,
    /// How NFS version 3 creates a file: `createhow3`.
    How,
    /// The type of an object that version 4 creates, and what belongs to the type.
    Kind,
    /// The operations of a COMPOUND: their number, and each with its arguments.
    Operations,
}

use Item::{Attributes, Fixed, How, If, Kind, Opaque, Operations, Words};

const WORD: Item = Fixed(4);
const HYPER: Item = Fixed(8);
/// A file handle of version 2.
const FHANDLE: Item = Fixed(32);
/// `sattr` of version 2.
const SATTR: Item = Fixed(32);
/// A state ID or a session ID of version 4.
const STATE: Item = Fixed(16);
/// `set_mode3`, `set_uid3` and `set_gid3`.
const SET_WORD: Item = If { value: 1, len: 4 };
/// `set_size3` and `sattrguard3`.
const SET_HYPER: Item = If { value: 1, len: 8 };
/// `set_atime` and `set_mtime`: the client's time.
const SET_TIME: Item = If { value: 2, len: 8 };

/// The items of [`Item::Attributes`].
pub const SATTR3: [Item; 6] = [SET_WORD, SET_WORD, SET_WORD, SET_HYPER, SET_TIME, SET_TIME];

/// The arguments of a call whose data are protected for integrity: the data and the checksum.
pub const PROTECTED: &[Item] = &[Opaque, Opaque];

/// The arguments of a call that are one opaque item: those of RPCSEC_GSS.
pub const WHOLE: &[Item] = &[Opaque];

/// Returns the arguments of a procedure. `None` means that they are not known.
pub const fn arguments(program: u32, version: u32, procedure: u32) -> Option<&'static [Item]> {
    match (program, version) {
        (_, _) if procedure == 0 => Some(&[]),
        (NFS, 2) => two(procedure),
        (NFS, 3) => three(procedure),
        (NFS, 4) => Some(&[Opaque, WORD, Operations]),
        _ => None,
    }
}

const fn two(procedure: u32) -> Option<&'static [Item]> {
    Some(match procedure {
        1 | 5 | 17 => &[FHANDLE],
        2 => &[FHANDLE, SATTR],
        4 | 10 | 15 => &[FHANDLE, Opaque],
        6 => &[FHANDLE, WORD, WORD, WORD],
        8 => &[FHANDLE, WORD, WORD, WORD, Opaque],
        9 | 14 => &[FHANDLE, Opaque, SATTR],
        11 => &[FHANDLE, Opaque, FHANDLE, Opaque],
        12 => &[FHANDLE, FHANDLE, Opaque],
        13 => &[FHANDLE, Opaque, Opaque, SATTR],
        16 => &[FHANDLE, WORD, WORD],
        _ => return None,
    })
}

const fn three(procedure: u32) -> Option<&'static [Item]> {
    Some(match procedure {
        1 | 5 | 18 | 19 | 20 => &[Opaque],
        2 => &[Opaque, Attributes, SET_HYPER],
        3 | 12 | 13 => &[Opaque, Opaque],
        4 => &[Opaque, WORD],
        6 | 21 => &[Opaque, HYPER, WORD],
        7 => &[Opaque, HYPER, WORD, WORD, Opaque],
        8 => &[Opaque, Opaque, How],
        9 => &[Opaque, Opaque, Attributes],
        10 => &[Opaque, Opaque, Attributes, Opaque],
        14 => &[Opaque, Opaque, Opaque, Opaque],
        15 => &[Opaque, Opaque, Opaque],
        16 => &[Opaque, HYPER, HYPER, WORD],
        17 => &[Opaque, HYPER, HYPER, WORD, WORD],
        _ => return None,
    })
}

/// Returns the arguments of an operation of version 4. `None` means that they are not known.
pub const fn operation(number: u32) -> Option<&'static [Item]> {
    Some(match number {
        // ACCESS, and the operations without arguments: GETFH, LOOKUPP, PUTPUBFH, PUTROOTFH,
        // READLINK, RESTOREFH, SAVEFH.
        3 => &[WORD],
        10 | 16 | 23 | 24 | 27 | 31 | 32 => &[],
        // CLOSE, COMMIT, CREATE.
        4 => &[WORD, STATE],
        5 => &[HYPER, WORD],
        6 => &[Kind, Opaque, Words, Opaque],
        // GETATTR; LINK, LOOKUP, PUTFH, REMOVE, SECINFO; NVERIFY and VERIFY.
        9 => &[Words],
        11 | 15 | 22 | 28 | 33 => &[Opaque],
        17 | 37 => &[Words, Opaque],
        // READ, READDIR, RENAME, RENEW, SETATTR, WRITE, SEQUENCE.
        25 => &[STATE, HYPER, WORD],
        26 => &[HYPER, HYPER, WORD, WORD, Words],
        29 => &[Opaque, Opaque],
        30 => &[HYPER],
        34 => &[STATE, Words, Opaque],
        38 => &[STATE, HYPER, WORD, Opaque],
        53 => &[STATE, HYPER, HYPER],
        _ => return None,
    })
}
