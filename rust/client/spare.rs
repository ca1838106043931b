// SPDX-License-Identifier: GPL-2.0

//! Idle memory regions that a slot keeps for its next call, so that these need not go through the
//! pools, whose locks all slots share.

use crate::rdma::mr::{Kind, Mr};

/// At most one idle region of each kind.
pub(super) struct Spare {
    plain: Option<Mr>,
    gapped: Option<Mr>,
}

impl Spare {
    /// No region.
    pub(super) const NONE: Self = Self {
        plain: None,
        gapped: None,
    };

    /// Takes the region of this kind, if there is one.
    #[inline(always)]
    pub(super) fn take(&mut self, kind: Kind) -> Option<Mr> {
        self.of(kind).take()
    }

    /// Keeps a region, which is idle. Returns the one that was kept before.
    #[inline(always)]
    pub(super) fn keep(&mut self, region: Mr) -> Option<Mr> {
        self.of(region.kind()).replace(region)
    }

    /// Returns the place for a region of this kind, if there is none.
    #[inline(always)]
    pub(super) fn vacant(&mut self, kind: Kind) -> Option<&mut Option<Mr>> {
        Some(self.of(kind)).filter(|place| place.is_none())
    }

    #[inline(always)]
    fn of(&mut self, kind: Kind) -> &mut Option<Mr> {
        match kind {
            Kind::Plain => &mut self.plain,
            Kind::Gapped => &mut self.gapped,
        }
    }
}
