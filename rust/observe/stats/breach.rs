// SPDX-License-Identifier: GPL-2.0

//! Breaches of the protocol by peers of the client.

use super::BreachCounters;

/// A breach of the protocol by a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breach {
    /// A header could not be decoded: event `xprtrdma_malformed_hdr`.
    MalformedHeader,
    /// A reply used chunks that its call had not offered: event `xprtrdma_reply_violation`.
    ReplyClaim,
    /// A peer invalidated an R_key without permission: event `xprtrdma_reminv_foreign`.
    ForeignRkey,
    /// A reply granted no credit: event `xprtrdma_bad_credits`.
    BadCredits,
    /// An RDMA Write with immediate data consumed a Receive, and carried no message: event
    /// `xprtrdma_not_a_send`.
    NotASend,
    /// A call of the server was refused because of its form, or because the server exceeded its
    /// credits: event `xprtrdma_cb_refused`.
    BackwardCall,
    /// A message broke the rules by which the peers agree on version and characteristics: event
    /// `xprtrdma_session_breach`.
    Session,
    /// The answer of the Connection Configuration Protocol was not accepted, or another message
    /// arrived before it.
    Conf,
}

/// The number of kinds.
const KINDS: usize = Breach::Conf as usize + 1;

/// The names of the counters, in the order of the variants.
const NAMES: [&str; KINDS] = [
    "malformed_header",
    "reply_claim",
    "foreign_rkey",
    "bad_credits",
    "not_a_send",
    "backward_call",
    "session",
    "conf",
];

/// The module's counters of [`Breach`]es.
pub(crate) static BREACHES: BreachCounters<KINDS> = BreachCounters::new(&NAMES);

/// Counts a breach. Any context.
pub(crate) fn breach(what: Breach) {
    BREACHES.count(what as usize);
}

#[cfg(RPCRDMA_KUNIT)]
#[kernel::prelude::kunit_tests(rpcrdma_breach)]
mod tests {
    use super::*;
    use crate::text::StackString;
    use kernel::prelude::*;

    #[test]
    fn each_breach_has_its_own_line() {
        let counts = BreachCounters::<KINDS>::new(&NAMES);
        let count = |n, what: Breach| (0..n).for_each(|_| counts.count(what as usize));
        count(1, Breach::MalformedHeader);
        count(2, Breach::ReplyClaim);
        count(3, Breach::ForeignRkey);
        count(4, Breach::BadCredits);
        count(5, Breach::NotASend);
        count(6, Breach::BackwardCall);
        count(7, Breach::Session);
        count(8, Breach::Conf);
        let expected: &[u8] = b"malformed_header 1\nreply_claim 2\nforeign_rkey 3\n\
            bad_credits 4\nnot_a_send 5\nbackward_call 6\nsession 7\nconf 8\n";
        assert_eq!(
            StackString::<160>::new(&fmt!("{counts}")).as_bytes(),
            expected
        );
    }
}
