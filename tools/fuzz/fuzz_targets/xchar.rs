// SPDX-License-Identifier: GPL-2.0

//! Transport characteristics: the four operations, and what they say, encode to the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_proto::wire::v2::{self, Body};
use rpcrdma_proto::wire::xchar::{self, Characteristic, Disposition, Initial, Operation};
use rpcrdma_proto::wire::{Direction, Limits};

fuzz_target!(|data: &[u8]| {
    let Some((op, optinfo)) = data.split_first() else {
        return;
    };
    let op = match Operation::decode(u32::from(*op), optinfo, &Limits::NONE) {
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
    let mut buf = vec![0; data.len() + 128];
    let n = encode(&mut buf, &op);
    let header = v2::decode(&buf[..n], &Limits::NONE).unwrap();
    let Body::Optional {
        opttype, optinfo, ..
    } = *header.body()
    else {
        panic!("not an optional operation");
    };
    let again = Operation::decode(opttype, optinfo, &Limits::NONE).unwrap();
    compare(&op, &again.unwrap());
});

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
            assert_eq!(values.len(), start.count() as usize);
            let n = xchar::init(buf, 1, 1, Direction::Call, &values).unwrap();
            assert_eq!(n, xchar::init_len(&values));
            n
        }
        Operation::Request { want } => {
            let values: Vec<Characteristic<'_>> = want.values().collect();
            xchar::request(buf, 1, 1, &values).unwrap()
        }
        Operation::Response(response) => {
            // The longest request that this response could belong to.
            let count = (0..=64).rev().find(|&n| response.check(n).is_ok());
            let got: Vec<Disposition> = (0..count.unwrap_or(0))
                .map(|n| response.disposition(n).unwrap())
                .collect();
            xchar::respond(buf, 1, 1, &got).unwrap()
        }
        Operation::Update {
            now,
            pending_cleared,
        } => xchar::update(buf, 1, 1, Direction::Call, now, *pending_cleared).unwrap(),
    }
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
            assert!((0..start.count() + 32).all(|i| n.contains(i) == no_change.contains(i)));
        }
        (Operation::Request { want: a }, Operation::Request { want: b }) => {
            assert!(a.values().eq(b.values()));
        }
        (Operation::Response(a), Operation::Response(b)) => {
            let checked = (0..=64).rev().find(|&n| a.check(n).is_ok());
            for n in 0..checked.unwrap_or(0) {
                assert_eq!(a.disposition(n), b.disposition(n));
            }
        }
        (a, b) => assert_eq!(a, b),
    }
}
