// SPDX-License-Identifier: GPL-2.0

//! Prints messages of every kind, one a line: name, bytes in hex, and the fields as we decode them.
//! `cross_check.py` wraps them in packets and compares with what tshark makes of them.

use rpcrdma_proto::wire::v1::{self, Body, ErrorBody, ListProc};
use rpcrdma_proto::wire::{EncodeError, Limits, Lists, Segment};

fn segment(n: u32) -> Segment {
    Segment {
        handle: 0x100 + n,
        length: 0x1000 * (n % 7) + n,
        offset: 0x1234_5678_0000_0000 + u64::from(n),
    }
}

/// A message with so many read segments, write chunks of so many segments, and a reply chunk.
fn lists(
    buf: &mut [u8],
    xid: u32,
    proc: ListProc,
    reads: u32,
    writes: &[u32],
    reply: Option<u32>,
) -> Result<usize, EncodeError> {
    let mut w = v1::begin(buf, xid, xid % 100, proc)?;
    for n in 0..reads {
        let position = if proc == ListProc::Nomsg { 0 } else { 148 };
        w.segment(position, segment(n))?;
    }
    let mut w = w.write_list()?;
    for &count in writes {
        let mut c = w.chunk()?;
        for n in 0..count {
            c.segment(segment(n + 50))?;
        }
        w = c.end();
    }
    let w = w.reply_chunk()?;
    let Some(count) = reply else {
        return w.finish();
    };
    let mut c = w.chunk()?;
    for n in 0..count {
        c.segment(segment(n + 80))?;
    }
    Ok(c.finish())
}

fn fields(lists: &Lists<'_>) -> String {
    let show = |s: Segment| format!("{:08x}:{}:{:016x}", s.handle, s.length, s.offset);
    let all = lists.read_list().map(|r| r.segment);
    let all = all.chain(lists.write_list().flat_map(|c| c.segments()));
    let all = all.chain(lists.reply_chunk().into_iter().flat_map(|c| c.segments()));
    let segments: Vec<_> = all.map(show).collect();
    let positions: Vec<_> = lists.read_list().map(|r| r.position.to_string()).collect();
    format!(
        "segments={} positions={}",
        segments.join(","),
        positions.join(",")
    )
}

fn print(bytes: &[u8]) {
    let header = v1::decode(bytes, &Limits::NONE).expect("our own message");
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let body = match header.body() {
        Body::Error(ErrorBody::Vers { low, high }) => format!("error=1 low={low} high={high}"),
        Body::Error(ErrorBody::Chunk) => "error=2".into(),
        _ => header.lists().map(fields).unwrap_or_default(),
    };
    let (xid, credits, proc) = (header.xid(), header.credits(), header.proc() as u32);
    println!("{hex} xid={xid:08x} credits={credits} proc={proc} {body}");
}

fn main() -> Result<(), EncodeError> {
    let mut buf = [0; 1024];
    let mut xid = 0x0a00_0001;
    for proc in [ListProc::Msg, ListProc::Nomsg] {
        for reads in [0, 1, 3] {
            for writes in [&[][..], &[1], &[2, 3], &[16]] {
                for reply in [None, Some(1), Some(4)] {
                    xid += 1;
                    let n = lists(&mut buf, xid, proc, reads, writes, reply)?;
                    // A call that tshark need not understand: XID, CALL, version 2, program 0.
                    let rpc = [xid, 0, 2, 0, 0, 0, 0, 0, 0, 0].map(u32::to_be_bytes);
                    let inline = if proc == ListProc::Msg { 40 } else { 0 };
                    buf[n..n + inline].copy_from_slice(&rpc.concat()[..inline]);
                    print(&buf[..n + inline]);
                }
            }
        }
    }
    for error in [ErrorBody::Vers { low: 1, high: 2 }, ErrorBody::Chunk] {
        let n = v1::error(&mut buf, xid, 1, error)?;
        print(&buf[..n]);
    }
    Ok(())
}
