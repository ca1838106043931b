// SPDX-License-Identifier: GPL-2.0

//! Two sessions at the ends of one connection, for other cases.

use super::super::super::wire::v2::FIRST_MESSAGE_MAX;
use super::super::super::wire::{Direction, EncodeError, Limits, Message};
use super::super::session::{Body, Config, Control, Output, Session, Verdict, PAUSE_MS};
use super::session::{hear, Say, TWO};

/// A client and a server of one connection. The time passes from step to step.
pub(super) struct Pair {
    pub(super) client: Session,
    pub(super) server: Session,
    pub(super) now: u64,
}

impl Pair {
    /// Settles version two by a call and its reply.
    #[inline(never)]
    pub(super) fn new(client: Config, server: Config) -> Result<Self, &'static str> {
        let mut pair = Self {
            client: Session::new(client),
            server: Session::new(server),
            now: 0,
        };
        pair.client.on_sent(7, 0);
        hear(&mut pair.server, Say::Rpc(TWO, 7, Direction::Call))?;
        hear(&mut pair.client, Say::Rpc(TWO, 7, Direction::Reply))?;
        pair.server.on_replied();
        for session in [&mut pair.client, &mut pair.server] {
            // The memory of the peer, and the version.
            while !matches!(session.poll(0), Some(Output::Settled(_))) {}
        }
        Ok(pair)
    }

    /// Carries out all outputs of both ends until there are none. Returns the control messages.
    pub(super) fn run(&mut self) -> Result<[Option<Body>; 8], &'static str> {
        let mut sent = [None; 8];
        let mut slots = sent.iter_mut();
        while let Some((control, to)) = self.step()? {
            *slots.next().ok_or("too many control messages")? = Some(control.body);
            deliver(to, &control, 0)?;
        }
        Ok(sent)
    }

    /// Returns the next control message and its receiver, after the time of a pause.
    fn step(&mut self) -> Result<Option<(Control, &mut Session)>, &'static str> {
        self.now = self.now.saturating_add(PAUSE_MS);
        if let Some(control) = next(&mut self.client, self.now)? {
            return Ok(Some((control, &mut self.server)));
        }
        let control = next(&mut self.server, self.now)?;
        Ok(control.map(|control| (control, &mut self.client)))
    }
}

/// Carries out the outputs of a session up to the next control message.
pub(super) fn next(session: &mut Session, now: u64) -> Result<Option<Control>, &'static str> {
    loop {
        match session.poll(now) {
            None => return Ok(None),
            Some(Output::Send(control)) => {
                session.on_posted(&control);
                return Ok(Some(control));
            }
            Some(Output::Void { .. }) => session.on_voided(session.terms().generation),
            Some(Output::Post { size }) => session.on_posting(size, 0),
            Some(Output::Room) => session.on_room(),
            Some(Output::Operated) => {}
            Some(_) => return Err("unexpected output"),
        }
    }
}

pub(super) fn deliver(
    to: &mut Session,
    control: &Control,
    now: u64,
) -> Result<Verdict, &'static str> {
    // Any message fits the smallest Receive of a peer.
    let mut buf = [0; FIRST_MESSAGE_MAX as usize];
    let len = control.encode(&mut buf, 5).map_err(|_| "no room")?;
    let bytes = buf.get(..len).ok_or("buffer")?;
    let message = Message::decode(bytes, &Limits::NONE).map_err(|_| "refused")?;
    Ok(to.on_message(&message, now))
}

/// Hands an encoded message to a session.
pub(super) fn says(
    to: &mut Session,
    encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<Verdict, &'static str> {
    let mut buf = [0; 1024];
    let len = encode(&mut buf).map_err(|_| "no room")?;
    let message = Message::decode(buf.get(..len).ok_or("buffer")?, &Limits::NONE);
    Ok(to.on_message(&message.map_err(|_| "refused")?, 0))
}
