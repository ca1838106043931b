// SPDX-License-Identifier: GPL-2.0

//! References to a transport that a worker puts: each of them once.

use std::marker::PhantomData;
use std::mem::offset_of;

use kernel::sync::atomic::{Atomic, Full, Relaxed};

use super::{parts, spawn, Shared};
use crate::workqueue::Work;
use crate::Model;

//< sunrpc/xprt/backchannel.rs
//<   struct Reference
//<   impl<T: Transport> Drop for Reference<'_, T>
//<   fn put_worker
parts!("puts");

pub(crate) const MODEL: Model = Model {
    name: "puts",
    runs: &[("two contexts drop their references", dropped)],
    spare: &[
        (
            "pending_puts.xchg(0, Full)",
            "the workqueue orders what was counted before the work was queued",
        ),
        (
            "self.pending.",
            "loom never delays an addition, so it is ordered without the workqueue",
        ),
        ("smp_mb(Full)", "in the same way"),
    ],
};

pub(crate) trait Transport: 'static {}

impl Transport for () {}

/// The transport, as far as it is accessed here: the count of its references.
pub(crate) struct Xprt<T: Transport> {
    state: XprtState<T>,
    references: Atomic<u32>,
}

struct XprtState<T> {
    class: Class,
    backchannel: BackchannelState,
    kind: PhantomData<T>,
}

struct BackchannelState {
    put_work: PutWork,
    pending_puts: Atomic<u32>,
}

struct PutWork(Shared<Work>);

impl PutWork {
    fn get(&self) -> Shared<Work> {
        self.0
    }
}

struct Class;

impl Class {
    fn destroy_queue(&self) {}
}

impl<T: Transport> Xprt<T> {
    unsafe fn from_work<'a>(work: *mut k::work_struct, _offset: usize) -> &'a Self {
        // SAFETY: The work of the model is the address of its transport.
        unsafe { &*work.cast::<Self>() }
    }

    fn as_raw(&self) -> &Atomic<u32> {
        &self.references
    }
}

mod k {
    pub(crate) struct work_struct;
    pub(super) const wq_misc_consts_WORK_CPU_UNBOUND: u32 = 0;

    pub(super) unsafe fn queue_work_on(_: i32, _: (), work: super::Shared<super::Work>) {
        work.0.queue();
    }
}

mod raw {
    use kernel::sync::atomic::{Atomic, Relaxed};

    pub(super) unsafe fn xprt_put(references: &Atomic<u32>) {
        references.fetch_sub(1, Relaxed);
    }
}

/// Two contexts drop their references to a transport.
fn dropped() {
    let work = Shared::new(Work::new());
    let xprt = Shared::new(Xprt::<()> {
        state: XprtState {
            class: Class,
            backchannel: BackchannelState {
                put_work: PutWork(work),
                pending_puts: Atomic::new(0),
            },
            kind: PhantomData,
        },
        references: Atomic::new(2),
    });
    xprt.state.backchannel.pending_puts.settle();
    xprt.references.settle();
    let this: *mut k::work_struct = std::ptr::from_ref(xprt.0).cast_mut().cast();
    // SAFETY: The work is that of the transport.
    work.set(move || unsafe { put_worker::<()>(this) });
    let other = spawn(move || drop(Reference(xprt.0)));
    drop(Reference(xprt.0));
    other.join().unwrap();
    work.flush();
    assert_eq!(xprt.references.load(Relaxed), 0);
}
