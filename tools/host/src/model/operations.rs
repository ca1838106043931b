// SPDX-License-Identifier: GPL-2.0

//! Operations of transport characteristics: decoded, encoded, and decoded again.

use std::vec::Vec;

use crate::wire::message::{Body, Message};
use crate::wire::xchar::{self, Characteristic, Disposition, Initial, Operation, Response};
use crate::wire::{Direction, Limits, Version};

/// Checks that accepted data encode to an equal operation of the predicted length. The first byte
/// is the operation, the other bytes are its data.
pub fn operation(data: &[u8]) {
    let Some((op, optinfo)) = data.split_first() else {
        return;
    };
    let op = match Operation::decode(u32::from(*op), optinfo) {
        Ok(Some(op)) => op,
        Ok(None) => {
            assert!(!(1..=4).contains(op));
            return;
        }
        Err(error) => {
            assert!(error.offset <= optinfo.len());
            return;
        }
    };
    let mut buf = std::vec![0; data.len() + 128];
    let n = encode(&mut buf, &op);
    compare(&op, &decode(&buf[..n]));
}

/// Returns the operation in a message.
pub fn decode(message: &[u8]) -> Operation<'_> {
    let header = Message::decode_as(Version::Two, message, &Limits::NONE).unwrap();
    let Body::Optional {
        opttype, optinfo, ..
    } = *header.body()
    else {
        panic!("not an optional operation");
    };
    let op = Operation::decode(opttype, optinfo);
    op.unwrap().unwrap()
}

/// Bytes of RDMA2_OPTIONAL without its data.
const HEADER: usize = 28;

/// Returns the length of one encoded characteristic.
fn value_len(value: &Characteristic<'_>) -> usize {
    match value {
        Characteristic::Other { data, .. } => 8 + data.len().next_multiple_of(4),
        _ => 12,
    }
}

fn encode(buf: &mut [u8], op: &Operation<'_>) -> usize {
    match op {
        Operation::Init { start, no_change } => {
            let values: Vec<_> = start
                .values()
                .zip(0..)
                .map(|(value, n)| Initial {
                    value,
                    fixed: no_change.contains(n),
                })
                .collect();
            xchar::init(buf, 1, 1, Direction::Call, &values).unwrap()
        }
        Operation::Request { want } => {
            let values: Vec<Characteristic<'_>> = want.values().collect();
            let n = xchar::request(buf, 1, 1, &values).unwrap();
            let sum: usize = values.iter().map(value_len).sum();
            assert_eq!(n, HEADER + 4 + sum);
            n
        }
        Operation::Response(response) => {
            let got: Vec<Disposition> = (0..covered(response))
                .map(|n| response.disposition(n).unwrap())
                .collect();
            xchar::respond(buf, 1, 1, got.iter().copied()).unwrap()
        }
        Operation::Update {
            now,
            pending_cleared,
        } => {
            let n = xchar::update(buf, 1, 1, Direction::Call, now, *pending_cleared).unwrap();
            assert_eq!(n, HEADER + value_len(now) + 4);
            n
        }
    }
}

/// Returns the length of the longest request that a response could belong to, up to 64.
fn covered(response: &Response<'_>) -> u32 {
    (0..=64)
        .rev()
        .find(|&n| response.check(n).is_ok())
        .unwrap_or(0)
}

fn compare(a: &Operation<'_>, b: &Operation<'_>) {
    match (a, b) {
        (
            Operation::Init {
                start: s,
                no_change: n,
            },
            Operation::Init { start, no_change },
        ) => {
            assert!(s.values().eq(start.values()));
            let count = start.values().count() as u32;
            assert!((0..count).all(|i| n.contains(i) == no_change.contains(i)));
        }
        (Operation::Request { want: a }, Operation::Request { want: b }) => {
            assert!(a.values().eq(b.values()));
        }
        (Operation::Response(a), Operation::Response(b)) => {
            assert!((0..covered(a)).all(|n| a.disposition(n) == b.disposition(n)));
        }
        (a, b) => assert_eq!(a, b),
    }
}
