// SPDX-License-Identifier: GPL-2.0

//! Credits and RDMA_DONEs: the limit is never exceeded, and sending always resumes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::windows(data));
