// SPDX-License-Identifier: GPL-2.0

//! Measures the time that each operation takes.

use criterion::{criterion_group, criterion_main, Criterion};
use rpcrdma_bench::{ops, BUF};
use std::hint::black_box;

fn codec(c: &mut Criterion) {
    for op in ops() {
        let mut buf = [0; BUF];
        let len = (op.prepare)(&mut buf).expect("the buffer is long enough");
        c.bench_function(op.name, |b| {
            b.iter(|| (op.run)(black_box(&mut buf), black_box(len)))
        });
    }
}

criterion_group!(benches, codec);
criterion_main!(benches);
