// SPDX-License-Identifier: GPL-2.0

//! Version negotiation over many connections to a peer of any kind.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::negotiation(data));
