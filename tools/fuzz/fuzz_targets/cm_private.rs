// SPDX-License-Identifier: GPL-2.0

//! CM private data and CONF_RDMA.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma_proto::model::private_data(data));
