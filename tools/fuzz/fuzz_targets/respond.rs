// SPDX-License-Identifier: GPL-2.0

//! Replies of a responder, whatever was marked and offered.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::respond(data));
