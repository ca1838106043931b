// SPDX-License-Identifier: GPL-2.0

//! A responder's intake of a received message.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::intake(data));
