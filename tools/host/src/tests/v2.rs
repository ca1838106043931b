// SPDX-License-Identifier: GPL-2.0

//! Properties of version two and of transport characteristics.

use proptest::prelude::*;
use std::vec::Vec;

use super::gen::{self, OwnedLists};
use crate::model;
use crate::proto::inline::Thresholds;
use crate::proto::session::{self, Announced, Config, Dispositions, Output, Session, Side};
use crate::wire::message::{Body, ErrorBody, Message as Decoded};
use crate::wire::v2::{self, len};
use crate::wire::xchar::value::Id;
use crate::wire::xchar::{self, BackwardSupport, Characteristic, Disposition, Initial, Operation};
use crate::wire::{conf_rdma, Direction, EncodeError, Limits, ListProc, Version, What};

/// A version-two message that owns its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Message {
    Lists(Direction, bool, OwnedLists),
    Error(ErrorBody),
    Optional(Direction, u32, Vec<u8>),
}

/// A server that accepts Receives of 2048 bytes on request.
const SERVER: Config = Config {
    side: Side::Server,
    versions: (Version::One, Version::Two),
    one: Thresholds::DEFAULT,
    receive: 4096,
    announced: Announced {
        two: true,
        spares: true,
        sizes: None,
    },
    send: 4096,
    invalidation: false,
    backward: BackwardSupport::SizeLimited,
    xid: 0x2000,
};

fn decoded(bytes: &[u8]) -> Decoded<'_> {
    Decoded::decode_as(Version::Two, bytes, &Limits::NONE).unwrap()
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Call), Just(Direction::Reply)]
}

fn message() -> impl Strategy<Value = Message> {
    let error = prop_oneof![
        any::<(u32, u32)>().prop_map(|(low, high)| ErrorBody::Vers { low, high }),
        Just(ErrorBody::BadHeader),
        Just(ErrorBody::InvalidOption),
    ];
    let optinfo = prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        3 => (direction(), any::<bool>(), gen::lists())
            .prop_map(|(d, nomsg, lists)| Message::Lists(d, nomsg, lists)),
        1 => error.prop_map(Message::Error),
        1 => (direction(), any::<u32>(), optinfo)
            .prop_map(|(d, op, optinfo)| Message::Optional(d, op, optinfo)),
    ]
}

impl Message {
    fn encode(&self, buf: &mut [u8], xid: u32, credits: u32) -> Result<usize, EncodeError> {
        match self {
            Self::Lists(d, false, l) => {
                l.encode(Version::Two.begin(buf, xid, credits, *d, ListProc::Msg)?)
            }
            Self::Lists(d, true, l) => {
                l.encode(Version::Two.begin(buf, xid, credits, *d, ListProc::Nomsg)?)
            }
            Self::Error(e) => Version::Two.error(buf, xid, credits, *e),
            Self::Optional(d, op, optinfo) => {
                if optinfo.len() % 4 != 0 {
                    return model::optional(buf, xid, credits, *d, *op, optinfo);
                }
                let mut w = v2::optional(buf, xid, credits, *d, *op)?;
                for word in optinfo.chunks(4) {
                    w.word(u32::from_be_bytes(word.try_into().unwrap()))?;
                }
                w.finish()
            }
        }
    }

    fn decoded(message: &Decoded<'_>) -> Self {
        let direction = message.direction().unwrap();
        match *message.body() {
            Body::Msg { ref lists, .. } => {
                Self::Lists(direction, false, OwnedLists::decoded(lists))
            }
            Body::Nomsg { ref lists } => Self::Lists(direction, true, OwnedLists::decoded(lists)),
            Body::Error(e) => Self::Error(e),
            Body::Optional {
                opttype, optinfo, ..
            } => Self::Optional(direction, opttype, optinfo.to_vec()),
            Body::Msgp { .. } | Body::Done => panic!("not of version two"),
        }
    }

    /// Predicted length.
    fn len(&self) -> usize {
        match self {
            Self::Lists(_, _, l) => 16 + len::DIRECTION + l.len(),
            Self::Error(ErrorBody::Vers { .. }) => 28,
            Self::Error(_) => 20,
            Self::Optional(_, _, optinfo) => 28 + optinfo.len().next_multiple_of(4),
        }
    }
}

/// A characteristic that borrows `data` if it is not a known one.
fn value(kind: u8, number: u32, data: &[u8]) -> Characteristic<'_> {
    match kind {
        0 => Characteristic::ReceiveBufferSize(number),
        1 => Characteristic::RemoteInvalidation(number % 2 == 1),
        2 => {
            let level = BackwardSupport::from_u32(number % 4);
            Characteristic::BackwardSupport(level.unwrap())
        }
        3 => Characteristic::PreferredThreshold(number),
        _ => Characteristic::Other {
            id: Id(number.max(4)),
            data,
        },
    }
}

/// Encodes into a buffer of the given length. The bytes behind it do not change.
fn encode_in(
    room: usize,
    total: usize,
    encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>,
) -> (Result<usize, EncodeError>, Vec<u8>) {
    let mut buf = std::vec![0xee; total + 8];
    let result = encode(&mut buf[..room]);
    assert!(buf[room..].iter().all(|&b| b == 0xee));
    (result, buf)
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
        let h = Decoded::decode_as(Version::Two, &buf, &Limits::NONE).unwrap();
        prop_assert_eq!((h.xid(), h.credits(), h.header_len()), (xid, credits, m.len()));
        prop_assert_eq!(Message::decoded(&h), m);
        if matches!(h.body(), Body::Msg { .. } | Body::Optional { .. }) {
            prop_assert_eq!(h.payload(), &payload[..]);
        }
    }

    #[test]
    fn encode_stays_within_its_buffer(m in message(), short in any::<prop::sample::Index>()) {
        let room = short.index(m.len());
        let (short, _) = encode_in(room, m.len(), |b| m.encode(b, 1, 1));
        prop_assert_eq!(short, Err(EncodeError::NoRoom));
        let (full, _) = encode_in(m.len(), m.len(), |b| m.encode(b, 1, 1));
        prop_assert_eq!(full, Ok(m.len()));
    }

    /// An encoder that stops half way leaves no valid message.
    #[test]
    fn unfinished_is_no_message(
        d in direction(),
        op in any::<u32>(),
        words in prop::collection::vec(any::<u32>(), 0..10),
    ) {
        let mut buf = std::vec![0; 28 + 4 * words.len()];
        let mut w = v2::optional(&mut buf, 1, 1, d, op).unwrap();
        words.iter().for_each(|&word| w.word(word).unwrap());
        let refused = Decoded::decode_as(Version::Two, &buf, &Limits::NONE).map_err(|e| e.what);
        prop_assert_eq!(refused.err(), Some(What::Truncated));
    }

    #[test]
    fn damaged(m in message(), damage in gen::damage()) {
        let mut buf = std::vec![0; m.len()];
        m.encode(&mut buf, 0x0102_0304, 32).unwrap();
        gen::apply(&mut buf, &damage);
        model::limits(&buf);
        model::message(&buf);
    }

    #[test]
    fn arbitrary(mut bytes in prop::collection::vec(any::<u8>(), 0..200), proc in 0..7u8) {
        model::limits(&bytes);
        model::message(&bytes);
        if let Some(prefix) = bytes.first_chunk_mut::<16>() {
            prefix[4..8].copy_from_slice(&[0, 0, 0, 2]);
            prefix[12..16].copy_from_slice(&[0, 0, 0, proc]);
            model::limits(&bytes);
            model::message(&bytes);
        }
    }

    /// The four operations, as encoded and with damage.
    #[test]
    fn operations(
        op in 1..=4u8,
        elements in prop::collection::vec((0..4u8, any::<u32>(), any::<bool>()), 0..40),
        data in prop::collection::vec(any::<u8>(), 0..9),
        damage in gen::damage(),
    ) {
        let values: Vec<_> = elements.iter().map(|&(k, n, _)| value(k, n, &data)).collect();
        let mut buf = std::vec![0; 2048];
        let n = match op {
            1 => {
                let fixed = values.iter().zip(&elements);
                let initial = fixed.map(|(&value, e)| Initial { value, fixed: e.2 });
                let start: Vec<_> = initial.collect();
                xchar::init(&mut buf, 1, 1, Direction::Call, &start)
            }
            2 => xchar::request(&mut buf, 1, 1, &values),
            3 => {
                let all = [Disposition::Done, Disposition::Rejected, Disposition::Pending];
                let got: Vec<_> = elements.iter().map(|e| all[e.1 as usize % 3]).collect();
                xchar::respond(&mut buf, 1, 1, got.into_iter())
            }
            _ => {
                let now = values.first().copied().unwrap_or(Characteristic::ReceiveBufferSize(1));
                xchar::update(&mut buf, 1, 1, Direction::Call, &now, data.is_empty())
            }
        };
        let mut optinfo = buf[28..n.unwrap()].to_vec();
        let check = |optinfo: &[u8]| model::operation(&[&[op], optinfo].concat());
        check(&optinfo);
        gen::apply(&mut optinfo, &damage);
        check(&optinfo);
    }

    /// Every request has a response that covers it, or is refused as an operation that is not
    /// supported; and no answer is longer than every peer can receive.
    #[test]
    //~ XC-4.2-1 REQ_XCHAR is answered by RESP_XCHAR
    //~ XC-4.3-2 three subsets do not overlap
    fn requests(
        count in prop_oneof![0..200usize, 0..6000usize, 3935..3938usize],
        at in any::<prop::sample::Index>(),
    ) {
        let mut values = std::vec![Characteristic::RemoteInvalidation(true); count];
        if count != 0 {
            values[at.index(count)] = Characteristic::ReceiveBufferSize(2048);
        }
        let mut server = Session::new(SERVER);
        let mut buf = std::vec![0; 128 + 12 * count];
        let n = xchar::request(&mut buf, 7, 1, &values).unwrap();
        let verdict = server.on_message(&decoded(&buf[..n]), 0);
        prop_assert_eq!(verdict.breach, None);
        // The version, and smaller Receives.
        let mut outputs = core::iter::from_fn(|| server.poll(0));
        let answer = outputs.find_map(|output| match output {
            Output::Send(answer) => Some(answer),
            _ => None,
        });
        let answer = answer.unwrap();
        prop_assert_eq!(answer.xid, 7);
        let mut buf = std::vec![0; v2::FIRST_MESSAGE_MAX as usize];
        let n = answer.encode(&mut buf, 1).unwrap();
        if count > Dispositions::MAX as usize {
            prop_assert_eq!(answer.body, session::Body::Error(ErrorBody::InvalidOption));
            return Ok(());
        }
        let optinfo = &buf[28..n];
        let Ok(Some(Operation::Response(response))) = Operation::decode(3, optinfo) else {
            panic!("no RESP_XCHAR");
        };
        prop_assert_eq!(response.check(count as u32), Ok(()));
        for n in 0..count {
            let done = n == at.index(count);
            let want = if done { Disposition::Done } else { Disposition::Rejected };
            prop_assert_eq!(response.disposition(n as u32), Some(want));
        }
    }

    #[test]
    fn conf_rdma(words in any::<[u32; 3]>(), damage in gen::damage()) {
        let [maxcall_sendsize, align, maxrdmaread] = words;
        let reply = conf_rdma::Reply { maxcall_sendsize, align, maxrdmaread };
        let mut bytes = words.map(u32::to_be_bytes).concat();
        prop_assert_eq!(conf_rdma::Reply::decode(&bytes), Ok(reply));
        gen::apply(&mut bytes, &damage);
        model::private_data(&bytes);
    }
}
