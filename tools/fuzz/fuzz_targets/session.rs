// SPDX-License-Identifier: GPL-2.0

//! Two ends of a connection, over a link that delays messages and loses connections.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::session(data));
