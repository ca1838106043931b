// SPDX-License-Identifier: GPL-2.0

//! Version one: an accepted message encodes to the same bytes, and stays within the input.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::limits(data));
