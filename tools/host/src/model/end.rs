// SPDX-License-Identifier: GPL-2.0

//! One end of a connection: a session, its posted Receives, and what is on its way to the peer.

use std::collections::VecDeque;
use std::vec::Vec;

use super::Input;
use crate::proto::session::{Control, Output, Session};

/// A message on its way.
pub(super) struct Packet {
    /// Its beginning.
    pub(super) bytes: Vec<u8>,
    /// Its length.
    pub(super) len: u32,
    /// When it was sent.
    pub(super) sent: u64,
}

/// One end.
pub(super) struct End {
    pub(super) session: Session,
    /// Messages on their way to the peer, in order.
    pub(super) outbox: VecDeque<Packet>,
    /// Outputs for the transport: what to remember, to send again, to close.
    pub(super) news: Vec<Output>,
    /// The generation for [`Session::on_voided`], which is still to be called, and the one before
    /// which calls are void then.
    void: Option<(u32, u32)>,
    /// Every caller knows that calls of generations before this one are void.
    known: u32,
    receives: VecDeque<u32>,
    /// When the Receives were used that must be posted again.
    used: VecDeque<u64>,
    /// The size of new Receives.
    size: u32,
    /// Receives of any size can be posted.
    pub(super) has_memory: bool,
}

impl End {
    pub(super) fn new(session: Session, count: usize, size: u32) -> Self {
        Self {
            session,
            outbox: VecDeque::new(),
            news: Vec::new(),
            void: None,
            known: 0,
            receives: std::iter::repeat_n(size, count).collect(),
            used: VecDeque::new(),
            size,
            has_memory: false,
        }
    }

    /// Uses a Receive for a message of the peer.
    pub(super) fn receive(&mut self, packet: &Packet, now: u64) {
        let size = self.receives.pop_front().expect("no Receive is posted");
        assert!(packet.len <= size, "longer than the Receive");
        assert!(size >= self.session.terms().receive.min(size));
        if size < self.size {
            self.session.on_consumed(1);
        }
        self.used.push_back(now);
    }

    /// Posts Receives again that were used at `until` or before.
    pub(super) fn post(&mut self, until: u64) {
        while self.used.front().is_some_and(|&at| at <= until) {
            self.used.pop_front();
            self.receives.push_back(self.size);
        }
    }

    /// Sends a message. Receives that were used are posted again before.
    pub(super) fn send(&mut self, bytes: Vec<u8>, len: u32, now: u64) {
        self.post(now);
        assert!(bytes.len() <= len as usize);
        self.outbox.push_back(Packet {
            bytes,
            len,
            sent: now,
        });
    }

    /// Carries out what the session wants.
    pub(super) fn carry_out(&mut self, i: &mut Input<'_>, credits: u32, now: u64) {
        while let Some(output) = self.session.poll(now) {
            match output {
                Output::Send(control) => self.send_control(&control, credits, now),
                Output::Post { size } => self.resize(i, size),
                Output::Void { before } => {
                    let terms = self.session.terms();
                    assert!(terms.voids(before.wrapping_sub(1)) && !terms.voids(before));
                    self.void = Some((terms.generation, before));
                }
                other => self.news.push(other),
            }
        }
        if self.void.is_some() && i.byte() % 4 == 0 {
            self.voided();
        }
    }

    pub(super) fn voided(&mut self) {
        if let Some((generation, before)) = self.void.take() {
            self.known = before;
            self.session.on_voided(generation);
        }
    }

    /// Returns whether a call that was prepared under this generation of the terms may be sent
    /// although the session has voided it.
    pub(super) fn may_slip(&self, generation: u32) -> bool {
        self.void.is_some() && generation >= self.known
    }

    fn send_control(&mut self, control: &Control, credits: u32, now: u64) {
        let mut buf = [0; 1024];
        let len = control.encode(&mut buf, credits).unwrap();
        self.send(buf[..len].to_vec(), len as u32, now);
        self.session.on_posted(control);
    }

    fn resize(&mut self, i: &mut Input<'_>, size: u32) {
        let choice = if self.has_memory { 0 } else { i.byte() % 8 };
        if choice == 7 && size < self.size {
            return;
        }
        if choice == 7 {
            return self.session.on_post_failed();
        }
        let smaller = self.receives.iter().filter(|&&r| r < size).count() as u32;
        self.size = size;
        self.session.on_posting(size, smaller);
    }

    /// Returns the size of the least Receive, which messages of the peer must not exceed.
    pub(super) fn least(&self) -> Option<u32> {
        self.receives.iter().copied().min()
    }
}
