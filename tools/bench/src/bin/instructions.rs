// SPDX-License-Identifier: GPL-2.0

//! Runs one operation COUNT times: `instructions OPERATION COUNT`. `count.py` runs it under
//! callgrind with two counts and takes the difference. Without arguments, lists the operations.

use rpcrdma_bench::{ops, BUF};
use std::hint::black_box;

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(name), Some(count)) = (args.next(), args.next()) else {
        ops().for_each(|op| println!("{}", op.name));
        return;
    };
    let op = ops().find(|op| op.name == name).expect("an operation");
    let count: u32 = count.parse().expect("a number");
    let mut buf = [0; BUF];
    let len = (op.prepare)(&mut buf).expect("the buffer is long enough");
    let run = black_box(op.run);
    for _ in 0..count {
        black_box(run(black_box(&mut buf), black_box(len)));
    }
}
