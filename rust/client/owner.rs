// SPDX-License-Identifier: GPL-2.0

//! SUNRPC's transport as the connection sees it.

use super::traced;
use super::transport::Client;
use crate::conn::owner::Owner;
use crate::mem::SockAddr;
use crate::observe::trace::Peer;
use crate::sunrpc::xprt::XprtHandle;

impl Owner for XprtHandle<Client> {
    fn peer(&self) -> Peer {
        traced::shown(self)
    }

    fn address(&self) -> SockAddr {
        self.addr()
    }

    fn is_abandoned(&self) -> bool {
        (**self).is_abandoned()
    }

    fn force_close(&self) {
        self.force_disconnect();
    }

    fn set_credits(&self, credits: u32) {
        (**self).set_credits(credits);
    }
}
