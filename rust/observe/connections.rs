// SPDX-License-Identifier: GPL-2.0

//! The line of a connection in the file `connections`, made of fields `key=value`.
//!
//! Documentation/connections.rst describes the fields. Programs parse them: a field keeps its name,
//! its unit and its meaning, and new fields are added before the end of the line.

use kernel::fmt;
use kernel::prelude::*;

use super::trace::Peer;
use crate::proto::inline::Thresholds;
use crate::text::StackString;

/// The name of a device.
pub(crate) type DeviceName = StackString<64>;

/// The role of this host in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

/// The reason why a transport lost its latest connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Loss {
    /// No connection was lost.
    #[default]
    None,
    /// The device or its address was removed.
    Device,
    /// The peer disconnected.
    Peer,
    /// A work request failed.
    Failed,
    /// This side closed the connection because of a breach by the peer, its silence, or a call that
    /// only another connection can carry.
    Forced,
    /// SUNRPC closed the connection: it was idle, or is no longer needed.
    Closed,
}

/// The history of a transport.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct History {
    /// Connections made.
    pub(crate) connects: u32,
    pub(crate) lost: Loss,
    /// Attempts to connect that failed since the last success.
    pub(crate) failures: u32,
    /// The error of the latest failed attempt, negative; zero if there is none.
    pub(crate) error: i32,
}

/// Rare events of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Probes that were posted because the peer was silent.
    pub(crate) probes: u64,
    /// Breaches of the protocol by the peer.
    pub(crate) breaches: u64,
}

impl Counts {
    /// Returns the sums.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            probes: self.probes.saturating_add(other.probes),
            breaches: self.breaches.saturating_add(other.breaches),
        }
    }
}

/// Credits and calls in progress.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Credits {
    /// Maximum number that the requester requests, or that the responder may grant.
    pub(crate) limit: u32,
    pub(crate) granted: u32,
    /// Calls without a reply.
    pub(crate) used: u32,
}

/// Calls in progress, by form. A call may have more than one kind of chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calls {
    /// Calls without chunks.
    pub(crate) inline: u32,
    pub(crate) read: u32,
    pub(crate) write: u32,
    pub(crate) reply: u32,
    /// Calls that were answered or aborted, and whose memory is being fenced.
    pub(crate) fencing: u32,
}

/// Memory regions, by state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Regions {
    pub(crate) total: u32,
    pub(crate) idle: u32,
    /// Regions that cannot be used again.
    pub(crate) unusable: u32,
}

impl Regions {
    /// Returns the number of regions that calls use.
    fn used(&self) -> u32 {
        self.total.saturating_sub(self.idle + self.unusable)
    }
}

/// A connection that is in use.
pub(crate) struct Up {
    pub(crate) device: DeviceName,
    pub(crate) port: u32,
    pub(crate) thresholds: Thresholds,
    /// Number of the terms, which each change increments.
    pub(crate) generation: u32,
    pub(crate) backward: bool,
    pub(crate) credits: Credits,
    pub(crate) calls: Calls,
    pub(crate) regions: Regions,
    /// Posted Receives, and all Receives.
    pub(crate) receives: (u32, u32),
    /// Free entries of the send queue, and all entries.
    pub(crate) send_queue: (u32, u32),
    /// Consecutive checks that found the peer silent.
    pub(crate) silent: u32,
    /// SUNRPC's number of a client's transport, and the calls that the transport has sent.
    pub(crate) transport: Option<(u32, u64)>,
}

/// The line of a connection, or of a client's transport without one.
pub(crate) struct Line {
    /// The number of the entry.
    pub(crate) id: u64,
    pub(crate) role: Role,
    /// The number of the network namespace.
    pub(crate) net: u64,
    pub(crate) peer: Peer,
    /// Seconds since the entry was created.
    pub(crate) age: u64,
    /// Seconds since the connection was made or lost.
    pub(crate) since: u64,
    pub(crate) history: History,
    /// Rare events of all connections of the transport.
    pub(crate) counts: Counts,
    /// Seconds for which attempts to connect have failed; zero if no attempt has failed.
    pub(crate) failing: u64,
    /// Seconds until the next attempt, zero if the attempt is due; -1 if none is planned.
    pub(crate) next: i64,
    pub(crate) up: Option<Up>,
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

impl Loss {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Device => "device",
            Self::Peer => "peer",
            Self::Failed => "failed",
            Self::Forced => "forced",
            Self::Closed => "closed",
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.up.is_some() { "up" } else { "down" };
        let role = self.role.name();
        let (id, net, peer, history) = (self.id, self.net, &self.peer, &self.history);
        f.write_fmt(fmt!(
            "id={id} role={role} net={net} peer={peer} state={state}"
        ))?;
        f.write_fmt(fmt!(" age_s={} state_s={}", self.age, self.since))?;
        let lost = history.lost.name();
        f.write_fmt(fmt!(" connects={} lost={lost}", history.connects))?;
        f.write_fmt(fmt!(" failures={}", history.failures))?;
        f.write_fmt(fmt!(" error={}", history.error))?;
        let Counts { probes, breaches } = self.counts;
        f.write_fmt(fmt!(" probes={probes} breaches={breaches}"))?;
        match (&self.up, self.failing, self.next) {
            (Some(up), ..) => up.write(f)?,
            (None, failing, next) if self.role == Role::Client => {
                f.write_fmt(fmt!(" failing_s={failing} next_attempt_s={next}"))?;
            }
            _ => {}
        }
        f.write_str("\n")
    }
}

impl Up {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (credits, calls, regions) = (&self.credits, &self.calls, &self.regions);
        f.write_fmt(fmt!(" device={} port={}", self.device, self.port))?;
        self.write_terms(f)?;
        f.write_fmt(fmt!(" credit_limit={}", credits.limit))?;
        f.write_fmt(fmt!(" credits={} in_use={}", credits.granted, credits.used))?;
        f.write_fmt(fmt!(" inline={} read={}", calls.inline, calls.read))?;
        f.write_fmt(fmt!(" write={} reply={}", calls.write, calls.reply))?;
        f.write_fmt(fmt!(" fencing={} regions={}", calls.fencing, regions.total))?;
        f.write_fmt(fmt!(" regions_idle={}", regions.idle))?;
        f.write_fmt(fmt!(" regions_used={}", regions.used()))?;
        f.write_fmt(fmt!(" regions_unusable={}", regions.unusable))?;
        let (posted, receives) = self.receives;
        f.write_fmt(fmt!(" receives={receives} receives_posted={posted}"))?;
        let (free, depth) = self.send_queue;
        f.write_fmt(fmt!(" send_queue={depth} send_queue_free={free}"))?;
        f.write_fmt(fmt!(" silent={}", self.silent))?;
        let numbers = |(xprt, calls)| f.write_fmt(fmt!(" xprt={xprt} calls={calls}"));
        self.transport.map_or(Ok(()), numbers)
    }

    fn write_terms(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = &self.thresholds;
        let version = sizes.version.number();
        f.write_fmt(fmt!(" version={version} terms={}", self.generation))?;
        f.write_fmt(fmt!(" call_bytes={}", sizes.client_to_server))?;
        f.write_fmt(fmt!(" reply_bytes={}", sizes.server_to_client))?;
        let invalidation = u32::from(sizes.remote_invalidation);
        let backward = u32::from(self.backward);
        f.write_fmt(fmt!(" invalidation={invalidation} backward={backward}"))
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_observe_connections)]
mod tests {
    use super::*;
    use crate::wire::Version;

    fn up() -> Up {
        Up {
            device: StackString::new(&"rxe0"),
            port: 1,
            thresholds: Thresholds {
                client_to_server: 4096,
                server_to_client: 8192,
                remote_invalidation: true,
                version: Version::Two,
            },
            generation: 3,
            backward: true,
            credits: Credits {
                limit: 128,
                granted: 64,
                used: 5,
            },
            calls: Calls {
                inline: 1,
                read: 2,
                write: 3,
                reply: 4,
                fencing: 6,
            },
            regions: Regions {
                total: 32,
                idle: 20,
                unusable: 2,
            },
            receives: (175, 176),
            send_queue: (900, 1000),
            silent: 7,
            transport: Some((5, 6000)),
        }
    }

    /// Returns whether the line with `up`, or with the next attempt in `next` seconds, is
    /// `expected` behind the common fields.
    fn line_is(role: Role, up: Option<Up>, next: i64, history: History, expected: &str) -> bool {
        let line = Line {
            id: 9,
            role,
            net: 1,
            peer: Peer::new(&"192.0.2.1", 20049),
            age: 100,
            since: 50,
            history,
            counts: Counts {
                probes: 6,
                breaches: 8,
            },
            failing: 12,
            next,
            up,
        };
        let text = StackString::<1024>::new(&fmt!("{}", line));
        let common = match role {
            Role::Client => "id=9 role=client net=1 peer=192.0.2.1:20049 ",
            Role::Server => "id=9 role=server net=1 peer=192.0.2.1:20049 ",
        };
        text.as_bytes().strip_prefix(common.as_bytes()) == Some(expected.as_bytes())
    }

    const fn history(connects: u32, lost: Loss, failures: u32, error: i32) -> History {
        History {
            connects,
            lost,
            failures,
            error,
        }
    }

    #[test]
    fn connection_has_all_fields() {
        let history = history(2, Loss::Peer, 0, 0);
        let expected = "state=up age_s=100 state_s=50 connects=2 lost=peer failures=0 error=0 \
            probes=6 breaches=8 device=rxe0 port=1 version=2 terms=3 call_bytes=4096 \
            reply_bytes=8192 invalidation=1 backward=1 credit_limit=128 credits=64 in_use=5 \
            inline=1 read=2 write=3 reply=4 fencing=6 regions=32 regions_idle=20 regions_used=10 \
            regions_unusable=2 receives=176 receives_posted=175 send_queue=1000 \
            send_queue_free=900 silent=7 xprt=5 calls=6000\n";
        assert!(line_is(Role::Client, Some(up()), -1, history, expected));
    }

    #[test]
    fn transport_without_connection_has_its_attempts() {
        let history = history(0, Loss::None, 4, -111);
        let expected = "state=down age_s=100 state_s=50 connects=0 lost=none failures=4 \
            error=-111 probes=6 breaches=8 failing_s=12 next_attempt_s=3\n";
        assert!(line_is(Role::Client, None, 3, history, expected));
        let expected = "state=down age_s=100 state_s=50 connects=0 lost=none failures=4 \
            error=-111 probes=6 breaches=8 failing_s=12 next_attempt_s=-1\n";
        assert!(line_is(Role::Client, None, -1, history, expected));
    }

    #[test]
    fn server_without_connection_has_its_history_alone() {
        let history = history(1, Loss::Peer, 0, 0);
        let expected = "state=down age_s=100 state_s=50 connects=1 lost=peer failures=0 error=0 \
            probes=6 breaches=8\n";
        assert!(line_is(Role::Server, None, -1, history, expected));
    }
}
