// SPDX-License-Identifier: GPL-2.0

//! Two sessions, or one and a peer of another kind, at the ends of a link that delays messages and
//! loses connections.

use std::collections::BTreeMap;
use std::vec::Vec;

use super::end::{End, Packet};
use super::Input;
use crate::proto::cases::window::Flow;
use crate::proto::inline::Thresholds;
use crate::proto::peers::{Key, Peers, TTL_MS};
use crate::proto::session::{Announced, Config, Output, Session, Side, Take, SPARE_RECEIVES};
use crate::proto::version::{Cause, Setting};
use crate::wire::cm_private::{Settings, Size, Versions};
use crate::wire::message::{Body, ErrorBody};
use crate::wire::xchar::BackwardSupport;
use crate::wire::{peek, Direction, Limits, ListProc, Message, Version};

mod room;
mod settings;

use room::Operation;
pub use settings::settings;

/// The most credits that a server grants.
const GRANT: u32 = 4;
/// How long a message is on its way at most, and how long a Receive is not posted again.
const DELAY_MS: u64 = 400;
/// The most time that passes at once.
const STEP_MS: u64 = 256;
const PEER: Key = Key {
    net: 1,
    address: [7; 16],
    port: 20049,
};

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A session that serves these versions.
    Ours(Version),
    /// It answers a call in version two by this error, in this version.
    Error(Version, ErrorBody),
    /// It answers in a later draft.
    Later,
    /// It answers in version one.
    One,
    /// It drops messages in version two.
    Silent,
    /// It closes the connection on a message in version two.
    Closes,
}

const KINDS: [Kind; 12] = [
    Kind::Ours(Version::Two),
    Kind::Ours(Version::Two),
    Kind::Ours(Version::Two),
    Kind::Ours(Version::One),
    Kind::Error(Version::One, ErrorBody::Vers { low: 1, high: 1 }),
    Kind::Error(Version::One, ErrorBody::BadHeader),
    Kind::Error(Version::Two, ErrorBody::BadHeader),
    Kind::Error(Version::Two, ErrorBody::InvalidOption),
    Kind::Later,
    Kind::One,
    Kind::Silent,
    Kind::Closes,
];

/// A call of the client.
#[derive(Clone, Copy, Debug)]
struct Call {
    xid: u32,
    /// The generation of the terms that it was prepared under.
    generation: u32,
    version: Version,
    len: u32,
    /// The length of the reply, and whether there is a reply chunk for it.
    reply: u32,
    chunk: bool,
}

struct World {
    kind: Kind,
    setting: Setting,
    peers: Peers,
    now: u64,
    client: End,
    server: End,
    flow: Flow,
    /// A non-error reply has arrived on this connection.
    heard: bool,
    next_xid: u32,
    prepared: Vec<Call>,
    in_flight: BTreeMap<u32, Call>,
    /// Calls that the server has received and not answered.
    queue: Vec<(Version, Call)>,
    done: u32,
    connections: u32,
    /// Neither end has Receives but for credits. Operations of the client take a credit.
    bare: bool,
    operation: Operation,
}

/// Runs a client and a server.
pub fn session(data: &[u8]) {
    let mut i = Input::new(data);
    let kind = KINDS[usize::from(i.byte()) % KINDS.len()];
    let mut world = World::new(&mut i, kind);
    while !i.is_empty() {
        world.step(&mut i);
    }
    world.finish();
}

fn config(i: &mut Input<'_>, side: Side, versions: (Version, Version)) -> Config {
    let kilo = |i: &mut Input<'_>| 1024 * (1 + u32::from(i.byte() % 32));
    Config {
        side,
        versions,
        one: Thresholds::DEFAULT,
        receive: kilo(i).max(4096),
        announced: Announced::of(None),
        send: kilo(i),
        invalidation: i.byte() % 2 == 0,
        backward: BackwardSupport::from_u32(u32::from(i.byte() % 4)).unwrap(),
        xid: i.word() | 1 << 31,
    }
}

/// Returns the private data of an end.
fn private(config: &Config) -> Settings {
    Settings {
        remote_invalidation: config.invalidation,
        send: Size::from_bytes(config.send),
        receive: Size::from_bytes(config.receive),
        ..Settings::DEFAULT
    }
}

/// Makes a connection, with other settings than the one before.
fn connect(i: &mut Input<'_>, first: Version, kind: Kind, know: bool) -> (End, End, bool) {
    let high = match kind {
        Kind::Ours(high) => high,
        _ => Version::One,
    };
    let mut client = config(i, Side::Client, (first, first));
    let mut server = config(i, Side::Server, (Version::One, high));
    if know {
        // One setting.
        server.send = server.receive;
    }
    let (mut c, mut s) = (private(&client), private(&server));
    // Both ends say which versions they know. Of two newer ones the sizes hold in all versions.
    let sizes = know || i.byte() % 4 != 0;
    for (settings, high) in [(&mut c, Version::Two), (&mut s, high)] {
        settings.versions = Versions::new(1, high.number() as u8, sizes);
    }
    client.one = Thresholds::for_client(&c, Some(s));
    server.one = Thresholds::for_server(&s, Some(c));
    client.announced = Announced::of(Some(&s));
    server.announced = Announced::of(Some(&c));
    // Without spare Receives a client has as many as it asks for, and a server as it grants.
    let (credits, granted) = match sizes {
        true => (GRANT + SPARE_RECEIVES, GRANT + SPARE_RECEIVES),
        false => (GRANT, GRANT - 1),
    };
    let end =
        |config: Config, count: u32| End::new(Session::new(config), count as usize, config.receive);
    (end(client, credits), end(server, granted), !sizes)
}

impl World {
    fn new(i: &mut Input<'_>, kind: Kind) -> Self {
        let (client, server, bare) = connect(i, Version::Two, kind, false);
        Self {
            kind,
            setting: Setting::Two,
            peers: Peers::new(),
            now: 0,
            client,
            server,
            flow: Flow::new(),
            heard: false,
            next_xid: 0,
            prepared: Vec::new(),
            in_flight: BTreeMap::new(),
            queue: Vec::new(),
            done: 0,
            connections: 1,
            bare,
            operation: Operation::None,
        }
    }

    fn step(&mut self, i: &mut Input<'_>) {
        match i.byte() % 16 {
            0 | 1 => self.prepare(i),
            2 | 3 => self.post(i),
            4..=6 => self.reach_server(i),
            7..=9 => self.reach_client(i),
            10 | 11 => self.answer(i),
            12 => {
                let ms = u64::from(i.byte());
                self.pass(i, ms);
            }
            13 => self.wish(i),
            14 => self.client.post(self.now),
            _ if i.byte() < 24 => self.lose(i),
            _ => self.server.post(self.now),
        }
        self.carry_out(i);
    }

    /// Lets the time pass. What has to happen until then happens, and little later.
    fn pass(&mut self, i: &mut Input<'_>, ms: u64) {
        let mut left = ms;
        while left > STEP_MS {
            self.pass_step(i, STEP_MS);
            left -= STEP_MS;
        }
        self.pass_step(i, left);
    }

    fn pass_step(&mut self, i: &mut Input<'_>, ms: u64) {
        self.now += ms;
        let late = self.now.saturating_sub(DELAY_MS);
        let is_late = |end: &End| end.outbox.front().is_some_and(|p| p.sent <= late);
        while is_late(&self.client) || is_late(&self.server) {
            if is_late(&self.client) {
                self.reach_server(i);
            } else {
                self.reach_client(i);
            }
            self.carry_out(i);
        }
        self.client.post(late);
        self.server.post(late);
        self.client.session.on_timer(self.now);
        self.server.session.on_timer(self.now);
    }

    /// Prepares a call: new, or one that the connection before this one has lost.
    fn prepare(&mut self, i: &mut Input<'_>) {
        if self.prepared.len() + self.in_flight.len() >= 8 {
            return;
        }
        self.next_xid += 1;
        let call = self.plan(i, self.next_xid);
        self.prepared.push(call);
    }

    fn plan(&self, i: &mut Input<'_>, xid: u32) -> Call {
        let terms = self.client.session.terms();
        let reply = 64 + i.number() % 40_000;
        Call {
            xid,
            generation: terms.generation,
            version: terms.version,
            len: 64 + i.number() % (terms.send - 63),
            reply,
            chunk: reply > terms.expected,
        }
    }

    /// Posts a prepared call, if it may be sent.
    fn post(&mut self, i: &mut Input<'_>) {
        let Some(mut call) = self.prepared.pop() else {
            return;
        };
        let terms = *self.client.session.terms();
        // While the caller does not know the new terms everywhere, calls of the terms before slip
        // through.
        let slips = self.client.may_slip(call.generation) && call.version == terms.version;
        if terms.voids(call.generation) && !(slips && i.byte() % 2 == 0) {
            call = self.plan(i, call.xid);
        }
        let allowed = terms.settled || self.in_flight.is_empty() && call.len <= terms.send;
        if !allowed || !self.flow.try_take() {
            return self.prepared.push(call);
        }
        if !self.heard {
            assert!(self.in_flight.is_empty(), "one until the first reply");
        }
        self.send_call(call);
    }

    fn send_call(&mut self, call: Call) {
        let (direction, now) = (Direction::Call, self.now);
        let bytes = rpc(call.version, call.xid, GRANT, direction);
        self.client.send(bytes, call.len, now);
        if !self.client.session.terms().settled {
            self.client.session.on_sent(call.xid, now);
        }
        self.in_flight.insert(call.xid, call);
    }

    /// Delivers a message to the server.
    fn reach_server(&mut self, i: &mut Input<'_>) {
        let Some(packet) = self.client.outbox.pop_front() else {
            return;
        };
        self.server.receive(&packet, self.now);
        match self.kind {
            Kind::Ours(_) => self.serve(&packet),
            _ => self.react(i, &packet),
        }
    }

    /// A server of ours: what does not decode as a served version, and what its session says.
    fn serve(&mut self, packet: &Packet) {
        let session = &mut self.server.session;
        let m = Message::decode(&packet.bytes, &Limits::NONE).unwrap();
        let terms = *session.terms();
        let ordinary = matches!(m.body(), Body::Msg { .. }) && m.version() == terms.version;
        if terms.watch || !ordinary {
            let verdict = session.on_message(&m, self.now);
            assert_eq!(verdict.breach, None);
            if verdict.take != Take::Deliver {
                return;
            }
        }
        if m.version() == Version::Two && self.kind == Kind::Ours(Version::One) {
            let vers = ErrorBody::Vers { low: 1, high: 1 };
            return self.send_error(m.version(), m.xid(), vers);
        }
        if let Body::Msg { .. } = m.body() {
            self.queue.push((m.version(), self.in_flight[&m.xid()]));
        }
    }

    fn send_error(&mut self, version: Version, xid: u32, error: ErrorBody) {
        let mut buf = [0; 64];
        let n = version.error(&mut buf, xid, GRANT, error).unwrap();
        self.server.send(buf[..n].to_vec(), n as u32, self.now);
    }

    /// A server of another kind.
    fn react(&mut self, i: &mut Input<'_>, packet: &Packet) {
        let prefix = peek(&packet.bytes).unwrap();
        let call = self.in_flight.get(&prefix.xid).copied();
        let Some(call) = call else {
            return;
        };
        if prefix.version == 1 {
            return self.queue.push((Version::One, call));
        }
        match self.kind {
            Kind::Error(version, error) => self.send_error(version, prefix.xid, error),
            Kind::Later => {
                let mut bytes = rpc(Version::Two, prefix.xid, 1, Direction::Reply);
                bytes[18] = 7;
                self.server.send(bytes, 64, self.now);
            }
            Kind::One => self.queue.push((Version::One, call)),
            Kind::Closes => self.lose_by(i, Cause::Peer),
            Kind::Silent | Kind::Ours(_) => {}
        }
    }

    /// Answers a call.
    fn answer(&mut self, i: &mut Input<'_>) {
        if self.queue.is_empty() {
            return;
        }
        let at = usize::from(i.byte()) % self.queue.len();
        let (version, call) = self.queue.remove(at);
        let terms = *self.server.session.terms();
        let limit = terms.send;
        assert!(call.chunk || call.reply <= limit, "no room for the reply");
        let long = call.reply > limit;
        let len = if long { 64 } else { call.reply };
        let grant = self.grant(i);
        let bytes = rpc(version, call.xid, grant, Direction::Reply);
        self.server.send(bytes, len, self.now);
        if terms.watch {
            self.server.session.on_replied();
        }
    }

    /// Delivers a message to the client.
    fn reach_client(&mut self, i: &mut Input<'_>) {
        let Some(packet) = self.server.outbox.pop_front() else {
            return;
        };
        self.client.receive(&packet, self.now);
        let (session, now) = (&mut self.client.session, self.now);
        let m = match Message::decode(&packet.bytes, &Limits::NONE) {
            Ok(m) => m,
            Err(error) => {
                session.on_undecodable(&packet.bytes, &error, now);
                return self.carry_out(i);
            }
        };
        let terms = *session.terms();
        let ordinary = matches!(m.body(), Body::Msg { .. }) && m.version() == terms.version;
        let (mut take, mut grant) = (Take::Deliver, true);
        if terms.watch || !ordinary {
            let verdict = session.on_message(&m, now);
            assert_eq!(verdict.breach, None);
            (take, grant) = (verdict.take, verdict.grant);
        }
        if ordinary && packet.len > terms.expected {
            session.on_long_reply(packet.len);
        }
        self.take(&m, take, grant);
    }

    /// Processes a message of the server as the transport does.
    fn take(&mut self, m: &Message<'_>, take: Take, grant: bool) {
        let answers = take == Take::Deliver && self.in_flight.contains_key(&m.xid());
        if answers {
            self.in_flight.remove(&m.xid());
            self.done += 1;
            self.confirm();
            self.heard |= !matches!(m.body(), Body::Error(_));
        }
        match (answers, grant) {
            (true, true) => {
                self.flow.on_reply(m.credits(), GRANT);
            }
            (true, false) => self.flow.on_unanswered(),
            (false, true) => {
                self.flow.on_grant(m.credits(), GRANT);
            }
            (false, false) => {}
        }
    }

    fn wish(&mut self, i: &mut Input<'_>) {
        let size = 512 * (1 + u32::from(i.byte() % 64));
        let end = if i.byte() % 2 == 0 {
            &mut self.client
        } else {
            &mut self.server
        };
        match i.byte() % 3 {
            0 => end.session.want_receive(size),
            1 => end.session.want_send(size.max(1024)),
            _ => drop(self.client.session.ask(size)),
        }
    }

    /// Carries out what the sessions want.
    fn carry_out(&mut self, i: &mut Input<'_>) {
        self.client.carry_out(i, GRANT, self.now);
        let grant = self.grant(i);
        self.server.carry_out(i, grant, self.now);
        self.make_room(i, grant);
        self.check();
        for output in core::mem::take(&mut self.client.news) {
            match output {
                Output::Remember(memory) => self.peers.note(&PEER, memory, self.now, TTL_MS),
                Output::Settled(_) | Output::Room => {}
                Output::Operated => self.operation = Operation::Sent(self.in_flight.len() + 1),
                Output::Resend { xid, version } => self.resend(xid, version),
                Output::Close(_) => return self.lose_by(i, Cause::Local),
                other => panic!("{other:?}"),
            }
        }
        self.server.news.clear();
    }

    fn resend(&mut self, xid: u32, version: Version) {
        let terms = *self.client.session.terms();
        let mut call = self.in_flight[&xid];
        call.version = version;
        call.generation = terms.generation;
        call.chunk = call.reply > terms.expected;
        call.len = call.len.min(terms.send);
        assert_eq!(version, terms.version);
        self.send_call(call);
    }

    fn lose(&mut self, i: &mut Input<'_>) {
        let cause = [Cause::Peer, Cause::Local, Cause::Forced][usize::from(i.byte()) % 3];
        if i.byte() % 8 == 0 {
            // The server starts again, with other settings.
            self.kind = KINDS[usize::from(i.byte()) % KINDS.len()];
        }
        self.lose_by(i, cause);
    }

    /// Loses the connection and makes another one. Calls in flight are prepared again.
    fn lose_by(&mut self, i: &mut Input<'_>, cause: Cause) {
        if let Some(memory) = self.client.session.on_lost(cause) {
            self.peers.note(&PEER, memory, self.now, TTL_MS);
        }
        self.server.session.on_lost(cause);
        let one_only = self.peers.is_one_only(&PEER, self.now);
        let first = self.setting.first_version(true, one_only);
        (self.client, self.server, self.bare) = connect(i, first, self.kind, false);
        self.operation = Operation::None;
        self.flow = Flow::new();
        self.heard = false;
        self.queue.clear();
        self.connections += 1;
        let lost = core::mem::take(&mut self.in_flight).into_keys();
        let old = core::mem::take(&mut self.prepared)
            .into_iter()
            .map(|c| c.xid);
        let xids: Vec<_> = lost.chain(old).collect();
        self.prepared = xids.into_iter().map(|xid| self.plan(i, xid)).collect();
    }

    /// Checks that no end may send more than the other can receive.
    fn check(&self) {
        for (from, to) in [(&self.client, &self.server), (&self.server, &self.client)] {
            let terms = from.session.terms();
            let queued = from.outbox.is_empty() && to.outbox.is_empty();
            if let (true, true, Some(least)) = (queued, terms.settled, to.least()) {
                assert!(terms.send <= least, "longer than a posted Receive");
            }
        }
        assert!(self.flow.in_flight() <= GRANT, "more than was granted");
    }

    /// Lets everything come to its end: all calls are answered, and each end knows the other.
    fn finish(&mut self) {
        let mut none = Input::new(&[]);
        let (i, connections) = (&mut none, self.connections);
        for n in 0..2000 {
            if self.bare && n < 1500 && self.prepared.is_empty() {
                self.prepare(i);
            }
            self.client.post(self.now);
            self.server.post(self.now);
            self.client.voided();
            self.server.voided();
            self.post(i);
            self.reach_server(i);
            self.answer(i);
            self.reach_client(i);
            self.carry_out(i);
            self.pass(i, 10);
        }
        assert!(
            self.prepared.is_empty() && self.in_flight.is_empty(),
            "stuck"
        );
        assert!(self.connections - connections <= 3, "too many connections");
        if self.client.session.settled() == Some(Version::Two) && self.heard {
            self.check_agreement();
        }
    }

    fn check_agreement(&self) {
        let (client, server) = (&self.client.session, &self.server.session);
        let limit = client.peer().send_limit();
        assert!(limit <= server.own().size && server.peer().send_limit() <= client.own().size);
        if client.peer().request().is_none() {
            assert_eq!(limit, server.own().size, "the client knows the server");
        }
        let ready = server.terms().may_invalidate;
        assert_eq!(
            ready,
            client.own().invalidation,
            "the server knows the client"
        );
        for mut end in [*client, *server] {
            end.on_timer(u64::MAX);
            assert_eq!(end.poll(u64::MAX), None);
        }
    }
}

/// Writes a call or reply.
fn rpc(version: Version, xid: u32, credits: u32, direction: Direction) -> Vec<u8> {
    let mut buf = [0; 64];
    let w = version.begin(&mut buf, xid, credits, direction, ListProc::Msg);
    let n = w.unwrap().finish().unwrap();
    let words = u64::from(xid) << 32 | direction as u64;
    buf[n..n + 8].copy_from_slice(&words.to_be_bytes());
    buf[..n + 8].to_vec()
}
