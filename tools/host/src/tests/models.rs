// SPDX-License-Identifier: GPL-2.0

//! Runs the state machines of `model` on random bytes. `make fuzz` runs them with coverage
//! guidance.

use proptest::prelude::*;
use std::vec::Vec;

use super::gen;
use crate::model;
use crate::wire::{Direction, ListProc, Version};

fn script() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![3 => 0..8u8, 1 => any::<u8>()];
    prop::collection::vec(byte, 0..400)
}

fn header(lists: &gen::OwnedLists, nomsg: bool) -> Vec<u8> {
    let mut buf = std::vec![0; 16 + lists.len()];
    let proc = if nomsg {
        ListProc::Nomsg
    } else {
        ListProc::Msg
    };
    lists
        .encode(
            Version::One
                .begin(&mut buf, 1, 1, Direction::Call, proc)
                .unwrap(),
        )
        .unwrap();
    buf
}

proptest! {
    #[test]
    fn windows(data in script()) {
        model::windows(&data);
    }

    #[test]
    fn connections(data in script()) {
        model::connections(&data);
    }

    #[test]
    fn negotiation(data in script()) {
        model::negotiation(&data);
    }

    #[test]
    //~ 8797-4-1 settings may change at every reconnect
    //~ V2-5-1 one message at a time
    //~ V2-5.2-4 thresholds change without connection being lost
    fn session(data in prop::collection::vec(any::<u8>(), 0..2000)) {
        model::session(&data);
    }

    #[test]
    //~ V2-5.2-4 thresholds change without connection being lost
    fn settings(data in prop::collection::vec(any::<u8>(), 0..600)) {
        model::settings(&data);
    }

    #[test]
    //~ XC-3.1-5 at least of the announced size
    fn characteristics(data in prop::collection::vec(any::<u8>(), 0..400)) {
        model::characteristics(&data);
    }

    #[test]
    fn plan(data in prop::collection::vec(any::<u8>(), 0..100)) {
        model::plan(&data);
    }

    /// Random read lists, most of them in order.
    #[test]
    fn reassembly(
        mut steps in prop::collection::vec((0..40u32, 0..3usize, 0..50u32), 0..6),
        nomsg in any::<bool>(),
        inline in 0..200usize,
        back in any::<bool>(),
    ) {
        let mut lists = gen::OwnedLists::default();
        let mut position = 0;
        for (gap, segments, length) in steps.drain(..) {
            position += gap * 4;
            for n in 0..=segments {
                let length = length + n as u32;
                let segment = crate::wire::Segment { handle: 1, length, offset: 0 };
                lists.reads.push(crate::wire::ReadSegment { position, segment });
            }
            if !back {
                position += (segments as u32 + 1) * length + 3;
                position &= !3;
            }
        }
        let mut message = header(&lists, nomsg);
        message.resize(message.len() + inline, 0);
        model::reassembly(&message);
    }

    /// Calls that a responder mostly serves: short chunks, in order, few of them.
    #[test]
    fn intake(call in gen::call(), damage in prop::option::weighted(0.3, gen::damage())) {
        let mut message = call;
        gen::apply(&mut message, &damage.unwrap_or_default());
        model::intake(&message);
    }

    #[test]
    fn respond(data in prop::collection::vec(any::<u8>(), 0..60)) {
        model::respond(&data);
    }

    #[test]
    fn grants(data in script()) {
        model::grants(&data);
    }

    #[test]
    fn reply(a in gen::lists(), b in gen::lists(), same in any::<bool>(), nomsg in any::<bool>()) {
        let call = header(&a, false);
        let reply = header(if same { &a } else { &b }, nomsg);
        if let Ok(split) = u8::try_from(call.len()) {
            let data: Vec<u8> = core::iter::once(split).chain(call).chain(reply).collect();
            model::reply(&data);
        }
    }
}
