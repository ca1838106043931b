// SPDX-License-Identifier: GPL-2.0

//! What the file `connections` shows of a responder's connection.

use super::endpoint::Endpoint;
use crate::conn::registry::Shown;
use crate::observe::connections::{Calls, Counts, Credits, Regions, Up};

impl Shown for Endpoint {
    fn show(&self) -> Up {
        let role = self.role();
        let (granted, used) = role.calls.credits();
        let (read, write) = role.flights.under_way();
        let regions = role.spare.regions();
        Up {
            credits: Credits {
                limit: role.credits,
                granted,
                used,
            },
            calls: Calls {
                inline: used.saturating_sub(read),
                read,
                write,
                ..Calls::default()
            },
            regions: regions.map_or_else(Regions::default, |pool| pool.census().into()),
            silent: self.silent(),
            ..self.describe()
        }
    }

    fn counts(&self) -> Counts {
        self.shared().tally().counts()
    }
}
