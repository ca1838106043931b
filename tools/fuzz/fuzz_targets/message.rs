// SPDX-License-Identifier: GPL-2.0

//! Both versions through the neutral type: what is accepted encodes to the same bytes again, and
//! what is refused has an answer that both versions can encode and decode.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::encode_lists;
use rpcrdma_proto::wire::message::{Body, Message};
use rpcrdma_proto::wire::v1::ListProc;
use rpcrdma_proto::wire::{v1, v2, Direction, Limits, Version};

fuzz_target!(|data: &[u8]| {
    let message = match Message::decode(data, &Limits::NONE) {
        Ok(message) => message,
        Err(error) => {
            assert!(error.offset <= data.len());
            for version in [Version::One, Version::Two] {
                let mut buf = [0; 64];
                let answer = error.answer((1, 2));
                let n = version.error(&mut buf, 1, 1, answer).unwrap();
                let back = Message::decode(&buf[..n], &Limits::NONE).unwrap();
                assert_eq!(back.body(), &Body::Error(answer));
            }
            return;
        }
    };
    let _ = message.check_direction();
    assert!(data.ends_with(message.payload()));
    let (xid, credits) = (message.xid(), message.credits());
    let direction = message.direction().unwrap_or(Direction::Call);
    let mut buf = vec![0; data.len() + 8];
    let begin = |buf, proc| message.version().begin(buf, xid, credits, direction, proc);
    let n = match *message.body() {
        Body::Msg { ref lists, .. } => encode_lists(begin(&mut buf, ListProc::Msg), lists),
        Body::Nomsg { ref lists } => encode_lists(begin(&mut buf, ListProc::Nomsg), lists),
        Body::Msgp {
            align,
            thresh,
            ref lists,
            ..
        } => encode_lists(
            v1::begin_padded(&mut buf, xid, credits, align, thresh),
            lists,
        ),
        Body::Done => v1::done(&mut buf, xid, credits),
        Body::Error(error) => message.version().error(&mut buf, xid, credits, error),
        Body::Optional {
            opttype, optinfo, ..
        } => v2::optional(&mut buf, xid, credits, direction, opttype).and_then(|mut w| {
            w.bytes(optinfo)?;
            w.finish()
        }),
    };
    assert_eq!(n, Ok(message.header_len()));
    let n = message.header_len();
    let again = Message::decode(&buf[..n], &Limits::NONE).unwrap();
    if !matches!(message.body(), Body::Optional { .. }) {
        assert_eq!(buf[..n], data[..n]);
    }
    assert_eq!(again.lists(), message.lists());
    assert_eq!(again.direction(), message.direction());
});
