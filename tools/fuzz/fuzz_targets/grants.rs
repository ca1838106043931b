// SPDX-License-Identifier: GPL-2.0

//! Grants of a responder, and a requester that keeps to them or does not.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::grants(data));
