// SPDX-License-Identifier: GPL-2.0

//! Cases of RDMA_MSGP: where padding is found, and where it is not.

use super::super::super::wire::{Limits, Message};
use super::super::legacy::padded::{Padded, Unfit};
use super::ensure;

type Check = Result<(), &'static str>;

const XID: u32 = 0x0bad_cafe;
/// A word of padding, as senders need not write zeros.
const PAD: u32 = 0x5555_5555;
/// The program and the versions of NFS, and a program that is not known.
pub(super) const NFS: u32 = 100_003;
pub(super) const OTHER: u32 = 200_000;
/// Words of the longest message.
const WORDS: usize = 64;
const BUF: usize = WORDS * 4;

/// A message under construction.
pub(super) struct Words {
    words: [u32; WORDS],
    len: usize,
}

impl Words {
    pub(super) fn new() -> Self {
        Self {
            words: [0; WORDS],
            len: 0,
        }
    }

    pub(super) fn add(&mut self, words: &[u32]) {
        for word in words {
            if let Some(place) = self.words.get_mut(self.len) {
                *place = *word;
                self.len = self.len.saturating_add(1);
            }
        }
    }

    /// Returns the number of words.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    fn bytes<'a>(&self, buf: &'a mut [u8; BUF]) -> &'a [u8] {
        for (place, word) in buf.chunks_exact_mut(4).zip(self.words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        buf.get(..self.len.saturating_mul(4)).unwrap_or_default()
    }
}

/// The RPC header of a call with AUTH_NONE, behind the XID and the direction.
pub(super) const fn rpc(program: u32, version: u32, procedure: u32) -> [u32; 10] {
    [XID, 0, 2, program, version, procedure, 0, 0, 0, 0]
}

/// A part of a message.
#[derive(Clone, Copy)]
enum Part<'a> {
    /// Words of the call.
    Keep(&'a [u32]),
    /// This number of words of padding.
    Pad(usize),
}

use Part::{Keep, Pad};

/// Returns an RDMA_MSGP with this RPC message. `numbers` are its alignment and its threshold.
fn padded(numbers: [u32; 2], rpc: &[Part<'_>]) -> Words {
    let mut words = Words::new();
    words.add(&[XID, 1, 32, 2]);
    words.add(&numbers);
    words.add(&[0, 0, 0]);
    for part in rpc {
        match part {
            Keep(part) => words.add(part),
            Pad(count) => words.add([PAD; 16].get(..*count).unwrap_or_default()),
        }
    }
    words
}

/// Returns the RDMA_MSG with this RPC message, without the padding.
fn plain(rpc: &[Part<'_>]) -> Words {
    let mut words = Words::new();
    words.add(&[XID, 1, 32, 0, 0, 0, 0]);
    for part in rpc {
        if let Keep(part) = part {
            words.add(part);
        }
    }
    words
}

/// Removes the padding of a message. Returns the error, or whether the result is `want`.
pub(super) fn outcome(message: &Words, want: &Words) -> Result<bool, Unfit> {
    let (mut buf, mut wanted) = ([0; BUF], [0; BUF]);
    let bytes = message.bytes(&mut buf);
    let decoded = Message::decode(bytes, &Limits::NONE).map_err(|_| Unfit::Type)?;
    let (mut got, mut len) = ([0; BUF], 0usize);
    Padded::new(bytes, &decoded)?.pieces(|piece| {
        for byte in piece {
            if let Some(place) = got.get_mut(len) {
                *place = *byte;
            }
            len = len.saturating_add(1);
        }
    })?;
    Ok(got.get(..len) == Some(want.bytes(&mut wanted)))
}

/// Returns whether exactly the padding of a call is removed.
fn is_found(numbers: [u32; 2], rpc: &[Part<'_>]) -> bool {
    outcome(&padded(numbers, rpc), &plain(rpc)) == Ok(true)
}

/// Returns why a call is refused.
fn refusal(numbers: [u32; 2], rpc: &[u32], arguments: &[u32]) -> Option<Unfit> {
    let call = padded(numbers, &[Keep(rpc), Keep(arguments)]);
    outcome(&call, &Words::new()).err()
}

/// Runs the cases.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 5666-3.9-1 alignment and threshold of RDMA_MSGP
//~ 5666-3.9-2 skips the padding before opaque data
pub fn check() -> Check {
    check_positions()?;
    check_items()?;
    check_security()?;
    check_numbers()?;
    check_bad()
}

/// The arguments of a WRITE of version 3 up to the data: a file handle of 4 bytes, offset, count,
/// stable, and the length of the data. The header of these messages has 36 bytes and the RPC header
/// 40, so the arguments begin at byte 76, and the data would begin at byte 104.
const WRITE3: [u32; 7] = [4, 0xf1, 0, 0, 16, 0, 16];

/// Checks where padding begins and ends: its origin is the first byte of the message.
fn check_positions() -> Check {
    let write = rpc(NFS, 3, 7);
    let (head, data) = (Keep(&WRITE3), Keep(&[1, 2, 3, 4]));
    for (align, pad) in [(4, 0), (8, 0), (16, 2), (32, 6), (64, 6)] {
        let call = [Keep(&write), head, Pad(pad), data];
        ensure!(is_found([align, 16], &call), "at the threshold");
        ensure!(is_found([align, 5], &call), "above the threshold");
    }
    let call = [Keep(&write), head, data];
    ensure!(is_found([64, 17], &call), "below the threshold");
    Ok(())
}

/// Checks calls of other versions, with several items, with XDR round-up, and with arguments that
/// are not known.
fn check_items() -> Check {
    let four = rpc(NFS, 4, 1);
    let call = [
        Keep(&four),
        // An empty tag, minor version 1, SEQUENCE, and PUTFH with a handle of 8 bytes.
        Keep(&[0, 1, 4, 53, 1, 1, 1, 1, 1, 0, 0, 0, 22, 8]),
        // From byte 132 to byte 144.
        Pad(3),
        // WRITE of 5 bytes.
        Keep(&[7, 8, 38, 0, 0, 0, 0, 0, 0, 2, 5]),
        // From byte 188 to byte 192.
        Pad(1),
        // GETATTR behind the data.
        Keep(&[9, 10, 9, 1, 0x18]),
    ];
    ensure!(is_found([16, 5], &call), "version 4");
    let two = rpc(NFS, 2, 8);
    let call = [
        Keep(&two),
        Keep(&[1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 4]),
        // From byte 124 to byte 128.
        Pad(1),
        Keep(&[77]),
    ];
    ensure!(is_found([128, 4], &call), "version 2");
    // The mode of a SYMLINK is set, its owner is not, the size is not, and both times are.
    let symlink = rpc(NFS, 3, 10);
    let call = [
        Keep(&symlink),
        Keep(&[4, 0xf1, 1, 0x6100_0000]),
        Keep(&[1, 0o777, 0, 0, 0, 2, 5, 6, 2, 7, 8]),
        Keep(&[8]),
        // From byte 140 to byte 144.
        Pad(1),
        Keep(&[0x2f2f_2f2f, 0x2f2f_2f2f]),
    ];
    ensure!(is_found([16, 8], &call), "symbolic link");
    let other = rpc(OTHER, 1, 1);
    let call = [Keep(&other), Keep(&[4, 5, 6, 7])];
    ensure!(is_found([64, 16], &call), "too short for padding");
    ensure!(is_found([4, 0], &call), "alignment without padding");
    Ok(())
}

/// Checks calls whose credential is opaque data with padding, and whose arguments are protected.
fn check_security() -> Check {
    let head = [XID, 0, 2, NFS, 3, 7, 6, 20];
    for (procedure, service) in [(0, 2), (0, 3), (1, 1), (2, 1)] {
        let gss = [1, procedure, 9, service, 0];
        let call = [
            Keep(&head),
            // From byte 68 to byte 128.
            Pad(15),
            Keep(&gss),
            // The verifier, and an opaque item in place of the arguments.
            Keep(&[0, 0, 16]),
            // From byte 160 to byte 192.
            Pad(8),
            Keep(&[1, 2, 3, 4, 0]),
        ];
        ensure!(is_found([64, 16], &call), "RPCSEC_GSS");
    }
    let plain = [0, 0, 16, 1, 2, 3, 4];
    let call = [Keep(&head), Pad(15), Keep(&[1, 0, 9, 1, 0]), Keep(&plain)];
    ensure!(
        outcome(&padded([64, 20], &call), &Words::new()) == Err(Unfit::Truncated),
        "arguments that are not protected"
    );
    Ok(())
}

/// Checks the numbers of the header.
fn check_numbers() -> Check {
    let write = rpc(NFS, 3, 7);
    let call = [4, 0xf1, 0, 0, 16, 0, 16, 1, 2, 3, 4];
    for align in [0, 1, 2, 3, 12, u32::MAX] {
        let want = Some(Unfit::Align);
        ensure!(refusal([align, 16], &write, &call) == want, "alignment");
    }
    for align in [64, 1 << 31] {
        let want = Some(Unfit::Truncated);
        ensure!(refusal([align, 16], &write, &call) == want, "no padding");
    }
    ensure!(
        is_found([1 << 31, 17], &[Keep(&write), Keep(&call)]),
        "no data at the threshold"
    );
    Ok(())
}

/// Checks messages that are refused.
fn check_bad() -> Check {
    let (write, four) = (rpc(NFS, 3, 7), rpc(NFS, 4, 1));
    let truncated = Some(Unfit::Truncated);
    let long = [4, 0xf1, 0, 0, 16, 0, u32::MAX, 1, 2, 3, 4];
    ensure!(refusal([8, 16], &write, &long) == truncated, "long data");
    let endless = [0, 1, u32::MAX, 10, 10];
    ensure!(refusal([8, 16], &four, &endless) == truncated, "operations");
    let unknown = Some(Unfit::Unknown);
    let data = [16, 1, 2, 3, 4];
    let other = rpc(OTHER, 1, 1);
    ensure!(refusal([8, 16], &other, &data) == unknown, "program");
    let open = [0, 0, 1, 18, 16, 1, 2, 3, 4, 5];
    ensure!(refusal([8, 16], &four, &open) == unknown, "operation");
    let reply = [XID, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    ensure!(refusal([8, 16], &reply, &[]) == Some(Unfit::Type), "reply");
    let mut reads = Words::new();
    reads.add(&[XID, 1, 32, 2, 8, 16, 1, 40, 1, 8, 0, 0, 0, 0, 0]);
    reads.add(&write);
    let refused = outcome(&reads, &Words::new());
    ensure!(refused == Err(Unfit::ReadList), "read chunks");
    Ok(())
}
