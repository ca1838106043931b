// SPDX-License-Identifier: GPL-2.0

//! Transport characteristics: the four operations encode to the same again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::operation(data));
