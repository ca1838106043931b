// SPDX-License-Identifier: GPL-2.0

//! What a reply may claim, given its call.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::reply(data));
