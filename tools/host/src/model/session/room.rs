// SPDX-License-Identifier: GPL-2.0

//! Receives for operations, where the peer has one for each credit and no other.

use super::{Input, Output, World, GRANT};

/// A message of the client's own accord, on a connection without Receives for such messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// There is none.
    None,
    /// It has a credit and is not posted.
    Kept,
    /// This number of replies shows that the server has received it.
    Sent(usize),
}

impl World {
    /// Returns a grant. A server whose client has no Receives for operations grants one credit less
    /// than the client asks for.
    pub(super) fn grant(&self, i: &mut Input<'_>) -> u32 {
        match self.bare {
            true => 2 + u32::from(i.byte()) % (GRANT - 2),
            false => u32::from(i.byte()) % (GRANT + 1),
        }
    }

    /// Keeps a Receive free for an operation of either end, if one has asked for it.
    pub(super) fn make_room(&mut self, i: &mut Input<'_>, grant: u32) {
        if self.server.news.contains(&Output::Room) {
            self.server.session.on_room();
            self.server.carry_out(i, grant, self.now);
        }
        let several = self.flow.limit() > 1;
        let free = self.operation == Operation::None && several && self.flow.available() > 0;
        if self.client.news.contains(&Output::Room) && free && self.flow.try_take() {
            self.operation = Operation::Kept;
            self.client.session.on_room();
            self.client.carry_out(i, GRANT, self.now);
        }
    }

    /// Notes a reply, which may show that the server has received the operation.
    pub(super) fn confirm(&mut self) {
        match self.operation {
            Operation::Sent(1) => {
                self.operation = Operation::None;
                self.flow.on_unanswered();
            }
            Operation::Sent(replies) => self.operation = Operation::Sent(replies - 1),
            Operation::None | Operation::Kept => {}
        }
    }
}
