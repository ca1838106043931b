// SPDX-License-Identifier: GPL-2.0

//! Two sessions whose settings change while their connection lasts.

use super::{connect, Input, Kind, World};
use crate::wire::Version;

/// Runs a client and a server that know each other's sizes, whose settings change at any time. In
/// the end the effective sizes are those that both have set.
pub fn settings(data: &[u8]) {
    let mut i = Input::new(data);
    let mut world = World::new(&mut i, Kind::Ours(Version::Two));
    let mut set = world.begin_anew(&mut i);
    while !i.is_empty() {
        match i.byte() % 8 {
            0 => set.change(&mut i, &mut world),
            1 => {
                let ms = 8 * u64::from(i.byte());
                world.pass(&mut i, ms);
            }
            2 => world.prepare(&mut i),
            3 => world.post(&mut i),
            4 => world.reach_server(&mut i),
            5 => world.answer(&mut i),
            _ => world.reach_client(&mut i),
        }
        world.carry_out(&mut i);
    }
    world.work();
    world.finish();
    set.check(&world);
}

/// The settings of both ends.
struct Set {
    replies: u32,
    calls: u32,
    server: u32,
}

impl Set {
    fn change(&mut self, i: &mut Input<'_>, world: &mut World) {
        let size = 1024 * (1 + u32::from(i.byte() % 64));
        match i.byte() % 3 {
            0 => {
                self.replies = size.max(4096);
                world.client.session.want_receive(self.replies);
            }
            1 => {
                self.calls = size;
                world.client.session.want_send(size);
            }
            _ => {
                self.server = size.max(4096);
                world.server.session.want_receive(self.server);
                world.server.session.want_send(self.server);
            }
        }
        // The watches repeat the settings of both.
        world.client.session.follow(self.replies, self.calls);
        world.server.session.follow(self.server, self.server);
    }

    fn check(&self, world: &World) {
        let terms = world.client.session.terms();
        assert_eq!(terms.send, self.calls.min(self.server), "calls");
        assert_eq!(terms.expected, self.replies.min(self.server), "replies");
        assert_eq!(world.connections, 2, "no connection is lost");
    }
}

impl World {
    /// Makes a connection between ends that know each other's sizes, and returns these.
    fn begin_anew(&mut self, i: &mut Input<'_>) -> Set {
        (self.client, self.server, self.bare) = connect(i, Version::Two, self.kind, true);
        self.connections += 1;
        self.client.has_memory = true;
        self.server.has_memory = true;
        let set = Set {
            replies: self.client.session.own().size,
            calls: 4096,
            server: self.server.session.own().size,
        };
        self.client.session.want_send(set.calls);
        set
    }

    /// Calls as long as it takes for every Receive to get a message, and for every announcement.
    fn work(&mut self) {
        let mut none = Input::new(&[]);
        for _ in 0..3000 {
            self.client.voided();
            self.server.voided();
            self.prepare(&mut none);
            self.post(&mut none);
            self.reach_server(&mut none);
            self.answer(&mut none);
            self.reach_client(&mut none);
            self.carry_out(&mut none);
            self.pass(&mut none, 10);
        }
    }
}
