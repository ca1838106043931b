// SPDX-License-Identifier: GPL-2.0

//! Both versions through the neutral type, and the answers to what is refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::message(data));
