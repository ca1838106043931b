// SPDX-License-Identifier: GPL-2.0

//! Breaches of the protocol by peers, counted for the whole module.
//!
//! Breaches are rare, so they are not counted for each transport. If a counter is not zero, the
//! trace event that belongs to it shows the peer.

use core::fmt::{self, Write};

use super::Counter;

/// A breach of the protocol by a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breach {
    /// A header could not be decoded: event `xprtrdma_malformed_hdr`.
    MalformedHeader,
    /// A reply used chunks that its call had not offered: event `xprtrdma_reply_violation`.
    ReplyClaim,
    /// A peer invalidated an R_key that the call did not allow it to: event
    /// `xprtrdma_reminv_foreign`.
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
    /// came before it.
    Conf,
}

/// The module's counters of [`Breach`]es.
pub(crate) struct BreachCounts {
    malformed_header: Counter,
    reply_claim: Counter,
    foreign_rkey: Counter,
    bad_credits: Counter,
    not_a_send: Counter,
    backward_call: Counter,
    session: Counter,
    conf: Counter,
}

static COUNTS: BreachCounts = BreachCounts::new();

/// Counts one breach. Any context.
pub(crate) fn breach(what: Breach) {
    COUNTS.count(what);
}

impl BreachCounts {
    const fn new() -> Self {
        Self {
            malformed_header: Counter::new(),
            reply_claim: Counter::new(),
            foreign_rkey: Counter::new(),
            bad_credits: Counter::new(),
            not_a_send: Counter::new(),
            backward_call: Counter::new(),
            session: Counter::new(),
            conf: Counter::new(),
        }
    }

    /// Returns the counters of the module.
    pub(crate) fn of_module() -> &'static Self {
        &COUNTS
    }

    fn count(&self, what: Breach) {
        match what {
            Breach::MalformedHeader => &self.malformed_header,
            Breach::ReplyClaim => &self.reply_claim,
            Breach::ForeignRkey => &self.foreign_rkey,
            Breach::BadCredits => &self.bad_credits,
            Breach::NotASend => &self.not_a_send,
            Breach::BackwardCall => &self.backward_call,
            Breach::Session => &self.session,
            Breach::Conf => &self.conf,
        }
        .add(1);
    }

    /// Writes one line `name count` for each kind of breach.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub(crate) fn write(&self, out: &mut impl Write) -> fmt::Result {
        core::writeln!(out, "malformed_header {}", self.malformed_header.get())?;
        core::writeln!(out, "reply_claim {}", self.reply_claim.get())?;
        core::writeln!(out, "foreign_rkey {}", self.foreign_rkey.get())?;
        core::writeln!(out, "bad_credits {}", self.bad_credits.get())?;
        core::writeln!(out, "not_a_send {}", self.not_a_send.get())?;
        core::writeln!(out, "backward_call {}", self.backward_call.get())?;
        core::writeln!(out, "session {}", self.session.get())?;
        core::writeln!(out, "conf {}", self.conf.get())
    }
}

#[cfg(RPCRDMA_KUNIT)]
#[kernel::prelude::kunit_tests(rpcrdma_breach)]
mod tests {
    use super::*;
    use kernel::prelude::*;
    use kernel::str::Formatter;

    #[test]
    fn each_breach_has_its_own_line() -> Result {
        let counts = BreachCounts::new();
        counts.count(Breach::MalformedHeader);
        (0..2).for_each(|_| counts.count(Breach::ReplyClaim));
        (0..3).for_each(|_| counts.count(Breach::ForeignRkey));
        (0..4).for_each(|_| counts.count(Breach::BadCredits));
        (0..5).for_each(|_| counts.count(Breach::NotASend));
        (0..6).for_each(|_| counts.count(Breach::BackwardCall));
        (0..7).for_each(|_| counts.count(Breach::Session));
        (0..8).for_each(|_| counts.count(Breach::Conf));
        let mut buffer = [0u8; 160];
        let mut out = Formatter::new(&mut buffer);
        counts.write(&mut out).map_err(|_| EOVERFLOW)?;
        let written = out.bytes_written();
        let expected: &[u8] = b"malformed_header 1\nreply_claim 2\nforeign_rkey 3\n\
            bad_credits 4\nnot_a_send 5\nbackward_call 6\nsession 7\nconf 8\n";
        assert_eq!(buffer.get(..written), Some(expected));
        Ok(())
    }
}
