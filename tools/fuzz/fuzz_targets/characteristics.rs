// SPDX-License-Identifier: GPL-2.0

//! Receive buffers and the peer's characteristics as they change.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::characteristics(data));
