// SPDX-License-Identifier: GPL-2.0

//! What a thread of the service receives with, and how its receiving ends.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::call::Call;
use super::endpoint::Endpoint;
use crate::sunrpc::svc::receive::{Arriving, Payload, Receipt};

/// What a thread needs to receive a call over a connection.
#[derive(Clone, Copy)]
pub(super) struct Receiver<'r> {
    pub(super) ep: &'r Arc<Endpoint>,
}

impl Receiver<'_> {
    /// Gives a call to the service.
    #[inline(always)]
    pub(super) fn deliver<'a>(
        &self,
        arriving: Arriving<'a, Call>,
        payload: Option<Payload>,
        context: KBox<Call>,
    ) -> Receipt<'a> {
        match arriving.call(payload, context) {
            Ok(receipt) => receipt,
            Err((arriving, context, _)) => self.give_up(arriving, context),
        }
    }

    /// Drops a call that cannot be received, and the connection. The requester sends the call again
    /// over a new one.
    #[cold]
    pub(super) fn give_up<'a>(
        &self,
        arriving: Arriving<'a, Call>,
        context: KBox<Call>,
    ) -> Receipt<'a> {
        self.ep.role().calls.put(context);
        self.ep.shared().force_close();
        arriving.nothing()
    }
}
