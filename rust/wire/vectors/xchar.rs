// SPDX-License-Identifier: GPL-2.0

//! Transport characteristics, from the XDR of their section 5.2.

use super::super::message::{Body, Message};
use super::super::xchar::value::Id;
use super::super::xchar::{
    init, request, respond, update, BackwardSupport, Characteristic, Disposition, Initial,
    Operation,
};
use super::super::{DecodeError, Direction, EncodeError, Limits, Version, What};
use super::ensure;

type Check = Result<(), &'static str>;

/// INIT_XCHAR: buffers of 8192, remote invalidation, an experiment of three bytes; all may change.
const INIT: [u8; 88] = [
    0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 32, 0, 0, 0, 5, // xid, vers, credits, proc
    0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 60, // CALL, INIT, 60 bytes
    0, 0, 0, 3, // three characteristics
    0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0x20, 0, // receive buffer size
    0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1, // requester remote invalidation
    0xff, 0xff, 0xff, 0x00, 0, 0, 0, 3, 7, 8, 9, 0, // experimental
    0, 0, 0, 4, // four words: more than needed, none of them set
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// The data of the same INIT_XCHAR as we write it: no change of elements 0, 1 and 2.
const INIT_OURS: [u8; 76] = [
    0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 32, 0, 0, 0, 5, //
    0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 48, // CALL, INIT, 48 bytes
    0, 0, 0, 3, //
    0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0x20, 0, //
    0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1, //
    0xff, 0xff, 0xff, 0x00, 0, 0, 0, 3, 7, 8, 9, 0, //
    0, 0, 0, 1, 0, 0, 0, 7, // one word: elements 0, 1, 2
];

/// REQ_XCHAR: buffers of 4096.
const REQUEST: [u8; 44] = [
    0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 5, //
    0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 16, //
    0, 0, 0, 1, //
    0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0x10, 0,
];

/// RESP_XCHAR to a request of three changes: the second is done, the third rejected, the first
/// pending.
const RESPONSE: [u8; 52] = [
    0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 5, //
    0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 24, // REPLY, RESP
    0, 0, 0, 1, 0, 0, 0, 2, // done
    0, 0, 0, 1, 0, 0, 0, 4, // rejected
    0, 0, 0, 1, 0, 0, 0, 1, // pending
];

/// UPD_XCHAR: general backward support, no longer pending.
const UPDATE: [u8; 44] = [
    0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 5, //
    0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 16, //
    0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 3, //
    0, 0, 0, 1,
];

const VALUES: [Characteristic<'_>; 3] = [
    Characteristic::ReceiveBufferSize(8192),
    Characteristic::RemoteInvalidation(true),
    Characteristic::Other {
        id: Id(0xffff_ff00),
        data: &[7, 8, 9],
    },
];

/// Decodes the operation in a message.
fn operation(message: &[u8]) -> Result<Operation<'_>, &'static str> {
    let message =
        Message::decode_as(Version::Two, message, &Limits::NONE).map_err(|_| "xchar: message")?;
    let Body::Optional {
        opttype,
        optinfo,
        payload,
        ..
    } = *message.body()
    else {
        return Err("xchar: no optional");
    };
    ensure!(payload.is_empty(), "xchar: no RPC message");
    let op = Operation::decode(opttype, optinfo).map_err(|_| "xchar: refused")?;
    op.ok_or("xchar: unknown")
}

/// Runs the vectors.
///
/// # Errors
///
/// The name of the first vector that fails.
pub fn check() -> Check {
    check_decode()?;
    check_encode()?;
    check_values()?;
    check_subsets()?;
    check_refuse()
}

//~ XC-2.1-6 words beyond last are zero
//~ XC-4-5 no RPC message follows these operations
//~ XC-4.1-5 not expected to change
//~ XC-6.1-1 not taken to be small
fn check_decode() -> Check {
    let Operation::Init { start, no_change } = operation(&INIT)? else {
        return Err("xchar: init");
    };
    ensure!(start.values().eq(VALUES), "xchar: start");
    ensure!(
        !(0..40).any(|n| no_change.contains(n)),
        "xchar: nothing fixed"
    );
    let Operation::Init { no_change, .. } = operation(&INIT_OURS)? else {
        return Err("xchar: init");
    };
    ensure!((0..3).all(|n| no_change.contains(n)), "xchar: fixed");
    ensure!(
        !no_change.contains(3) && !no_change.contains(99),
        "xchar: no more"
    );
    let Operation::Request { want } = operation(&REQUEST)? else {
        return Err("xchar: request");
    };
    ensure!(
        want.values().eq([Characteristic::ReceiveBufferSize(4096)]),
        "xchar: want"
    );
    let Operation::Response(response) = operation(&RESPONSE)? else {
        return Err("xchar: response");
    };
    ensure!(response.check(3) == Ok(()), "xchar: complete response");
    let got = [0, 1, 2].map(|n| response.disposition(n));
    let want = [
        Disposition::Pending,
        Disposition::Done,
        Disposition::Rejected,
    ];
    ensure!(got == want.map(Some), "xchar: dispositions");
    let now = Characteristic::BackwardSupport(BackwardSupport::General);
    let update = Operation::Update {
        now,
        pending_cleared: true,
    };
    ensure!(operation(&UPDATE)? == update, "xchar: update");
    let unknown = Operation::decode(5, &[1, 2, 3]);
    ensure!(unknown == Ok(None), "xchar: unknown operation");
    Ok(())
}

//~ V2-4.2.2-5 without an RPC message
fn check_encode() -> Check {
    let start = VALUES.map(|value| Initial { value, fixed: true });
    encode_one(&INIT_OURS, |b| init(b, 1, 32, Direction::Call, &start))?;
    let want = [Characteristic::ReceiveBufferSize(4096)];
    encode_one(&REQUEST, |b| request(b, 2, 1, &want))?;
    let what = [
        Disposition::Pending,
        Disposition::Done,
        Disposition::Rejected,
    ];
    encode_one(&RESPONSE, |b| respond(b, 2, 1, what.iter().copied()))?;
    let now = Characteristic::BackwardSupport(BackwardSupport::General);
    encode_one(&UPDATE, |b| update(b, 3, 1, Direction::Call, &now, true))
}

fn encode_one(golden: &[u8], encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>) -> Check {
    let mut buf = [0xee; 128];
    ensure!(encode(&mut buf) == Ok(golden.len()), "xchar: length");
    ensure!(buf.starts_with(golden), "xchar: bytes");
    for short in 0..golden.len() {
        let room = buf.get_mut(..short).ok_or("xchar: short")?;
        ensure!(encode(room) == Err(EncodeError::NoRoom), "xchar: no room");
    }
    Ok(())
}

/// Values: id, data, characteristic.
const GOOD: [(u32, &[u8], Characteristic<'_>); 7] = [
    (1, &[0xff; 4], Characteristic::ReceiveBufferSize(u32::MAX)),
    (2, &[0, 0, 0, 0], Characteristic::RemoteInvalidation(false)),
    (
        3,
        &[0, 0, 0, 0],
        Characteristic::BackwardSupport(BackwardSupport::Unknown),
    ),
    (
        3,
        &[0, 0, 0, 1],
        Characteristic::BackwardSupport(BackwardSupport::None),
    ),
    (
        3,
        &[0, 0, 0, 2],
        Characteristic::BackwardSupport(BackwardSupport::SizeLimited),
    ),
    (
        4,
        &[],
        Characteristic::Other {
            id: Id(4),
            data: &[],
        },
    ),
    (
        0,
        &[1],
        Characteristic::Other {
            id: Id(0),
            data: &[1],
        },
    ),
];

/// Data that is longer than its type: the bytes behind the value are ignored.
const LONG: [(u32, &[u8], Characteristic<'static>); 3] = [
    (
        1,
        &[0, 0, 16, 0, 9],
        Characteristic::ReceiveBufferSize(4096),
    ),
    (
        2,
        &[0, 0, 0, 1, 0, 0, 0, 7],
        Characteristic::RemoteInvalidation(true),
    ),
    (
        3,
        &[0, 0, 0, 1, 0, 0, 0, 1],
        Characteristic::BackwardSupport(BackwardSupport::None),
    ),
];

/// Data that does not fit its id.
const BAD: [(u32, &[u8]); 6] = [
    (1, &[]),
    (1, &[0, 0, 0]),
    (2, &[0, 0, 0, 2]),
    (2, &[0]),
    (3, &[0, 0, 0, 4]),
    (3, &[0, 0, 0, 9, 0, 0, 0, 1]),
];

/// One UPD_XCHAR for every kind of value.
//~ XC-2.1-2 data not of its type
//~ XC-2.1-3 known characteristic with too few data
//~ XC-6.2-1 never taken for known ones
fn check_values() -> Check {
    for (id, data, value) in GOOD {
        let update = Operation::Update {
            now: value,
            pending_cleared: false,
        };
        ensure!(decode_update(id, data)? == Ok(Some(update)), "xchar: value");
        ensure!(value.id() == Id(id), "xchar: id");
    }
    for (id, data, value) in LONG {
        let update = Operation::Update {
            now: value,
            pending_cleared: false,
        };
        ensure!(decode_update(id, data)? == Ok(Some(update)), "xchar: long");
    }
    for (id, data) in BAD {
        let what = What::Characteristic(id);
        let refused = Err(DecodeError { what, offset: 4 });
        ensure!(decode_update(id, data)? == refused, "xchar: bad value");
    }
    ensure!(
        BackwardSupport::default() == BackwardSupport::SizeLimited,
        "xchar: default"
    );
    Ok(())
}

type Decoded = Result<Option<Operation<'static>>, DecodeError>;

/// Encodes an update with raw data, and decodes it. The caller compares the value.
fn decode_update(id: u32, data: &'static [u8]) -> Result<Decoded, &'static str> {
    let mut buf = [0; 64];
    let value = Characteristic::Other { id: Id(id), data };
    let n = update(&mut buf, 1, 1, Direction::Call, &value, false).map_err(|_| "xchar: room")?;
    let optinfo = buf.get(28..n).ok_or("xchar: optinfo")?;
    let decoded = Operation::decode(4, optinfo);
    Ok(decoded.map(|op| op.map(|op| own(op, data))))
}

/// Returns the operation with a reference to the caller's data.
fn own(op: Operation<'_>, data: &'static [u8]) -> Operation<'static> {
    match op {
        Operation::Update {
            now,
            pending_cleared,
        } => {
            let now = match now {
                Characteristic::ReceiveBufferSize(n) => Characteristic::ReceiveBufferSize(n),
                Characteristic::RemoteInvalidation(b) => Characteristic::RemoteInvalidation(b),
                Characteristic::BackwardSupport(l) => Characteristic::BackwardSupport(l),
                Characteristic::PreferredThreshold(n) => Characteristic::PreferredThreshold(n),
                Characteristic::Other { id, data: found } if found == data => {
                    Characteristic::Other { id, data }
                }
                Characteristic::Other { id, .. } => Characteristic::Other { id, data: &[] },
            };
            Operation::Update {
                now,
                pending_cleared,
            }
        }
        _ => Operation::Response(Default::default()),
    }
}

/// Responses to requests of several lengths: subsets, elements requested, first bad element.
//~ XC-2.1-5 bit N mod 32 of word
//~ XC-4.3-2 three subsets do not overlap
fn check_subsets() -> Check {
    type Case = ([&'static [u32]; 3], u32, Result<(), u32>);
    const CASES: [Case; 12] = [
        ([&[], &[], &[]], 0, Ok(())),
        ([&[u32::MAX >> 1], &[], &[]], 31, Ok(())),
        ([&[u32::MAX], &[], &[]], 31, Err(31)),
        ([&[0b101], &[0b010], &[]], 3, Ok(())),
        ([&[u32::MAX], &[0, 1], &[]], 33, Ok(())),
        ([&[u32::MAX, 1, 0, 0], &[], &[0]], 33, Ok(())),
        ([&[0b101], &[0b110], &[]], 3, Err(2)),
        ([&[0b101], &[], &[]], 3, Err(1)),
        ([&[0b1111], &[], &[]], 3, Err(3)),
        ([&[u32::MAX], &[0, 0b10], &[]], 33, Err(33)),
        ([&[0b101], &[0b010, 0b100], &[]], 3, Err(34)),
        ([&[u32::MAX], &[0, 0, 0b10], &[]], 32, Err(65)),
    ];
    for (words, count, want) in CASES {
        let mut buf = [0; 64];
        let mut at = 0..;
        let mut put = |word: u32| {
            for byte in word.to_be_bytes() {
                if let Some(b) = at.next().and_then(|i: usize| buf.get_mut(i)) {
                    *b = byte;
                }
            }
        };
        for subset in words {
            put(subset.iter().map(|_| 1).sum());
            subset.iter().for_each(|w| put(*w));
        }
        let len = at.next().unwrap_or(0);
        let optinfo = buf.get(..len).ok_or("xchar: subsets")?;
        let op = Operation::decode(3, optinfo);
        let Ok(Some(Operation::Response(response))) = op else {
            return Err("xchar: response");
        };
        ensure!(response.check(count) == want, "xchar: coverage");
    }
    let op = Operation::decode(3, RESPONSE.get(28..).unwrap_or_default());
    let Ok(Some(Operation::Response(response))) = op else {
        return Err("xchar: response");
    };
    ensure!(
        (3..40).all(|n| response.disposition(n).is_none()),
        "xchar: three elements"
    );
    Ok(())
}

//~ XC-2.1-1 length beyond the message
fn check_refuse() -> Check {
    for (op, message) in [
        (1, &INIT_OURS[..]),
        (2, &REQUEST),
        (3, &RESPONSE),
        (4, &UPDATE),
    ] {
        let data = message.get(28..).unwrap_or_default();
        for n in 0..data.len() {
            let cut = Operation::decode(op, data.get(..n).unwrap_or_default());
            ensure!(cut.is_err_and(|e| e.offset <= n), "xchar: cut short");
        }
    }
    // A subset may name an element that its list lacks.
    let beyond = Operation::decode(1, &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
    ensure!(
        matches!(beyond, Ok(Some(Operation::Init { .. }))),
        "xchar: beyond"
    );
    refuse(2, &[0, 0, 0, 0, 0], What::Trailing, 4)?;
    refuse(2, &[0, 0, 1, 0], What::Truncated, 4)?;
    Ok(())
}

fn refuse(op: u32, optinfo: &[u8], what: What, offset: usize) -> Check {
    let got = Operation::decode(op, optinfo);
    ensure!(got == Err(DecodeError { what, offset }), "xchar: spoilt");
    Ok(())
}
