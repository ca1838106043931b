// SPDX-License-Identifier: GPL-2.0

//! Replies checked against their calls.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::reply(data));
