// SPDX-License-Identifier: GPL-2.0

//! RDMA ping: both ends of a connection in one module, made with the room `rdma` alone.
//!
//! Each round trip uses the operations that RPC-over-RDMA uses. The client registers memory, and
//! sends a message with R_keys and addresses. The server reads one region (RDMA Read), writes the
//! other (RDMA Write), and answers with a Send that invalidates one of them (Send With Invalidate).
//! The client invalidates the other one itself. Every byte is compared. Further tests use an
//! invalidated R_key, which must fail, and connect to a port without a listener, which must be
//! rejected. Others test listeners: the length of the queue, the port, the family, and peers that
//! leave.
//!
//! A responder moves data in pages, and keeps messages while it works on them. The server therefore
//! also reads into and writes from lists of pages, finds its send queue full, and holds messages
//! until its queue pair has been destroyed.
//!
//! The examples in the documentation of `rust/rdma` are quoted from this sample.
//!
//! ```text
//! rdma link add rxe0 type rxe netdev eth0
//! insmod rdma_ping.ko addr=0x0a000002          # an address of eth0
//! ```
//!
//! Results are printed to the console as KTAP. `insmod` fails if one of the tests fails. With
//! `hold=1` a connection is kept until the module or the device is removed, and a listener until
//! the module is removed. The console shows when the listener loses its device and listens again.
//!
//! The sample uses only `raw`, `mem`, `work` and `rdma`, which shows that `rdma` does not depend on
//! RPC.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "rooms are mounted whole, and a sample uses a part of each"
)]

use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

#[path = "../rust/raw.rs"]
mod raw;
#[path = "../rust"]
mod rooms {
    pub(crate) mod compat;
    pub(crate) mod mem;
    pub(crate) mod rdma;
    pub(crate) mod work;
}
#[path = "../rust/text.rs"]
mod text;
use rooms::{compat, mem, rdma, work};

mod rdma_ping {
    pub(crate) mod block;
    pub(crate) mod end;
    pub(crate) mod held;
    pub(crate) mod listening;
    pub(crate) mod lists;
    pub(crate) mod paged;
    pub(crate) mod pair;
    pub(crate) mod waiter;
    pub(crate) mod wire;
}

use mem::{Net, SockAddr};
use rdma::device::{Change, Registration};
use rdma::listen::Listener;
use rdma_ping::pair::Pair;
use rdma_ping::waiter::Waiter;

module! {
    type: Ping,
    name: "rdma_ping",
    authors: ["The rpcrdma-rust developers"],
    description: "RDMA ping with Read, Write and Send With Invalidate",
    license: "GPL",
    params: {
        addr: u32 {
            default: 0x7f00_0001,
            description: "IPv4 address of an RDMA device here, as a number (0x0a000002)",
        },
        port: u16 {
            default: 20050,
            description: "port to listen on",
        },
        rounds: u32 {
            default: 200,
            description: "number of round trips",
        },
        hold: u32 {
            default: 0,
            description: "1: keep a connection and a listener",
        },
    },
}

/// The module. Fields are dropped in this order: the connection before the registration, which
/// would otherwise wait for the connection's lease.
struct Ping {
    /// The listener that is kept with `hold=1`.
    _listener: Option<Listener>,
    kept: Arc<Kept>,
    _devices: Arc<Registration>,
}

impl kernel::Module for Ping {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let devices = Registration::new(c"rdma_ping", true)?;
        let kept = Arc::pin_init(Kept::new(), GFP_KERNEL)?;
        let test = Test {
            addr: compat::parameter!(addr).to_be_bytes(),
            port: compat::parameter!(port),
            rounds: compat::parameter!(rounds),
            devices: devices.clone(),
            kept: kept.clone(),
        };
        test.run()?;
        let mut listener = None;
        if compat::parameter!(hold) != 0 {
            kept.keep(test.connect()?);
            let waiter = Waiter::new()?;
            listener = Some(Listener::new(
                Net::init(),
                &test.addr(),
                None,
                4,
                waiter.handler()?,
            )?);
        }
        Ok(Self {
            _listener: listener,
            kept,
            _devices: devices,
        })
    }
}

impl Drop for Ping {
    fn drop(&mut self) {
        self.kept.release();
    }
}

/// The connection that is kept with `hold=1`.
struct Held {
    pair: Option<Pair>,
    /// Whether the device is being removed, so that no connection may be kept any more.
    removing: bool,
}

/// The connection that the removal of its device drops.
#[pin_data]
struct Kept {
    #[pin]
    held: Mutex<Held>,
}

impl Kept {
    fn new() -> impl PinInit<Self> {
        let held = Held {
            pair: None,
            removing: false,
        };
        pin_init!(Self { held <- new_mutex!(held, "rdma_ping::Kept::held") })
    }

    /// Keeps a connection, unless the device is being removed.
    fn keep(&self, pair: Pair) {
        let mut held = self.held.lock();
        if !held.removing {
            held.pair = Some(pair);
        }
    }

    /// Returns whether the device is being removed.
    fn is_removing(&self) -> bool {
        self.held.lock().removing
    }

    /// Drops the connection. May sleep.
    fn release(&self) {
        let pair = self.held.lock().pair.take();
        drop(pair);
    }

    /// Handles a change of the device. May sleep.
    fn device_changed(&self, change: Change) {
        if matches!(change, Change::PortDown(_)) {
            return;
        }
        pr_info!("the device is being removed\n");
        self.held.lock().removing = true;
        self.release();
    }
}

/// The parameters of the tests.
struct Test {
    addr: [u8; 4],
    port: u16,
    rounds: u32,
    devices: Arc<Registration>,
    kept: Arc<Kept>,
}

/// A test with its name.
type Case = (&'static str, fn(&Test) -> Result);

impl Test {
    /// Runs all tests. Returns the error of the first one that fails.
    fn run(&self) -> Result {
        const CASES: [Case; 16] = [
            ("refused_where_nobody_listens", Test::refused),
            ("backlog_is_bounded", Test::backlog),
            ("request_says_who_asks", Test::request_facts),
            ("port_is_free_after_its_listener", Test::chosen_port),
            ("families_share_a_port", Test::families),
            ("request_of_a_peer_that_has_left", Test::peer_gone),
            ("round_trips", Test::round_trips),
            ("invalidated_key_is_of_no_use", Test::stale_key),
            ("one_queue_pair_a_domain", Test::second_queue_pair),
            ("dropped_in_mid_flight", Test::dropped_in_mid_flight),
            ("messages_held", Test::messages_held),
            ("page_lists", Test::page_lists),
            ("page_lists_after_full", Test::page_lists_after_full),
            ("sink_dropped_in_flight", Test::sink_dropped),
            ("source_dropped_in_flight", Test::source_dropped),
            ("lists_of_a_drained_queue_pair", Test::drained_lists),
        ];
        pr_info!("KTAP version 1\n");
        pr_info!("1..{}\n", CASES.len());
        let mut outcome = Ok(());
        for (i, (name, case)) in CASES.iter().enumerate() {
            match case(self) {
                Ok(()) => pr_info!("ok {} {}\n", i + 1, name),
                Err(error) => {
                    pr_info!("not ok {} {} # {:?}\n", i + 1, name, error);
                    outcome = outcome.and(Err(error));
                }
            }
        }
        outcome
    }

    /// Returns the address to listen on.
    fn addr(&self) -> SockAddr {
        SockAddr::new(self.addr, self.port)
    }

    fn connect(&self) -> Result<Pair> {
        Pair::connect(Net::init(), &self.addr(), &self.devices, &self.kept)
    }

    fn round_trips(&self) -> Result {
        let mut pair = self.connect()?;
        for n in 1..=self.rounds {
            // The removal of the device waits until this connection has been dropped.
            if self.kept.is_removing() {
                return Err(ENODEV);
            }
            pair.round(n)?;
        }
        pair.disconnect()
    }

    fn stale_key(&self) -> Result {
        let mut pair = self.connect()?;
        pair.round(1)?;
        pair.try_stale_key()
    }

    fn second_queue_pair(&self) -> Result {
        let mut pair = self.connect()?;
        pair.round(1)?;
        pair.second_queue_pair()
    }

    fn dropped_in_mid_flight(&self) -> Result {
        let mut pair = self.connect()?;
        pair.round(1)?;
        pair.drop_in_mid_flight()
    }

    fn messages_held(&self) -> Result {
        self.connect()?.hold_messages()
    }

    fn page_lists(&self) -> Result {
        let mut pair = self.connect()?;
        pair.page_rounds()?;
        pair.disconnect()
    }

    fn page_lists_after_full(&self) -> Result {
        let mut pair = self.connect()?;
        pair.page_round_after_full()?;
        pair.disconnect()
    }

    fn sink_dropped(&self) -> Result {
        self.connect()?.drop_sink_in_flight()
    }

    fn source_dropped(&self) -> Result {
        self.connect()?.drop_source_in_flight()
    }

    fn drained_lists(&self) -> Result {
        self.connect()?.drain_under_lists()
    }

    fn refused(&self) -> Result {
        self.refused_at(self.port.wrapping_add(1))
    }

    /// Connects to a port where no listener is. Succeeds if that is refused.
    fn refused_at(&self, port: u16) -> Result {
        let addr = SockAddr::new(self.addr, port);
        Pair::refused(Net::init(), &addr, &self.devices, &self.kept)
    }
}
