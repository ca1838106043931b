// SPDX-License-Identifier: GPL-2.0

//! Encodes control messages.

use super::super::super::wire::xchar::{self, Initial};
use super::super::super::wire::{error_as, EncodeError};
use super::super::xchar::Known;
use super::{Body, Control, Own};

impl Control {
    /// Writes the message. `credits` are those of its direction. Returns its length.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    pub fn encode(&self, buf: &mut [u8], credits: u32) -> Result<usize, EncodeError> {
        let (xid, direction) = (self.xid, self.direction);
        match &self.body {
            Body::Init(own) => xchar::init(buf, xid, credits, direction, &initial(own)),
            Body::Update {
                now,
                pending_cleared,
            } => xchar::update(buf, xid, credits, direction, &now.value(), *pending_cleared),
            Body::Request(want) => xchar::request(buf, xid, credits, &[want.value()]),
            Body::Response(outcome) => xchar::respond(buf, xid, credits, outcome.iter()),
            Body::Error(error) => error_as(self.version, buf, xid, credits, *error),
        }
    }
}

/// Returns all characteristics. The support of backward messages does not change.
//= XC-4.1-2 first message fits smallest receive buffer
//= XC-4.1-4 all characteristics sender is aware of
//= XC-4.1-5 not expected to change
fn initial(own: &Own) -> [Initial<'static>; 3] {
    own.all().map(|known| Initial {
        value: known.value(),
        fixed: matches!(known, Known::BackwardSupport(_)),
    })
}
