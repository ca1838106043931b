// SPDX-License-Identifier: GPL-2.0

//! Prints items of the protocol, one a line: the kind, the bytes in hex, and the fields that we
//! decode. `cross_check.py` puts the items into packets and compares the fields with tshark's.

use rpcrdma_proto::wire::cm_private::{self, PrivateData, Settings, Size, Versions};
use rpcrdma_proto::wire::message::{Body, ErrorBody};
use rpcrdma_proto::wire::{v1, Direction, EncodeError, Limits, ListProc, Lists, Message};
use rpcrdma_proto::wire::{ReadListWriter, Segment, Version};

fn segment(n: u32) -> Segment {
    Segment {
        handle: 0x100 + n,
        length: 0x1000 * (n % 7) + n,
        offset: 0x1234_5678_0000_0000 + u64::from(n),
    }
}

/// Lists with a number of read segments, write chunks with numbers of segments, and a reply chunk.
#[derive(Clone, Copy)]
struct Shape<'a> {
    position: u32,
    reads: u32,
    writes: &'a [u32],
    reply: Option<u32>,
}

impl Shape<'_> {
    fn write(&self, mut w: ReadListWriter<'_>) -> Result<usize, EncodeError> {
        for n in 0..self.reads {
            w.segment(self.position, segment(n))?;
        }
        let mut w = w.write_list()?;
        for &count in self.writes {
            let mut c = w.chunk()?;
            for n in 0..count {
                c.segment(segment(n + 50))?;
            }
            w = c.end();
        }
        let Some(count) = self.reply else {
            return w.finish();
        };
        let mut c = w.reply_chunk()?;
        for n in 0..count {
            c.segment(segment(n + 80))?;
        }
        Ok(c.finish())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn join<T: ToString>(items: impl Iterator<Item = T>) -> String {
    items.map(|i| i.to_string()).collect::<Vec<_>>().join(",")
}

fn fields(lists: &Lists<'_>) -> String {
    let show = |s: Segment| format!("{:08x}:{}:{:016x}", s.handle, s.length, s.offset);
    let all = lists.read_list().map(|r| r.segment);
    let all = all.chain(lists.write_list().flat_map(|c| c.segments()));
    let all = all.chain(lists.reply_chunk().into_iter().flat_map(|c| c.segments()));
    let counts = lists.write_list().chain(lists.reply_chunk());
    format!(
        "segments={} positions={} reads={} writes={} reply={} counts={}",
        join(all.map(show)),
        join(lists.read_list().map(|r| r.position)),
        lists.read_list().count(),
        lists.write_list().count(),
        lists.reply_chunk().is_some() as u32,
        join(counts.map(|c| c.count())),
    )
}

fn print_header(bytes: &[u8]) {
    let header = Message::decode(bytes, &Limits::NONE).expect("our own message");
    let mut body = match header.body() {
        Body::Error(ErrorBody::Vers { low, high }) => format!("error=1 low={low} high={high}"),
        Body::Error(ErrorBody::BadHeader) => "error=2".into(),
        Body::Error(ErrorBody::InvalidOption) => "error=3".into(),
        Body::Msgp { align, thresh, .. } => format!("align={align} thresh={thresh} "),
        _ => String::new(),
    };
    body += &header.lists().map(fields).unwrap_or_default();
    let (xid, credits, proc) = (header.xid(), header.credits(), header.proc() as u32);
    let bytes = hex(bytes);
    let kind = match header.version() {
        Version::One => "header",
        Version::Two => "header2",
    };
    println!("{kind} {bytes} xid={xid:08x} credits={credits} proc={proc} {body}");
}

/// A call that tshark need not understand: XID, CALL, version 2, program 0.
fn print_with_call(buf: &mut [u8], n: usize, xid: u32) {
    let rpc = [xid, 0, 2, 0, 0, 0, 0, 0, 0, 0].map(u32::to_be_bytes);
    buf[n..n + 40].copy_from_slice(&rpc.concat());
    print_header(&buf[..n + 40]);
}

fn begin(
    version: Version,
    buf: &mut [u8],
    xid: u32,
    proc: ListProc,
) -> Result<ReadListWriter<'_>, EncodeError> {
    version.begin(buf, xid, xid % 100, Direction::Call, proc)
}

/// Headers of both versions with all combinations of the lists. Returns the last XID.
fn with_lists() -> Result<u32, EncodeError> {
    let mut buf = [0; 1024];
    let mut xid = 0x0a00_0001;
    for reads in [0, 1, 3] {
        for writes in [&[][..], &[1], &[2, 3], &[16]] {
            for reply in [None, Some(1), Some(4)] {
                xid += 1;
                let mut shape = Shape {
                    position: 148,
                    reads,
                    writes,
                    reply,
                };
                let n = shape.write(v1::begin_padded(&mut buf, xid, 9, 4096, 1024)?)?;
                print_with_call(&mut buf, n, xid);
                for version in [Version::One, Version::Two] {
                    shape.position = 148;
                    let n = shape.write(begin(version, &mut buf, xid, ListProc::Msg)?)?;
                    print_with_call(&mut buf, n, xid);
                    shape.position = 0;
                    let n = shape.write(begin(version, &mut buf, xid, ListProc::Nomsg)?)?;
                    print_header(&buf[..n]);
                }
            }
        }
    }
    Ok(xid)
}

fn headers() -> Result<(), EncodeError> {
    let mut buf = [0; 1024];
    let xid = with_lists()?;
    let n = v1::done(&mut buf, xid, 3)?;
    print_header(&buf[..n]);
    for error in [ErrorBody::Vers { low: 1, high: 2 }, ErrorBody::BadHeader] {
        for version in [Version::One, Version::Two] {
            let n = version.error(&mut buf, xid, 1, error)?;
            print_header(&buf[..n]);
        }
    }
    let n = Version::Two.error(&mut buf, xid, 1, ErrorBody::InvalidOption)?;
    print_header(&buf[..n]);
    // ERR_CHUNK of RFC 5666, with its eight words.
    let n = Version::One.error(&mut buf, xid, 1, ErrorBody::BadHeader)?;
    buf[n..n + 32].fill(0);
    print_header(&buf[..n + 32]);
    Ok(())
}

/// A field of private data in one kind of handshake: other layers' bytes, the message, and zeros up
/// to the field's length.
fn print_private(kind: &str, front: &[u8], message: &[u8], len: usize) {
    let mut field = [front, message].concat();
    field.resize(len.max(field.len()), 0);
    let found = cm_private::decode(&field).map_or("none".into(), |s| {
        let r = s.remote_invalidation as u32;
        let (send, receive) = (s.send.bytes(), s.receive.bytes());
        // The fields are private. The last two bytes of both formats have the range.
        let both = PrivateData::new(s);
        let (low, high) = match both.as_bytes() {
            [_, _, _, _, _, _, _, _, _, _, _, _, _, _, low, high] => (*low, *high),
            _ => (0, 0),
        };
        format!("invalidation={r} send={send} receive={receive} low={low} high={high}")
    });
    println!("{kind} {} {found}", hex(&field));
}

fn private_data() {
    // IRD and ORD, which MPA revision 2 puts in front (RFC 6581).
    const MPA2: [u8; 4] = [0x80, 0x10, 0x80, 0x10];
    let sizes = [1024, 2048, 4096, 65536, 262_144];
    let mut messages = vec![vec![], cm_private::encode(Settings::DEFAULT).to_vec()];
    for (n, (send, receive)) in sizes.into_iter().zip(sizes.into_iter().rev()).enumerate() {
        let settings = Settings {
            remote_invalidation: n % 2 == 0,
            send: Size::from_bytes(send),
            receive: Size::from_bytes(receive),
            versions: Versions::new(1, n as u8, n % 2 == 0),
        };
        messages.push(PrivateData::new(settings).as_bytes().to_vec());
    }
    // A later version of the format, which is passed over.
    messages.push(vec![0xf6, 0xab, 0x0e, 0x18, 2, 1, 3, 3]);
    for message in messages {
        print_private("req", &[], &message, 56);
        print_private("rep", &[], &message, 196);
        print_private("mpa-req", &MPA2, &message, 0);
        print_private("mpa-rep", &MPA2, &message, 0);
    }
}

fn main() -> Result<(), EncodeError> {
    headers()?;
    private_data();
    Ok(())
}
