// SPDX-License-Identifier: GPL-2.0

//! The client transport that calls over a server's connection: it is closed when the connection is,
//! by SUNRPC or by the context that offers it.

use std::marker::PhantomData;
use std::ptr::NonNull;

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed};

use super::{parts, spawn, sunrpc, Shared};
use crate::Model;

//< sunrpc/svc/callback.rs
//<   impl SvcXprt<Connected> { offer }
//< sunrpc/svc/xprt.rs
//<   impl<K> SvcXprt<K> { is_closing }
parts!("svc_offer");

pub(crate) const MODEL: Model = Model {
    name: "svc_offer",
    runs: &[("SUNRPC deletes the connection meanwhile", deleted)],
    spare: &[],
};

/// Marks a connection.
enum Connected {}

/// The transport, as far as it is accessed here.
struct SvcXprt<K> {
    base: *mut raw::svc_xprt,
    kind: PhantomData<K>,
}

impl<K> SvcXprt<K> {
    fn as_raw(&self) -> *mut raw::svc_xprt {
        self.base
    }
}

mod raw {
    pub(super) use super::sunrpc::{rpc_xprt, rr_svc_xprt_is_dead, svc_xprt};
}

/// SUNRPC deletes the connection while a client transport is offered.
fn deleted() {
    let xprt = Shared::new(SvcXprt::<Connected> {
        base: sunrpc::svc_xprt::new(0, || true),
        kind: PhantomData,
    });
    let client = Shared::new(raw::rpc_xprt {
        closed: Atomic::new(0),
    });
    client.closed.settle();
    let other = spawn(move || sunrpc::svc_delete_xprt(xprt.base));
    // SAFETY: No model frees a client transport.
    unsafe { xprt.offer(NonNull::from(&*client)) }.unwrap();
    if xprt.is_closing() {
        client.closed.add(1, Relaxed);
    }
    other.join().unwrap();
    assert!(
        client.closed.load(Relaxed) > 0,
        "nobody closes the transport"
    );
}
