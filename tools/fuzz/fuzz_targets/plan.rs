// SPDX-License-Identifier: GPL-2.0

//! Chunk plans: every byte is sent once, and every Send fits.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::plan(data));
