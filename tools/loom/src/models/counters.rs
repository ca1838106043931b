// SPDX-License-Identifier: GPL-2.0

//! Counters: no event is lost, no number is given twice, and one context reports.

use std::marker::PhantomData;

use kernel::sync::atomic::{Atomic, AtomicFlag, Full as FullOrder, Full, Relaxed};

use super::{parts, spawn, Shared};
use crate::Model;

//< observe/stats.rs
//<   struct Counter
//<   impl Counter
//< conn/state.rs
//<   struct Tally
//<   impl Tally { new probe breach }
//< client/transport.rs
//<   impl Client { is_new_complaint next_epoch }
//< server/call/memory.rs
//<   impl Spare { returned note_returned }
//< rdma/qp.rs
//<   impl<C: Completions> Qp<C> { expect_flush }
//< rdma/qp/completion.rs
//<   impl<C: Completions> Qp<C> { is_first_flush }
parts!("counters");

pub(crate) const MODEL: Model = Model {
    name: "counters",
    runs: &[
        ("two contexts count", counted),
        ("two connections have numbers", numbered),
        ("two contexts report", reported),
    ],
    spare: &[
        ("self.complaint.xchg", "the exchange alone decides who logs"),
        (
            "self.flushed.xchg",
            "the exchange alone decides who reports",
        ),
    ],
};

/// The transport, as far as it is accessed here.
struct Client {
    attempts: Atomic<u32>,
    complaint: Atomic<u32>,
}

/// Memory regions of a connection, as far as they are accessed here.
struct Spare {
    needs_regions: bool,
    returned: Atomic<u32>,
}

trait Completions {}

impl Completions for () {}

/// The queue pair, as far as it is accessed here.
struct Qp<C> {
    flushed: AtomicFlag,
    consumer: PhantomData<C>,
}

/// Returns the results of two contexts that call a function.
fn twice<T: 'static>(call: impl Fn() -> T + Copy + 'static) -> [T; 2] {
    let other = spawn(call);
    let here = call();
    [here, other.join().unwrap()]
}

/// Two contexts count an event each.
fn counted() {
    let (counter, tally) = (Shared::new(Counter::new()), Shared::new(Tally::new()));
    let returned = Atomic::new(0);
    returned.settle();
    let spare = Shared::new(Spare {
        needs_regions: true,
        returned,
    });
    assert_eq!(counter.get(), 0);
    tally.probes.settle();
    tally.breaches.settle();
    twice(move || {
        counter.add(1);
        tally.probe();
        tally.breach();
        assert!(spare.note_returned());
    });
    assert_eq!((counter.get(), spare.returned()), (2, 2));
    let tallied = [&tally.probes, &tally.breaches].map(|count| count.load(Relaxed));
    assert_eq!(tallied, [2, 2]);
}

fn client() -> Shared<Client> {
    let client = Client {
        attempts: Atomic::new(u32::MAX),
        complaint: Atomic::new(0),
    };
    client.attempts.settle();
    client.complaint.settle();
    Shared::new(client)
}

/// Two connections get numbers, which are not zero.
fn numbered() {
    let client = client();
    let [first, second] = twice(move || client.next_epoch());
    assert!(first != second && first != 0 && second != 0);
}

/// Two contexts report the same fault.
fn reported() {
    let client = client();
    let [first, second] = twice(move || client.is_new_complaint(1));
    assert!(first != second, "one context logs");
    let qp = Shared::new(Qp::<()> {
        flushed: AtomicFlag::new(false),
        consumer: PhantomData,
    });
    qp.flushed.settle();
    let [first, second] = twice(move || qp.is_first_flush());
    assert!(first != second, "one context reports");
}
