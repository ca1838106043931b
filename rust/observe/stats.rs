// SPDX-License-Identifier: GPL-2.0

//! Counters of one transport, and its line in `/proc/self/mountstats`.
//!
//! Scripts parse that line by position: 27 values follow `xprt: rdma`. Each value has the position
//! of the C implementation; [`XprtLine`] has the table. Where the two implementations differ, the
//! documentation of the counter describes this one.

use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};

mod breach;
pub(crate) mod requester;

pub(crate) use breach::{breach, Breach, BREACHES};
pub(crate) use requester::{requester_breach, RequesterBreach, REQUESTER_BREACHES};

/// A counter.
///
/// Counters are accessed with relaxed ordering: a reader may see values of different moments.
pub(crate) struct Counter(Atomic<u64>);

impl Counter {
    const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Adds `n`. Any context.
    pub(crate) fn add(&self, n: u64) {
        self.0.add(n, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Counters of the kinds of a breach, for the whole module.
///
/// Breaches are rare, so they are not counted for each transport. The trace event that belongs to a
/// counter shows the peer.
pub(crate) struct BreachCounters<const N: usize> {
    names: &'static [&'static str],
    counters: [Counter; N],
}

impl<const N: usize> BreachCounters<N> {
    const fn new(names: &'static [&'static str]) -> Self {
        Self {
            names,
            counters: [const { Counter::new() }; N],
        }
    }

    /// Counts a breach of the kind with this index.
    fn count(&self, kind: usize) {
        if let Some(counter) = self.counters.get(kind) {
            counter.add(1);
        }
    }
}

/// Writes a line `name count` for each kind of breach.
impl<const N: usize> fmt::Display for BreachCounters<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = self.names.iter().zip(&self.counters);
        lines.try_for_each(|(name, counter)| f.write_fmt(fmt!("{name} {}\n", counter.get())))
    }
}

/// The counters of a transport since it was made, apart from [`CallCounts`]. Reconnecting does not
/// reset them.
///
/// All methods may be called in any context, by several tasks at once.
pub(crate) struct Stats {
    fixup: Counter,
    hardway: Counter,
    /// Calls that could not be prepared, or must be prepared again.
    pub(crate) failed_marshal: Counter,
    /// Replies that were refused, or that report the refusal of the call.
    pub(crate) bad_reply: Counter,
    /// Memory regions that were allocated.
    pub(crate) mrs_allocated: Counter,
    /// Calls that waited because the send queue was full.
    pub(crate) send_queue_full: Counter,
}

impl Stats {
    /// Makes the counters of a new transport, all of them zero.
    pub(crate) const fn new() -> Self {
        Self {
            fixup: Counter::new(),
            hardway: Counter::new(),
            failed_marshal: Counter::new(),
            bad_reply: Counter::new(),
            mrs_allocated: Counter::new(),
            send_queue_full: Counter::new(),
        }
    }

    /// Counts `bytes` of a reply that were copied into the receiver's pages.
    pub(crate) fn fixup(&self, bytes: usize) {
        if bytes != 0 {
            self.fixup.add(bytes as u64);
        }
    }

    /// Counts a buffer of `bytes` that was allocated because a request did not fit its persistent
    /// buffer.
    pub(crate) fn hardway(&self, bytes: usize) {
        self.hardway.add(bytes as u64);
    }
}

/// The counters that nearly each RPC changes. Each request slot has its own, under the lock of the
/// slot, so that no atomic operation is needed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallCounts {
    read_chunks: u64,
    write_chunks: u64,
    reply_chunks: u64,
    request_bytes: u64,
    reply_bytes: u64,
    pullup: u64,
    nomsg: u64,
    local_inv: u64,
}

impl CallCounts {
    /// Adds the counters of another slot.
    pub(crate) fn add(&mut self, other: &Self) {
        count(&mut self.read_chunks, other.read_chunks);
        count(&mut self.write_chunks, other.write_chunks);
        count(&mut self.reply_chunks, other.reply_chunks);
        count(&mut self.request_bytes, other.request_bytes);
        count(&mut self.reply_bytes, other.reply_bytes);
        count(&mut self.pullup, other.pullup);
        count(&mut self.nomsg, other.nomsg);
        count(&mut self.local_inv, other.local_inv);
    }

    /// Counts `segments` read segments that were put into a call's header.
    pub(crate) fn read_chunk(&mut self, segments: usize) {
        count(&mut self.read_chunks, segments as u64);
    }

    /// Counts `segments` segments for `bytes` that were put into a call's write list.
    pub(crate) fn write_chunk(&mut self, segments: usize, bytes: u32) {
        count(&mut self.write_chunks, segments as u64);
        count(&mut self.request_bytes, bytes.into());
    }

    /// Counts `segments` segments for `bytes` that were put into a call's reply chunk.
    pub(crate) fn reply_chunk(&mut self, segments: usize, bytes: u32) {
        count(&mut self.reply_chunks, segments as u64);
        count(&mut self.request_bytes, bytes.into());
    }

    /// Counts a call that is sent as a position-zero read chunk (RDMA_NOMSG).
    pub(crate) fn nomsg_call(&mut self) {
        count(&mut self.nomsg, 1);
    }

    /// Counts `bytes` that a reply had in its write chunk or reply chunk.
    pub(crate) fn reply_bytes(&mut self, bytes: u32) {
        count(&mut self.reply_bytes, bytes.into());
    }

    /// Counts `bytes` of a call that were copied into the send buffer.
    pub(crate) fn pullup(&mut self, bytes: usize) {
        count(&mut self.pullup, bytes as u64);
    }

    /// Counts `regions` memory regions that are invalidated by LOCAL_INV.
    pub(crate) fn local_inv(&mut self, regions: usize) {
        count(&mut self.local_inv, regions as u64);
    }
}

/// Adds to a counter, which wraps around.
fn count(counter: &mut u64, n: u64) {
    *counter = counter.wrapping_add(n);
}

/// A transport's line of `/proc/self/mountstats`, with its newline.
///
/// | | value | | value | | value |
/// | --- | --- | --- | --- | --- | --- |
/// | 1 | local port (0) | 10 | bklog_u | 19 | failed_marshal |
/// | 2 | bind_count | 11 | read chunks | 20 | bad_reply |
/// | 3 | connect_count | 12 | write chunks | 21 | nomsg calls |
/// | 4 | connect seconds | 13 | reply chunks | 22 | MRs recycled (0) |
/// | 5 | idle seconds | 14 | request bytes | 23 | MRs orphaned (0) |
/// | 6 | sends | 15 | reply bytes | 24 | MRs allocated |
/// | 7 | recvs | 16 | pullup bytes | 25 | local_inv |
/// | 8 | bad_xids | 17 | fixup bytes | 26 | Send queue full |
/// | 9 | req_u | 18 | hardway bytes | 27 | unused (0) |
///
/// The first field displays the values 1 to 10, which SUNRPC counts for every transport. The two
/// zeroes for memory regions are of recycled and orphaned regions, which do not exist here.
pub(crate) struct XprtLine<'a, G>(
    pub(crate) &'a G,
    pub(crate) &'a Stats,
    pub(crate) &'a CallCounts,
);

impl<G: fmt::Display> fmt::Display for XprtLine<'_, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self(generic, s, calls) = self;
        let columns = [
            calls.read_chunks,
            calls.write_chunks,
            calls.reply_chunks,
            calls.request_bytes,
            calls.reply_bytes,
            calls.pullup,
            s.fixup.get(),
            s.hardway.get(),
            s.failed_marshal.get(),
            s.bad_reply.get(),
            calls.nomsg,
            0,
            0,
            s.mrs_allocated.get(),
            calls.local_inv,
            s.send_queue_full.get(),
            0,
        ];
        f.write_fmt(fmt!("\txprt:\trdma {generic}"))?;
        columns
            .iter()
            .try_for_each(|column| write!(f, " {column}"))?;
        f.write_str("\n")
    }
}

#[cfg(RPCRDMA_KUNIT)]
#[kernel::prelude::kunit_tests(rpcrdma_stats)]
mod tests {
    use super::*;
    use crate::text::StackString;

    /// Makes counters with different values, so that the test notices exchanged columns.
    fn counted() -> (Stats, CallCounts) {
        let (s, mut one, mut other) = (Stats::new(), CallCounts::default(), CallCounts::default());
        one.read_chunk(11);
        one.write_chunk(10, 100);
        other.write_chunk(2, 0);
        one.reply_chunk(13, 40);
        other.reply_bytes(150);
        one.pullup(16);
        s.fixup(17);
        s.hardway(18);
        s.failed_marshal.add(19);
        s.bad_reply.add(20);
        (0..21).for_each(|_| other.nomsg_call());
        s.mrs_allocated.add(24);
        other.local_inv(25);
        s.send_queue_full.add(26);
        one.add(&other);
        (s, one)
    }

    const GENERIC: &str = "0 2 3 4 5 6 7 8 9 10";

    fn line_is(generic: &str, (s, calls): &(Stats, CallCounts), expected: &str) {
        let line = StackString::<512>::new(&fmt!("{}", XprtLine(&generic, s, calls)));
        assert_eq!(line.as_bytes(), expected.as_bytes());
    }

    #[test]
    fn xprt_line_has_each_value_in_its_place() {
        line_is(
            GENERIC,
            &counted(),
            "\txprt:\trdma 0 2 3 4 5 6 7 8 9 10 11 12 13 140 150 16 17 18 19 20 21 \
             0 0 24 25 26 0\n",
        );
    }

    #[test]
    fn xprt_line_of_a_new_transport() {
        let generic = "0 0 0 0 0 0 0 0 0 0";
        let expected = "\txprt:\trdma 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        line_is(generic, &(Stats::new(), CallCounts::default()), expected);
    }
}
