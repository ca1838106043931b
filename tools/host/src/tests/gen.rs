// SPDX-License-Identifier: GPL-2.0

//! Generators: owned messages, their encoding, and damage to encoded messages.

use proptest::prelude::*;
use std::vec::Vec;

use crate::wire::{
    Direction, EncodeError, ListProc, ReadListWriter, ReadSegment, Segment, Version,
};

pub fn segment() -> impl Strategy<Value = Segment> {
    let length = prop_oneof![0..=16u32, Just(u32::MAX), any::<u32>()];
    (any::<u32>(), length, any::<u64>()).prop_map(|(handle, length, offset)| Segment {
        handle,
        length,
        offset,
    })
}

fn read_segment() -> impl Strategy<Value = ReadSegment> {
    let position = prop_oneof![Just(0), Just(148), any::<u32>().prop_map(|p| p & !3)];
    (position, segment()).prop_map(|(position, segment)| ReadSegment { position, segment })
}

/// Chunk lists that own their elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedLists {
    pub reads: Vec<ReadSegment>,
    pub writes: Vec<Vec<Segment>>,
    pub reply: Option<Vec<Segment>>,
}

pub fn lists() -> impl Strategy<Value = OwnedLists> {
    let chunk = || prop::collection::vec(segment(), 0..5);
    (
        prop::collection::vec(read_segment(), 0..6),
        prop::collection::vec(chunk(), 0..4),
        prop::option::of(chunk()),
    )
        .prop_map(|(reads, writes, reply)| OwnedLists {
            reads,
            writes,
            reply,
        })
}

/// A call of version one or two with short chunks, most of them where they may be.
pub fn call() -> impl Strategy<Value = Vec<u8>> {
    let length = || prop_oneof![8 => 1..100u32, 1 => Just(0), 1 => 100..2000u32];
    let segment = move || {
        let offset = prop_oneof![8 => 0..1000u64, 1 => Just(u64::MAX - 50)];
        let handle = prop_oneof![3 => Just(1u32), 1 => 1..4u32];
        (handle, length(), offset).prop_map(|(handle, length, offset)| Segment {
            handle,
            length,
            offset,
        })
    };
    let chunk = move || prop::collection::vec(segment(), 1..4);
    let step = prop_oneof![6 => 0..20u32, 1 => Just(u32::MAX)];
    let reads = prop::collection::vec((step, chunk()), 0..4);
    let writes = prop::collection::vec(chunk(), 0..3);
    let reply = prop::option::of(chunk());
    (reads, writes, reply, any::<(bool, bool)>(), 0..100usize).prop_map(
        |(reads, writes, reply, (long, two), inline)| {
            let reads = place(&reads, long);
            let lists = OwnedLists {
                reads,
                writes,
                reply,
            };
            encode_call(&lists, long, two, inline)
        },
    )
}

/// Puts chunks at positions: each as far behind the one before as its number of words says.
fn place(chunks: &[(u32, Vec<Segment>)], long: bool) -> Vec<ReadSegment> {
    let mut at = if long { 0 } else { 8 };
    let mut reads = Vec::new();
    for (n, (gap, segments)) in chunks.iter().enumerate() {
        if n > 0 || !long {
            at = if *gap == u32::MAX { 4 } else { at + gap * 4 };
        }
        reads.extend(segments.iter().map(|&segment| ReadSegment {
            position: at,
            segment,
        }));
        if n > 0 || !long {
            let len: u32 = segments.iter().map(|s| s.length).sum();
            at += len.next_multiple_of(4);
        }
    }
    reads
}

fn encode_call(lists: &OwnedLists, long: bool, two: bool, inline: usize) -> Vec<u8> {
    let version = if two { Version::Two } else { Version::One };
    let proc = if long { ListProc::Nomsg } else { ListProc::Msg };
    let mut buf = std::vec![0; 20 + lists.len()];
    let w = version
        .begin(&mut buf, 7, 1, Direction::Call, proc)
        .unwrap();
    let n = lists.encode(w).unwrap();
    buf.truncate(n);
    if !long {
        buf.extend([0, 0, 0, 7, 0, 0, 0, 0]);
        buf.resize(n + 8 + inline, 0);
    }
    buf
}

impl OwnedLists {
    pub fn encode(&self, mut w: ReadListWriter<'_>) -> Result<usize, EncodeError> {
        for r in &self.reads {
            w.segment(r.position, r.segment)?;
        }
        let mut w = w.write_list()?;
        for chunk in &self.writes {
            let mut c = w.chunk()?;
            for s in chunk {
                c.segment(*s)?;
            }
            w = c.end();
        }
        let Some(reply) = &self.reply else {
            return w.finish();
        };
        let mut c = w.reply_chunk()?;
        for s in reply {
            c.segment(*s)?;
        }
        Ok(c.finish())
    }

    pub fn decoded(lists: &crate::wire::Lists<'_>) -> Self {
        Self {
            reads: lists.read_list().collect(),
            writes: lists.write_list().map(|c| c.segments().collect()).collect(),
            reply: lists.reply_chunk().map(|c| c.segments().collect()),
        }
    }

    /// Returns the length of the three lists in bytes.
    pub fn len(&self) -> usize {
        let writes: usize = self.writes.iter().map(|c| 8 + 16 * c.len()).sum();
        let reply = self.reply.as_ref().map_or(0, |c| 4 + 16 * c.len());
        12 + 24 * self.reads.len() + writes + reply
    }
}

/// Damage to a message.
#[derive(Clone, Debug)]
pub enum Damage {
    /// One byte replaced.
    Byte(prop::sample::Index, u8),
    /// One word replaced by a number that is likely to be a limit.
    Word(prop::sample::Index, u32),
    /// The end removed.
    Cut(prop::sample::Index),
    /// Bytes inserted.
    Insert(prop::sample::Index, Vec<u8>),
}

pub fn damage() -> impl Strategy<Value = Vec<Damage>> {
    let at = any::<prop::sample::Index>;
    let word = prop_oneof![0..6u32, Just(u32::MAX), Just(1 << 28), any::<u32>()];
    let one = prop_oneof![
        (at(), any::<u8>()).prop_map(|(i, b)| Damage::Byte(i, b)),
        (at(), word).prop_map(|(i, w)| Damage::Word(i, w)),
        at().prop_map(Damage::Cut),
        (at(), prop::collection::vec(any::<u8>(), 1..9)).prop_map(|(i, b)| Damage::Insert(i, b)),
    ];
    prop::collection::vec(one, 1..4)
}

pub fn apply(bytes: &mut Vec<u8>, damage: &[Damage]) {
    for d in damage {
        match d {
            Damage::Byte(i, b) if !bytes.is_empty() => {
                let i = i.index(bytes.len());
                bytes[i] = *b;
            }
            Damage::Word(i, w) if bytes.len() >= 4 => {
                let i = i.index(bytes.len() / 4) * 4;
                bytes[i..i + 4].copy_from_slice(&w.to_be_bytes());
            }
            Damage::Cut(i) if !bytes.is_empty() => bytes.truncate(i.index(bytes.len())),
            Damage::Insert(i, b) => {
                let i = i.index(bytes.len() + 1);
                bytes.splice(i..i, b.iter().copied());
            }
            _ => {}
        }
    }
}
