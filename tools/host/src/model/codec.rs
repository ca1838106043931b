// SPDX-License-Identifier: GPL-2.0

//! Decoders: they stay within their input, and accepted messages encode to the same bytes again.

use crate::proto::inline::Thresholds;
use crate::wire::cm_private::{self, PrivateData, Settings};
use crate::wire::message::{Body, Message};
use crate::wire::{
    answer, conf_rdma, error_as, peek, v1, CommonReply, OnlyChunk, Receiver, Remedy,
};
use crate::wire::{Direction, EncodeError, Limits, ListProc, Lists, ReadListWriter, Version, What};

/// Writes decoded chunk lists out again.
fn encode_lists(
    writer: Result<ReadListWriter<'_>, EncodeError>,
    lists: &Lists<'_>,
) -> Result<usize, EncodeError> {
    let mut w = writer?;
    for r in lists.read_list() {
        w.segment(r.position, r.segment)?;
    }
    let mut w = w.write_list()?;
    for chunk in lists.write_list() {
        let mut c = w.chunk()?;
        for s in chunk.segments() {
            c.segment(s)?;
        }
        w = c.end();
    }
    let Some(chunk) = lists.reply_chunk() else {
        return w.finish();
    };
    let mut c = w.reply_chunk()?;
    for s in chunk.segments() {
        c.segment(s)?;
    }
    Ok(c.finish())
}

/// Decodes a message of this version that is no call by its direction, if its version has one.
fn reply(version: Version, data: &[u8]) -> Option<Message<'_>> {
    let message = Message::decode_as(version, data, &Limits::NONE).ok()?;
    (message.direction() != Some(Direction::Call)).then_some(message)
}

/// Returns a message as a [`CommonReply`], if it has that form.
fn as_common<'a>(message: &Message<'a>) -> Option<CommonReply<'a>> {
    let lists = message.lists()?;
    let mut writes = lists.write_list().flat_map(|chunk| chunk.segments());
    let chunks = (
        lists.read_list().count(),
        lists.write_list().count(),
        lists.reply_chunk(),
    );
    let chunk = match (message.body(), chunks) {
        (Body::Msg { .. }, (0, 0, None)) => OnlyChunk::None,
        (Body::Msg { .. }, (0, 1, None)) => OnlyChunk::Write(writes.next()?),
        (Body::Nomsg { .. }, (0, 0, Some(chunk))) if chunk.count() == 1 => {
            OnlyChunk::Reply(chunk.segments().next()?)
        }
        _ => return None,
    };
    writes.next().is_none().then_some(CommonReply {
        xid: message.xid(),
        credits: message.credits(),
        chunk,
        payload: message.payload(),
    })
}

/// Checks that [`CommonReply`] describes the replies of its forms, and no others, and that it
/// agrees with the general decoder.
fn common_reply(version: Version, data: &[u8]) {
    let message = reply(version, data);
    let of_form = message.as_ref().and_then(as_common);
    assert_eq!(CommonReply::of(version, data), of_form);
}

/// Checks that the limits do not change the decoded lists, and that no version is taken for
/// another.
pub fn limits(data: &[u8]) {
    let limited = Message::decode(data, &Limits::requester(1, 16));
    let message = match Message::decode(data, &Limits::NONE) {
        Ok(message) => message,
        Err(error) => {
            assert!(error.offset <= data.len() && limited.is_err());
            return;
        }
    };
    assert!(limited.is_ok_and(|m| m == message) || limited.is_err());
    for version in [Version::One, Version::Two] {
        let alone = Message::decode_as(version, data, &Limits::NONE);
        if version == message.version() {
            assert_eq!(alone, Ok(message));
        } else {
            let other = What::Version(message.version().number());
            assert_eq!(alone.map_err(|e| e.what), Err(other));
        }
    }
}

/// Checks that the answer to a message that was refused is an error that decodes, and that no peer
/// answers it.
fn answered(data: &[u8], receiver: Receiver) {
    let Remedy::Answer {
        xid,
        version,
        error,
    } = answer(data, receiver, (1, 2))
    else {
        return;
    };
    let mut buf = [0; 64];
    let n = error_as(version, &mut buf, xid, 1, error).unwrap();
    match Message::decode(&buf[..n], &Limits::NONE) {
        Ok(back) => assert_eq!((back.xid(), back.body()), (xid, &Body::Error(error))),
        Err(refused) => {
            assert_eq!(refused.what, What::Version(version));
            for receiver in [Receiver::Requester, Receiver::Responder] {
                assert_eq!(answer(&buf[..n], receiver, (1, 2)), Remedy::Drop);
            }
        }
    }
}

/// Checks that an accepted message encodes to the same bytes again, in either version. The answer
/// to a refused one can be encoded and decoded in both versions.
pub fn message(data: &[u8]) {
    for version in [Version::One, Version::Two] {
        common_reply(version, data);
    }
    let message = match Message::decode(data, &Limits::NONE) {
        Ok(message) => message,
        Err(error) => {
            assert!(error.offset <= data.len());
            for receiver in [Receiver::Requester, Receiver::Responder] {
                answered(data, receiver);
            }
            return;
        }
    };
    let _ = message.check_direction();
    assert!(message.header_len() <= data.len() && data.ends_with(message.payload()));
    let prefix = peek(data).unwrap();
    assert_eq!(
        (prefix.xid, prefix.credits),
        (message.xid(), message.credits())
    );
    assert_eq!(prefix.proc, message.proc() as u32);
    assert_eq!(prefix.version, message.version().number());
    let mut buf = std::vec![0; data.len() + 8];
    let n = message.header_len();
    assert_eq!(encode_again(&mut buf, &message), Ok(n));
    let again = Message::decode(&buf[..n], &Limits::NONE).unwrap();
    // Padding of optional data may have any value, and is encoded as zeros.
    if !matches!(message.body(), Body::Optional { .. }) {
        assert_eq!(buf[..n], data[..n]);
    }
    assert_eq!(again.lists(), message.lists());
    assert_eq!(again.direction(), message.direction());
}

fn encode_again(buf: &mut [u8], message: &Message<'_>) -> Result<usize, EncodeError> {
    let (version, xid, credits) = (message.version(), message.xid(), message.credits());
    let direction = message.direction().unwrap_or(Direction::Call);
    match *message.body() {
        Body::Msg { ref lists, .. } => encode_lists(
            version.begin(buf, xid, credits, direction, ListProc::Msg),
            lists,
        ),
        Body::Nomsg { ref lists } => encode_lists(
            version.begin(buf, xid, credits, direction, ListProc::Nomsg),
            lists,
        ),
        Body::Msgp {
            align,
            thresh,
            ref lists,
            ..
        } => encode_lists(v1::begin_padded(buf, xid, credits, align, thresh), lists),
        Body::Done => v1::done(buf, xid, credits),
        Body::Error(error) => version.error(buf, xid, credits, error),
        Body::Optional {
            opttype, optinfo, ..
        } => optional(buf, xid, credits, direction, opttype, optinfo),
    }
}

/// Writes RDMA2_OPTIONAL with any data, which the module does not. Returns its length.
pub fn optional(
    buf: &mut [u8],
    xid: u32,
    credits: u32,
    direction: Direction,
    opttype: u32,
    optinfo: &[u8],
) -> Result<usize, EncodeError> {
    let len = optinfo.len() as u32;
    let words = [xid, 2, credits, 5, direction as u32, opttype, len];
    let mut message = words.map(u32::to_be_bytes).concat();
    message.extend(optinfo);
    message.resize(message.len().next_multiple_of(4), 0);
    let place = buf.get_mut(..message.len()).ok_or(EncodeError::NoRoom)?;
    place.copy_from_slice(&message);
    Ok(message.len())
}

/// Checks the second format of private data: what was found is in the input, behind the first.
fn versions(data: &[u8], settings: Settings) {
    let both = PrivateData::new(settings);
    let Some((first, second)) = both.as_bytes().split_first_chunk::<{ cm_private::LEN }>() else {
        panic!("no first format");
    };
    assert_eq!(*first, cm_private::encode(settings));
    assert_eq!(second.is_empty(), settings.versions.is_none());
    let at = data.windows(5).position(|w| w == &first[..5]).unwrap();
    let mut behind = data[at + cm_private::LEN..].windows(cm_private::VERSIONS_LEN);
    // Reserved bits are ignored.
    let same = |w: &[u8]| w[..5] == second[..5] && w[5] & 1 == second[5] && w[6..] == second[6..];
    assert!(second.is_empty() || behind.any(same));
}

/// Checks CM private data and CONF_RDMA: a decoded message encodes to bytes of the input.
pub fn private_data(data: &[u8]) {
    let found = cm_private::decode(data);
    if let Some(settings) = found {
        let bytes = cm_private::encode(settings);
        let mut fields = data.windows(cm_private::LEN);
        let here = fields.find(|w| w[..5] == bytes[..5]).unwrap();
        // Reserved flags are ignored.
        assert_eq!(here[5] & 1, bytes[5]);
        assert_eq!(here[6..], bytes[6..]);
        versions(data, settings);
    }
    let t = Thresholds::for_client(&Settings::DEFAULT, found);
    assert_eq!((t.client_to_server, t.server_to_client), (1024, 1024));
    if let Ok(request) = conf_rdma::Request::decode(data) {
        assert_eq!(&request.encode()[..], data);
    }
    if let Ok(reply) = conf_rdma::Reply::decode(data) {
        let words = [reply.maxcall_sendsize, reply.align, reply.maxrdmaread];
        assert_eq!(words.map(u32::to_be_bytes).concat(), data);
    }
}
