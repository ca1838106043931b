// SPDX-License-Identifier: GPL-2.0

//! Both versions by the common message type, and the answers to refused messages.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::message(data));
