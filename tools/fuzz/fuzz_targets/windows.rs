// SPDX-License-Identifier: GPL-2.0

//! Credits and RDMA_DONEs: never beyond the limit, never stuck.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::windows(data));
