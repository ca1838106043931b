// SPDX-License-Identifier: GPL-2.0

//! Carrying out what the session of a connection decides.

use super::role::{ConnOf, QpOf, Role};
use super::shared::Shared;
use crate::proto::session::Control;
use crate::wire::EncodeError;

impl<R: Role> Shared<R, R::Owner> {
    /// Carries out what the session has decided, until nothing is left to do now. Call it after
    /// each input to the session. Process context, without spinlocks; does not sleep.
    pub(crate) fn pump(&self, qp: &QpOf<R>) {
        let credits = |control: &_| credits::<R>(self, control);
        while let Some(output) = self.agreement().poll((qp, R::CONTROL), credits) {
            R::decided(self, qp, output);
        }
    }

    /// Posts a message that `write` puts into the session's buffer; `write` returns its length.
    /// Returns `false` if the buffer is in use, or the send queue is full.
    pub(crate) fn post_control(
        &self,
        qp: &QpOf<R>,
        write: impl FnOnce(&mut [u8]) -> Result<usize, EncodeError>,
    ) -> bool {
        self.agreement().post((qp, R::CONTROL), write)
    }

    /// Tells the session if Receives have become larger.
    #[cold]
    pub(super) fn count_receives(&self, qp: &QpOf<R>) {
        if self.agreement().receives_grow(qp.smaller_receives()) {
            self.pump(qp);
        }
    }
}

fn credits<R: Role>(conn: &ConnOf<R>, control: &Control) -> u32 {
    R::credits(conn, control.direction)
}
