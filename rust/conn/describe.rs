// SPDX-License-Identifier: GPL-2.0

//! The fields of the file `connections` that do not depend on the role.

use kernel::prelude::*;

use super::connection::Connection;
use super::role::Role;
use crate::observe::connections::{Calls, Credits, Loss, Regions, Up};
use crate::proto::conn::State;
use crate::rdma::mr::PoolCounts;
use crate::text::StackString;

impl<R: Role> Connection<R> {
    /// Returns the fields of both roles. The role adds credits, calls, regions and silence.
    pub(crate) fn describe(&self) -> Up {
        let (shared, qp) = (self.shared(), self.qp());
        let terms = shared.terms();
        Up {
            device: StackString::new(&fmt!("{}", self.pd().device_name())),
            port: self.cm.port(),
            thresholds: terms.thresholds(),
            generation: shared
                .with_session(|session, _| session.terms().generation)
                .unwrap_or(0),
            backward: terms.permits_backward(),
            credits: Credits::default(),
            calls: Calls::default(),
            regions: Regions::default(),
            receives: qp.receives(),
            send_queue: qp.send_queue(),
            silent: 0,
        }
    }

    /// Returns why the connection is being lost. Call this before [`Self::close`].
    pub(crate) fn loss(&self) -> Loss {
        let lifecycle = &self.lifecycle;
        if lifecycle.ended_here() {
            Loss::Device
        } else if lifecycle.state() != State::Up {
            Loss::Peer
        } else if self.shared().was_forced() {
            Loss::Forced
        } else if self.qp().is_broken() {
            Loss::Failed
        } else {
            Loss::Closed
        }
    }
}

/// Returns the regions of a pool.
impl From<PoolCounts> for Regions {
    fn from(census: PoolCounts) -> Self {
        Self {
            total: census.total,
            idle: census.idle,
            unusable: census.unusable,
        }
    }
}
