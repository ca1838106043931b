// SPDX-License-Identifier: GPL-2.0

//! CM private data and CONF_RDMA: what is found encodes to bytes that the input holds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_proto::proto::inline::Thresholds;
use rpcrdma_proto::wire::cm_private::{decode, encode, Settings, LEN};
use rpcrdma_proto::wire::conf_rdma::{Reply, Request};

fuzz_target!(|data: &[u8]| {
    let found = decode(data);
    if let Some(settings) = found {
        let bytes = encode(settings);
        let here = data.windows(LEN).find(|w| w[..5] == bytes[..5]).unwrap();
        // Reserved flags are ignored.
        assert_eq!(here[5] & 1, bytes[5]);
        assert_eq!(here[6..], bytes[6..]);
    }
    let t = Thresholds::for_client(&Settings::DEFAULT, found);
    assert_eq!((t.client_to_server, t.server_to_client), (1024, 1024));
    if let Ok(request) = Request::decode(data) {
        assert_eq!(&request.encode()[..], data);
    }
    if let Ok(reply) = Reply::decode(data) {
        assert_eq!(&reply.encode()[..], data);
    }
});
