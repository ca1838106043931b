// SPDX-License-Identifier: GPL-2.0

//! `rpcrdma.ko`: NFS over RDMA, in Rust.
//!
//! Wiring only: the rooms of the crate, and what is registered in which order.
//! Documentation/architecture.rst says what each room is for and what it may use.

use kernel::prelude::*;
use kernel::sync::Arc;

use client::config::KNOBS;
use client::transport::{Client, Context};
use conn::peers::PeerTable;
use conn::registry::Registry;
use observe::debugfs::Debugfs;
use rdma::device::Registration;
use server::conn::listener::{Listener, ServiceOwner};
use server::conn::owner::BcXprt;
use sunrpc::svc;
use sunrpc::sysctl;
use sunrpc::xprt::class::{self, ClassRegistration};

mod client;
mod compat;
mod conn;
mod mem;
mod observe;
mod proto;
mod raw;
mod rdma;
mod server;
mod sunrpc;
mod text;
mod wire;
mod work;

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
mod kunit;

/// The registrations of the module. Field order is the order of unregistration: once the classes
/// are gone, no transport is left, and no device is in use.
struct Module {
    /// `None` if another module had registered the server's class and a mount already kept this
    /// module loaded.
    _server: Option<svc::ClassRegistration<Listener>>,
    _service: ServiceOwner,
    _backchannel: ClassRegistration<BcXprt>,
    _class: ClassRegistration<Client>,
    _sysctls: [Option<sysctl::Registration>; 2],
    _devices: Arc<Registration>,
    _debugfs: Debugfs<PeerTable, Registry>,
}

compat::module! {
    type: Module,
    name: "rpcrdma",
    authors: ["The rpcrdma-rust developers"],
    description: "RPC-over-RDMA transport for NFS, in Rust",
    license: "GPL",
    alias: ["xprtrdma", "svcrdma", "rpcrdma6"],
    params: {
        completion_workqueue: bool {
            default: true,
            description: "Handle replies on rpcrdma_completion, not on ib-comp-wq (default: yes)",
        },
    },
}

impl kernel::Module for Module {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let peers = PeerTable::new()?;
        let connections = Registry::new()?;
        let own_queue = compat::parameter!(completion_workqueue);
        let devices = Registration::new(c"rpcrdma", own_queue)?;
        let service = ServiceOwner::new(devices.clone(), connections.clone())?;
        let context = Context {
            devices: devices.clone(),
            peers: peers.clone(),
            connections: connections.clone(),
        };
        // SAFETY: The callback client copies calls and their replies, and keeps no piece of them
        // (`server::backchannel`). Nothing uses the class before there are listeners.
        let backchannel = unsafe { class::register::<BcXprt>(module, ()) }?;
        // From now on there may be mounts. SAFETY: The client maps pieces as it gets them, and
        // keeps none (`client::call::marshal`). It lets an RPC be completed or released only when
        // none of the regions that map its memory is live (`client::call::fence`); `rdma::mr` says
        // which are, whatever the client believes.
        let class = unsafe { class::register::<Client>(module, context) }?;
        // From now on there may be listeners. SAFETY: The server maps the pieces of a reply before
        // it takes the reply's pages (`server::send`), and owns these until the device has
        // finished with them (`rdma::scatter`).
        let (class, server) = match unsafe { svc::register::<Listener>(module, service.service()) }
        {
            Ok(server) => (class, Some(server)),
            // After an error the kernel would free the module even if mounts exist.
            Err(error) => (class.retract().ok_or(error)?, None),
        };
        // The sysctls follow the classes, whose error says more clearly that the stock module is
        // loaded. From here on nothing may fail, because a process may have opened a file of
        // debugfs. Without sysctls the defaults apply.
        let sysctls = [
            tunables(client::config::SYSCTL_PATH, &[&KNOBS, &client::QUIRK_KNOBS]),
            tunables(
                server::config::SYSCTL_PATH,
                &[&server::config::SYSCTLS, &server::QUIRK_SYSCTLS],
            ),
        ];
        Ok(Self {
            _server: server,
            _service: service,
            _backchannel: backchannel,
            _class: class,
            _sysctls: sysctls,
            _devices: devices,
            _debugfs: Debugfs::new(peers, connections),
        })
    }
}

/// Registers files below `/proc/sys`, or says in the log that they are missing.
fn tunables(
    path: &'static CStr,
    entries: &[&[&'static dyn sysctl::Sysctl]],
) -> Option<sysctl::Registration> {
    sysctl::Registration::new(path, entries)
        .inspect_err(|_| pr_warn!("no tunables in /proc/sys/{}\n", path))
        .ok()
}
