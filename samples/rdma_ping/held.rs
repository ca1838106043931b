// SPDX-License-Identifier: GPL-2.0

//! Tests of messages that are held, and of a receive queue that grows.

use kernel::prelude::*;

use super::pair::Pair;
use super::wire;
use crate::compat::code::{ENOTCONN, EPROTO};
use crate::rdma::recv::Held;

/// Returns whether a message consists of `byte` alone.
fn is_said(message: &Held, byte: u8) -> bool {
    message.bytes() == [byte; wire::LEN]
}

impl Pair {
    /// Lets the server hold all its Receives, drop some of them out of order, and add more. The
    /// rest is dropped after the queue pair was drained, and after it was destroyed.
    pub(crate) fn hold_messages(mut self) -> Result {
        let mut held = self.hold(0..4)?;
        // Each message is a batch, so their Receives are posted again.
        drop(held.remove(2));
        drop(held.remove(0));
        self.add_receives()?;
        for byte in 10..30 {
            self.client.say(byte)?;
            if self.server.outcome.message()? != [byte; wire::LEN] {
                return Err(EPROTO);
            }
        }
        // Of six Receives two are held, and one may wait to be posted.
        let late = self.hold(30..33)?;
        let [first, second] = &held[..] else {
            return Err(EPROTO);
        };
        if !is_said(first, 1) || !is_said(second, 3) || first.index() == second.index() {
            return Err(EPROTO);
        }

        self.server.qp.drain();
        let drained = self.server.qp.is_drained();
        drop(held);
        let refused = self.server.qp.add_receives(1) == Err(ENOTCONN);
        drop(self);
        let kept = late.iter().zip(30..33).all(|(m, byte)| is_said(m, byte));
        if drained && refused && kept {
            Ok(())
        } else {
            Err(EPROTO)
        }
    }

    /// Sends messages of these bytes to the server, which holds them.
    fn hold(&mut self, bytes: core::ops::Range<u8>) -> Result<KVec<Held>> {
        self.server.outcome.hold(bytes.len())?;
        for byte in bytes.clone() {
            self.client.say(byte)?;
        }
        let held = self.server.outcome.held()?;
        if held.iter().zip(bytes).all(|(m, byte)| is_said(m, byte)) {
            Ok(held)
        } else {
            Err(EPROTO)
        }
    }

    /// Adds as many Receives as the queue pair allows, and checks that there are no more.
    fn add_receives(&self) -> Result {
        let qp = &self.server.qp;
        let added = [
            qp.add_receives(5)?,
            qp.add_receives(9)?,
            qp.add_receives(7)?,
        ];
        if added == [1, 1, 0] {
            Ok(())
        } else {
            Err(EPROTO)
        }
    }
}
