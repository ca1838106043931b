// SPDX-License-Identifier: GPL-2.0

//! What a responder makes of a received message.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::intake(data));
