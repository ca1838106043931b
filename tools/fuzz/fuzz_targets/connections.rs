// SPDX-License-Identifier: GPL-2.0

//! Connection states and back-off.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::connections(data));
