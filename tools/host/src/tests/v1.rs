// SPDX-License-Identifier: GPL-2.0

//! Properties of version one and of private data.

use proptest::prelude::*;
use std::vec::Vec;

use super::gen::{self, OwnedLists};
use crate::model;
use crate::wire::message::{Body, ErrorBody, Message as Decoded};
use crate::wire::v1;
use crate::wire::{cm_private, Direction, EncodeError, Limits, ListProc, Segment, Version, What};

/// A version-one message that owns its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Message {
    Lists(bool, OwnedLists),
    Padded(u32, u32, OwnedLists),
    Done,
    Error(ErrorBody),
}

fn message() -> impl Strategy<Value = Message> {
    let vers = |(low, high)| ErrorBody::Vers { low, high };
    prop_oneof![
        4 => (any::<bool>(), gen::lists()).prop_map(|(n, l)| Message::Lists(n, l)),
        1 => (any::<u32>(), any::<u32>(), gen::lists())
            .prop_map(|(a, t, l)| Message::Padded(a, t, l)),
        1 => Just(Message::Done),
        1 => any::<(u32, u32)>().prop_map(move |v| Message::Error(vers(v))),
        1 => Just(Message::Error(ErrorBody::BadHeader)),
    ]
}

impl Message {
    fn encode(&self, buf: &mut [u8], xid: u32, credits: u32) -> Result<usize, EncodeError> {
        match self {
            Self::Lists(false, l) => {
                l.encode(Version::One.begin(buf, xid, credits, Direction::Call, ListProc::Msg)?)
            }
            Self::Lists(true, l) => {
                l.encode(Version::One.begin(buf, xid, credits, Direction::Call, ListProc::Nomsg)?)
            }
            Self::Padded(a, t, l) => l.encode(v1::begin_padded(buf, xid, credits, *a, *t)?),
            Self::Done => v1::done(buf, xid, credits),
            Self::Error(e) => Version::One.error(buf, xid, credits, *e),
        }
    }

    fn decoded(body: &Body<'_>) -> Self {
        match body {
            Body::Msg { lists, .. } => Self::Lists(false, OwnedLists::decoded(lists)),
            Body::Nomsg { lists } => Self::Lists(true, OwnedLists::decoded(lists)),
            Body::Msgp {
                align,
                thresh,
                lists,
                ..
            } => Self::Padded(*align, *thresh, OwnedLists::decoded(lists)),
            Body::Done => Self::Done,
            Body::Error(e) => Self::Error(*e),
            Body::Optional { .. } => panic!("not of version one"),
        }
    }

    fn carries_payload(&self) -> bool {
        matches!(self, Self::Lists(false, _) | Self::Padded(..))
    }

    /// Predicted length.
    fn len(&self) -> usize {
        match self {
            Self::Lists(_, l) => 16 + l.len(),
            Self::Padded(_, _, l) => 16 + v1::PADDING + l.len(),
            Self::Done => 16,
            Self::Error(ErrorBody::Vers { .. }) => 28,
            Self::Error(_) => 20,
        }
    }
}

proptest! {
    #[test]
    fn round_trip(
        m in message(),
        (xid, credits) in any::<(u32, u32)>(),
        payload in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut buf = std::vec![0xee; m.len()];
        prop_assert_eq!(m.encode(&mut buf, xid, credits), Ok(m.len()));
        buf.extend(&payload);
        let h = Decoded::decode_as(Version::One, &buf, &Limits::NONE).unwrap();
        prop_assert_eq!((h.xid(), h.credits(), h.header_len()), (xid, credits, m.len()));
        prop_assert_eq!(Message::decoded(h.body()), m.clone());
        let want: &[u8] = if m.carries_payload() { &payload } else { &[] };
        prop_assert_eq!(h.payload(), want);
    }

    #[test]
    fn common_replies_are_described_briefly(
        xid in any::<u32>(),
        lengths in prop::collection::vec(0..3u32, 0..3),
        damage in gen::damage(),
    ) {
        let mut buf = std::vec![0; 140];
        let w = Version::One.begin(&mut buf, xid, 9, Direction::Reply, ListProc::Msg).unwrap();
        let mut w = w.write_list().unwrap();
        for segments in lengths {
            let mut chunk = w.chunk().unwrap();
            for _ in 0..segments {
                let _ = chunk.segment(Segment::default());
            }
            w = chunk.end();
        }
        let _ = w.finish();
        model::message(&buf);
        gen::apply(&mut buf, &damage);
        model::message(&buf);
    }

    #[test]
    fn encode_stays_within_its_buffer(m in message(), short in any::<prop::sample::Index>()) {
        let mut buf = std::vec![0xee; m.len() + 8];
        let room = short.index(m.len());
        prop_assert_eq!(m.encode(&mut buf[..room], 1, 1), Err(EncodeError::NoRoom));
        prop_assert!(buf[room..].iter().all(|&b| b == 0xee));
        prop_assert_eq!(m.encode(&mut buf, 1, 1), Ok(m.len()));
        prop_assert_eq!(&buf[m.len()..], &[0xee; 8]);
    }

    /// An encoder that stops within a chunk leaves no valid message.
    #[test]
    fn unfinished_is_no_message(l in gen::lists(), segments in 0..4usize, reply in any::<bool>()) {
        let mut buf = std::vec![0; 24 + l.len() + 16 * segments];
        let mut w = Version::One.begin(&mut buf, 1, 1, Direction::Call, ListProc::Msg).unwrap();
        for r in &l.reads {
            w.segment(r.position, r.segment).unwrap();
        }
        let w = w.write_list().unwrap();
        if reply {
            let mut c = w.reply_chunk().unwrap();
            (0..segments).for_each(|_| c.segment(Segment::default()).unwrap());
        } else {
            let mut c = w.chunk().unwrap();
            (0..segments).for_each(|_| c.segment(Segment::default()).unwrap());
        }
        let refused = Decoded::decode_as(Version::One, &buf, &Limits::NONE).map_err(|e| e.what);
        prop_assert_eq!(refused.err(), Some(What::Truncated));
    }

    #[test]
    fn damaged(m in message(), damage in gen::damage()) {
        let mut buf = std::vec![0; m.len()];
        m.encode(&mut buf, 0x0102_0304, 32).unwrap();
        gen::apply(&mut buf, &damage);
        model::limits(&buf);
        model::message(&buf);
        if let Err(e) = Decoded::decode_as(Version::One, &buf, &Limits::requester(1, 2)) {
            prop_assert!(e.offset <= buf.len());
            prop_assert!(!std::string::ToString::to_string(&e).is_empty());
        }
    }

    #[test]
    fn arbitrary(mut bytes in prop::collection::vec(any::<u8>(), 0..200), proc in 0..6u8) {
        model::limits(&bytes);
        model::message(&bytes);
        if let Some(prefix) = bytes.first_chunk_mut::<16>() {
            prefix[4..8].copy_from_slice(&[0, 0, 0, 1]);
            prefix[12..16].copy_from_slice(&[0, 0, 0, proc]);
            model::limits(&bytes);
            model::message(&bytes);
        }
    }

    #[test]
    fn limits_refuse_exactly_what_exceeds_them(
        l in gen::lists(),
        (reads, writes, segments) in (0..6u32, 0..4u32, 0..5u32),
    ) {
        let mut buf = std::vec![0; 16 + l.len()];
        let writer = Version::One.begin(&mut buf, 1, 1, Direction::Call, ListProc::Msg).unwrap();
        l.encode(writer).unwrap();
        let limits = Limits {
            read_segments: reads,
            write_chunks: writes,
            chunk_segments: segments,
            ..Limits::NONE
        };
        let longest = l.writes.iter().chain(&l.reply).map(Vec::len).max().unwrap_or(0);
        let within = l.reads.len() as u32 <= reads
            && l.writes.len() as u32 <= writes
            && longest as u32 <= segments;
        prop_assert_eq!(Decoded::decode_as(Version::One, &buf, &limits).is_ok(), within);
    }

    #[test]
    //~ 8797-5.2-1 format identifier at any offset
    fn private_data_anywhere(
        mut front in prop::collection::vec(any::<u8>(), 0..60),
        back in prop::collection::vec(any::<u8>(), 0..60),
        (remote_invalidation, send, receive) in any::<(bool, u8, u8)>(),
    ) {
        // Another test covers identifiers in other layers' data.
        front.iter_mut().for_each(|b| *b &= 0x7f);
        let settings = cm_private::Settings {
            remote_invalidation,
            send: cm_private::Size::from_code(send),
            receive: cm_private::Size::from_code(receive),
            versions: None,
        };
        let mut data = front;
        data.extend(cm_private::encode(settings));
        data.extend(back);
        prop_assert_eq!(cm_private::decode(&data), Some(settings));
    }

    #[test]
    //~ 8797-5.2-2 without the identifier no private data
    fn private_data_arbitrary(data in prop::collection::vec(any::<u8>(), 0..200)) {
        model::private_data(&data);
        let found = cm_private::decode(&data);
        let magic = data.windows(5).any(|w| w == [0xf6, 0xab, 0x0e, 0x18, 1]);
        prop_assert!(magic || found.is_none());
    }

    #[test]
    //~ 8797-6-1 later formats are passed over
    fn both_formats_at_every_length(
        (send, receive) in any::<(u8, u8)>(),
        (low, high) in (1u8.., 1u8..).prop_map(|(a, b)| (a.min(b), a.max(b))),
        sizes in any::<bool>(),
        back in prop::collection::vec(any::<u8>(), 48),
    ) {
        let both = cm_private::Settings {
            remote_invalidation: true,
            send: cm_private::Size::from_code(send),
            receive: cm_private::Size::from_code(receive),
            versions: cm_private::Versions::new(low, high, sizes),
        };
        let first = cm_private::Settings { versions: None, ..both };
        let encoded = cm_private::PrivateData::new(both);
        let field = [encoded.as_bytes(), &back].concat();
        for len in 0..=field.len() {
            let want = match len {
                0..8 => None,
                8..16 => Some(first),
                _ => Some(both),
            };
            prop_assert_eq!(cm_private::decode(&field[..len]), want);
        }
    }

    #[test]
    fn first_format_is_the_same_before_any_bytes(
        settings in any::<(bool, u8, u8)>(),
        back in prop::collection::vec(any::<u8>(), 0..=56),
        magic in any::<bool>(),
        at in 0usize..=56,
    ) {
        let (remote_invalidation, send, receive) = settings;
        let settings = cm_private::Settings {
            remote_invalidation,
            send: cm_private::Size::from_code(send),
            receive: cm_private::Size::from_code(receive),
            versions: None,
        };
        let mut field = cm_private::encode(settings).to_vec();
        field.extend(&back);
        if magic {
            // An identifier of the second format with any bytes behind it.
            let at = 8 + at.min(back.len());
            field.splice(at..at, [0xb5, 0x42, 0xa3, 0x2c]);
        }
        let found = cm_private::decode(&field).unwrap();
        prop_assert_eq!(cm_private::Settings { versions: None, ..found }, settings);
    }

    #[test]
    fn size_is_the_largest_that_fits(bytes in any::<u32>()) {
        let size = cm_private::Size::from_bytes(bytes);
        let announced = size.bytes();
        prop_assert!(announced <= bytes.max(1024));
        let next = u64::from(announced) + 1024;
        prop_assert!(next > u64::from(bytes) || size == cm_private::Size::MAX);
    }
}
