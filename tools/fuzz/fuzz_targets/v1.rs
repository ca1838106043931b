// SPDX-License-Identifier: GPL-2.0

//! Version one: whatever is accepted encodes to the same bytes, and stays within the input.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::encode_lists;
use rpcrdma_proto::wire::v1::{self, Body, ListProc};
use rpcrdma_proto::wire::{peek, Limits};

fuzz_target!(|data: &[u8]| {
    let _ = v1::decode(data, &Limits::requester(1, 16));
    let header = match v1::decode(data, &Limits::NONE) {
        Ok(header) => header,
        Err(error) => {
            assert!(error.offset <= data.len());
            return;
        }
    };
    assert!(header.header_len() <= data.len() && data.ends_with(header.payload()));
    let (xid, credits) = (header.xid(), header.credits());
    assert_eq!(peek(data).map(|p| p.xid), Ok(xid));
    let mut buf = vec![0; data.len()];
    let written = match header.body() {
        Body::Msg { lists, .. } => {
            encode_lists(v1::begin(&mut buf, xid, credits, ListProc::Msg), lists)
        }
        Body::Nomsg { lists } => {
            encode_lists(v1::begin(&mut buf, xid, credits, ListProc::Nomsg), lists)
        }
        Body::Msgp {
            align,
            thresh,
            lists,
            ..
        } => encode_lists(
            v1::begin_padded(&mut buf, xid, credits, *align, *thresh),
            lists,
        ),
        Body::Done => v1::done(&mut buf, xid, credits),
        Body::Error(error) => v1::error(&mut buf, xid, credits, *error),
    };
    assert_eq!(written, Ok(header.header_len()));
    assert_eq!(buf[..header.header_len()], data[..header.header_len()]);
});
