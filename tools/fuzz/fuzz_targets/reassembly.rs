// SPDX-License-Identifier: GPL-2.0

//! Inline data and read chunks put together.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::reassembly(data));
