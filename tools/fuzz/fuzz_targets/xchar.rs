// SPDX-License-Identifier: GPL-2.0

//! Transport characteristics: the four operations, decoded and encoded again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::operation(data));
